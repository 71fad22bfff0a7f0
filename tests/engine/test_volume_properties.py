"""Properties of volume claims: over any cluster, whatever is placed, promised, evicted and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.api.selectors import matches, node_term_matches
from kilauea.engine.model import status
from kilauea.engine.model.volumes import Claim, Volume
from kilauea.engine.plugins.predicates.volume_binding import VolumeBindingFilter
from kilauea.engine.plugins.predicates.volume_limits import VolumeLimitsFilter
from kilauea.engine.session import Session
from kilauea.engine.statement import EVICTABLE
from support.builders import conf, group, node
from support.probes import inside
from support.volume_objects import (
    ZONE,
    claim,
    csi_node,
    filter_of,
    held,
    local,
    on,
    some,
    storage_class,
    topologies,
    user,
    volume,
)

FILTERS = conf("allocate", ["gang"], ["predicates"])

SIZES = ("1Gi", "2Gi", "3Gi")
LABELS = ("a", "b")


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """A few nodes in two zones, volumes of three sorts of affinity, claims of two classes, pods with one to three."""
    few = st.integers(1, 4)
    nodes = [node(f"n{i}", cpu=99, labels={ZONE: draw(st.sampled_from(LABELS))}) for i in range(draw(few))]
    names = [n.name for n in nodes]
    affinity = st.one_of(
        st.none(), st.sampled_from(names).map(local), st.sampled_from(LABELS).map(lambda zone: on(ZONE, zone))
    )
    kept = st.sampled_from([None, None, None, "c0", "c1"])
    of = st.sampled_from(["slow", "fast"])
    modes = st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"], ["ReadWriteOncePod"]])
    volumes = [
        volume(
            f"v{i}", draw(st.sampled_from(SIZES)), draw(of), draw(modes), keep=draw(kept), driver="csi",
            **some(nodeAffinity=draw(affinity)),
        )
        for i in range(draw(st.integers(0, 8)))
    ]  # fmt: skip
    selected = st.sampled_from([None, None, None, *names])
    claims = []
    for i in range(5):
        chosen = draw(selected)
        marks = {"volume.kubernetes.io/selected-node": chosen} if chosen else None
        wanted = draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOncePod"]]))
        claims.append(claim(f"c{i}", draw(st.sampled_from(SIZES)), draw(of), wanted, annotations=marks))
    uses = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
    pods = [user(f"p{i}", *(f"c{n}" for n in draw(uses))) for i in range(4)]
    pods += [user("r0", *(f"c{n}" for n in draw(uses)), node=names[0])]
    slow = storage_class(allowedTopologies=topologies({ZONE: ["a"]}), provisioner=draw(st.sampled_from(["csi", ""])))
    limits = [csi_node(name, csi=draw(st.integers(1, 5))) for name in names]
    return [*nodes, *volumes, *claims, *pods, *limits, slow, storage_class("fast"), group()]


def fingerprint(session: Session) -> dict[str, Any]:
    """Everything that the filters remember of who is where."""
    binding: VolumeBindingFilter = filter_of(session, VolumeBindingFilter)
    for name in session.state.storage.classes:
        binding._pools_of(name)
    limits: VolumeLimitsFilter = filter_of(session, VolumeLimitsFilter)
    return {
        "held": held(session),
        "tasks": {key: sorted(hold.tasks) for key, hold in binding.holds.items()},
        "free": {name: [[v.name for _, v in p] for p in pools._free] for name, pools in sorted(binding._pools.items())},
        "users": [{k: count for k, count in each.items() if count} for each in (binding._users, binding._ending)],
        "count": [
            {driver: count.tolist() for driver, count in uses._count.items() if count.any()}
            for uses in (limits._now, limits._later)
        ],
        "uses": [
            {handle: dict(rows) for handle, rows in uses._users.items() if rows}
            for uses in (limits._now, limits._later)
        ],
    }


def verdicts(session: Session) -> dict[str, list[int]]:
    """What the filter says of every pod and node."""
    binding: VolumeBindingFilter = filter_of(session, VolumeBindingFilter)
    tasks = session.state.tasks.values()
    return {task.key: binding._judge(binding._unbound_claims(task.spec.claims)).tolist() for task in tasks}


def one_by_one(session: Session, claims: Sequence[Claim], row: int) -> int:
    """The verdict on one node, by looking at every volume for every claim, as Kubernetes does."""
    binding: VolumeBindingFilter = filter_of(session, VolumeBindingFilter)
    storage, facts = session.state.storage, session.nodes.facts[row]

    def reaches(one: Volume) -> bool:
        return one.terms is None or any(node_term_matches(term, facts.labels, "") for term in one.terms)

    gone = {hold.volume.name for hold in binding.holds.values() if hold.volume}
    to_make = []
    for asked in claims:
        hold = binding.holds.get(asked.key)
        if hold is not None:
            if not (reaches(hold.volume) if hold.volume else hold.row == row):
                return 1
        elif asked.selected_node and asked.selected_node != facts.name:
            return 1
        elif asked.selected_node:
            to_make.append(asked)
    for asked in claims:
        if asked.key in binding.holds or asked.selected_node:
            continue
        wish = asked.wish
        able = [v for v in storage.volumes.values() if v.class_name == asked.class_name]
        able = [v for v in able if v.size >= wish.size and v.mode == wish.mode]
        kept = [v for v in able if v.claim and asked.refers(v.claim)]
        if kept:
            mine = min(kept, key=lambda v: (v.size, v.name))
            if not reaches(mine):
                to_make.append(asked)
            continue
        able = [v for v in able if not v.claim and v.name not in gone and reaches(v) and v.modes >= set(wish.modes)]
        able = [v for v in able if wish.selector is None or matches(wish.selector, v.labels)]
        if able:
            gone.add(min(able, key=lambda v: (v.size, v.name)).name)
        else:
            to_make.append(asked)
    for asked in to_make:
        of = storage.classes[asked.class_name]
        allowed = of.topologies is None or any(node_term_matches(t, facts.labels, "") for t in of.topologies)
        if not of.provisions or not allowed:
            return 1
    return 0


@given(clusters(), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=8))
def test_a_discarded_statement_leaves_everything_as_it_was(
    objects: list[Object], steps: list[tuple[int, int, bool]]
) -> None:
    """Whatever is placed, promised and evicted, also where it does not fit: rolled back, all is as before."""

    def act(session: Session) -> None:
        tasks = sorted(session.state.tasks.values(), key=lambda t: t.key)
        statement = session.statement()
        verdicts(session)
        before = []
        for number, row, promised in steps:
            before.append((statement.checkpoint(), fingerprint(session), verdicts(session)))
            task, row = tasks[number], row % len(session.nodes)
            if task.status == status.PENDING:
                statement.take(task, row, now=not promised)
            elif task.status in EVICTABLE:
                statement.evict(task, "probe")
        for checkpoint, print_, verdict_ in reversed(before):
            statement.roll_back(checkpoint)
            assert fingerprint(session) == print_
            assert verdicts(session) == verdict_

    inside(*objects, do=act, conf=conf("", ["gang"], ["predicates"]))


@given(clusters(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_verdicts_are_those_of_looking_at_every_volume(objects: list[Object], steps: list[tuple[int, int]]) -> None:
    """Also after pods were placed, when only what changed is looked at again."""

    def act(session: Session) -> None:
        tasks = sorted((t for t in session.state.tasks.values() if not t.node), key=lambda t: t.key)
        binding: VolumeBindingFilter = filter_of(session, VolumeBindingFilter)
        statement = session.statement()
        for number, row in (*steps, (0, 0)):
            found = verdicts(session)
            for task in tasks:
                claims = binding._unbound_claims(task.spec.claims)
                expected = [one_by_one(session, claims, r) for r in range(len(session.nodes))]
                assert found[task.key] == expected
            task, row = tasks[number], row % len(session.nodes)
            if task.status == status.PENDING:
                statement.take(task, row, now=True)
            elif row % 2:
                statement.roll_back()

    inside(*objects, do=act, conf=conf("", ["gang"], ["predicates"]))


@given(clusters())
def test_no_volume_goes_to_two_claims(objects: list[Object]) -> None:
    found = [name for name in inside(*objects, do=held, conf=FILTERS).values() if not name.startswith("(")]
    assert len(found) == len(set(found))
