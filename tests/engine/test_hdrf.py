"""Hierarchical drf: the worked examples, the tree, and shares that stay true while tasks come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue, path_of
from kilauea.engine.session import Session
from kilauea.engine.statement import StatementError
from support.builders import Data, Objects, binds, conf, group, node, plan_of, plugin, pod, queue
from support.probes import inside, plugin_called

TREE = plugin("drf", enableHierarchy=True)
HDRF = conf("allocate", [TREE])
PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def at(name: str, path: str | None, weights: str | None = None, created: int | None = None) -> Object:
    """A queue at this place of the tree."""
    made = queue(name, created=created)
    marks = {PATH: path, WEIGHTS: weights}
    made.metadata.annotations = {key: text for key, text in marks.items() if text is not None}
    return made


def job(name: str, count: int = 10, cpu: Any = None, memory: Any = None, running: int = 0, **more: Any) -> Objects:
    """A group in the queue of that name, and its tasks."""
    return [group(name, name), tasks(name, count, cpu, memory, running, **more)]


def tasks(name: str, count: int, cpu: Any = None, memory: Any = None, running: int = 0, **more: Any) -> Objects:
    """Tasks of a group, the first so many running on `n1`."""
    return [pod(f"{name}-{i}", name, cpu, memory, node="n1" if i < running else None, **more) for i in range(count)]


def placed(*objects: Objects, document: Data = HDRF) -> dict[str, int]:
    """Number of tasks that each job gets."""
    return dict(Counter(name.rsplit("-", 1)[0] for name in binds(plan_of(*objects, conf=document))))


# --- the worked examples of the specification


def test_a_branch_is_not_starved_for_what_its_sibling_holds_of_another_resource() -> None:
    objects: list[Objects] = [
        node("n1", cpu=10, memory="10G", pods=50),
        [at("pg1", "root/sci", "100/50"), job("pg1", cpu=1, memory="1G")],
        [at("pg21", "root/eng/dev", "100/50/50"), job("pg21", cpu=1)],
        [at("pg22", "root/eng/prod", "100/50/50"), job("pg22", memory="1G")],
    ]
    assert placed(objects) == {"pg1": 5, "pg21": 5, "pg22": 5}


def test_children_that_cannot_grow_do_not_hold_back_their_siblings() -> None:
    objects: list[Objects] = [
        node("n1", cpu=30, memory="30G", pods=500),
        [at("pg1", "root/pg1", "100/25"), job("pg1", 30, cpu=1)],
        [at("pg2", "root/pg2", "100/25"), job("pg2", 30, cpu=1)],
        [at("pg31", "root/pg3/pg31", "100/25/50"), job("pg31", 30, cpu=1)],
        [at("pg32", "root/pg3/pg32", "100/25/50"), job("pg32", 30, memory="1G")],
        [at("pg4", "root/pg4", "100/25"), job("pg4", 30, memory="1G")],
    ]
    assert placed(objects) == {"pg1": 10, "pg2": 10, "pg31": 10, "pg32": 15, "pg4": 15}


def test_branches_get_room_by_their_weights() -> None:
    objects: list[Objects] = [
        node("n1", cpu=40, memory="40G", pods=500),
        [at("a", "root/a", "1/1"), job("a", 40, cpu=1)],
        [at("b", "root/b", "1/3"), job("b", 40, cpu=1)],
    ]
    assert placed(objects) == {"a": 10, "b": 30}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param({}, {"a": 40, "b": 10, "c": 30}, id="by the weights of each level"),
        pytest.param({"hierarchyShares": "volcano"}, {"a": 27, "b": 14, "c": 39}, id="by Volcano's formula if asked"),
    ],
)
def test_unequal_weights_inside_a_branch_do_not_change_what_the_branch_gets(
    shares: Mapping[str, str], expected: Mapping[str, int]
) -> None:
    objects: list[Objects] = [
        node("n1", cpu=80, memory="640Gi", pods=500),
        [at("a", "root/a", "1/50"), job("a", 80, cpu=1, memory="1Gi")],
        [at("b", "root/x/b", "1/50/10"), job("b", 80, cpu=1, memory="1Gi")],
        [at("c", "root/x/c", "1/50/30"), job("c", 80, cpu=1, memory="1Gi")],
    ]
    document = conf("allocate", [plugin("drf", shares, enableHierarchy=True)])
    assert placed(objects, document=document) == expected


# --- the tree


@pytest.mark.parametrize(
    ("path", "weights", "expected"),
    [
        pytest.param("root/eng/prod", "1/2/8", (("eng", "prod"), (2, 8)), id="the weight of the root means nothing"),
        pytest.param("root/eng/prod", "9/2", (("eng", "prod"), (2, 1)), id="a weight that is missing is one"),
        pytest.param("root/eng/prod", None, (("eng", "prod"), (1, 1)), id="also if none is given"),
        pytest.param("root/eng", "1/2/8", (("eng",), (2,)), id="weights too many are passed over"),
        pytest.param("root/a/b/c/d", "1/x/0.5/nan/inf", (tuple("abcd"), (1,) * 4), id="a bad or small weight is one"),
        pytest.param("root/a", "1/2.5", (("a",), (2.5,)), id="a weight need not be whole"),
        pytest.param("eng/prod", "2/8", (("eng", "prod"), (2, 8)), id="the root may be left out"),
        pytest.param("rootless/a", "2/8", (("rootless", "a"), (2, 8)), id="a name may begin like the root's"),
        pytest.param("root", "1", ((), ()), id="the root alone is not a path"),
        pytest.param("", "", ((), ()), id="nor is nothing"),
        pytest.param("root//a/", "1/2/3/4", (("a",), (3,)), id="empty names are passed over with their weights"),
    ],
)
def test_paths(path: str, weights: str | None, expected: object) -> None:
    assert path_of({PATH: path} | ({} if weights is None else {WEIGHTS: weights})) == expected


def test_the_oldest_queue_fixes_the_weight_of_a_common_node() -> None:
    new, old = at("a", "root/x/a", "1/1/1", created=9), at("b", "root/x/b", "1/3/1", created=1)
    objects: list[Objects] = [
        node("n1", cpu=8),
        [new, job("a", 8, cpu=1)],
        [old, job("b", 8, cpu=1)],
        [at("c", "root/y", "1/1"), job("c", 8, cpu=1)],
    ]
    found = placed(objects)
    assert (found["a"] + found["b"], found["c"]) == (6, 2)


def test_a_queue_without_a_path_stands_below_the_root_with_weight_one() -> None:
    objects: list[Objects] = [
        node("n1", cpu=40, memory="40G", pods=500),
        [at("a", None), job("a", 40, cpu=1)],
        [at("b", "root/b", "1/3"), job("b", 40, cpu=1)],
        [at("c", "root/c/c", "1/1/1"), job("c", 40, cpu=1)],
    ]
    assert placed(objects) == {"a": 8, "b": 24, "c": 8}


def test_a_queue_whose_path_goes_on_for_others_stands_beside_them() -> None:
    objects: list[Objects] = [
        node("n1", cpu=12),
        [at("a", "root/x"), job("a", 12, cpu=1)],
        [at("b", "root/x/b"), job("b", 12, cpu=1)],
        [at("c", "root/c"), job("c", 12, cpu=1)],
    ]
    assert placed(objects) == {"a": 3, "b": 3, "c": 6}


def test_equal_queues_go_by_age_however_deep_they_are() -> None:
    deep, flat = at("a", "root/x/y/a", created=1), at("b", "root/b", created=2)
    for first, objects in (("a", [deep, flat]), ("b", [at("a", "root/x/y/a", created=3), flat])):
        assert list(placed(node("n1", cpu=1), objects, job("a", 1, cpu=1), job("b", 1, cpu=1))) == [first]


def test_tasks_that_have_ended_do_not_keep_a_queue_from_being_saturated() -> None:
    ended = [group("e", "a", phase="Completed"), pod("e-0", "e", cpu=1, node="n1", phase="Succeeded")]
    half = [pod("a-w", "a", cpu=1, node="n1", phase="Succeeded")]
    objects = [node("n1", cpu=20), at("a", "root/a"), job("a", 1, cpu=1, running=1), half, ended]
    rest = [at("b", "root/b"), job("b", 3, cpu=2, running=1)]

    def keys(session: Session) -> list[Any]:
        return [saturated for name in "ab" for saturated, _ in session.queue_key(session.queues[name])[0]]

    assert inside(objects, rest, do=keys, conf=conf("", [TREE])) == [True, False]


# --- where it is registered


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param({}, (0, 0), id="plain drf orders jobs alone"),
        pytest.param({"enableHierarchy": True}, (1, 1), id="the hierarchical form orders queues and reclaims"),
        pytest.param({"enableHierarchy": True, "enableQueueOrder": False}, (0, 1), id="without the order"),
        pytest.param({"enableHierarchy": True, "enableReclaimable": False}, (1, 0), id="without reclaiming"),
    ],
)
def test_points(flags: dict[str, bool], expected: tuple[int, int]) -> None:
    def count(session: Session) -> tuple[int, int]:
        return len(list(session.points.walk("queue_order"))), len(list(session.points.walk("reclaimable")))

    assert inside(do=count, conf=conf("", [plugin("drf", **flags)])) == expected


def test_a_cluster_without_nodes_or_jobs_has_an_order_too() -> None:
    queues = [at("a", "root/a"), at("b", "root/x/b"), at("c", None)]

    def order(session: Session) -> list[str]:
        return [queue.name for queue in sorted(session.queues.values(), key=session.queue_key)]

    assert inside(queues, do=order, conf=conf("", [TREE])) == ["a", "b", "c"]
    assert inside(queues, job("b", 1, cpu=1), do=order, conf=conf("", [TREE])) == ["a", "b", "c"]


# --- reclaiming


def reclaimed(session: Session, preemptor: str, of: list[str]) -> list[str]:
    tasks = [session.state.tasks[f"ns/{name}"] for name in of]
    before = snapshot(session)
    found = [t.name for t in session.reclaimable(session.state.tasks[f"ns/{preemptor}"], tasks)]
    assert snapshot(session) == before
    return found


def snapshot(session: Session) -> dict[str, list[list[Any]]]:
    """The keys of all queues as they are now."""
    return {name: [list(part) for part in session.queue_key(q)[0]] for name, q in session.queues.items()}


@pytest.mark.parametrize(
    ("mine", "theirs", "weights", "expected"),
    [
        pytest.param(1, 4, "1/1", ["b-0", "b-1", "b-2", "b-3"], id="each candidate is judged alone"),
        pytest.param(1, 3, "1/1", [], id="not if both would be even afterwards"),
        pytest.param(2, 3, "1/1", [], id="nor if the preemptor would be ahead"),
        pytest.param(1, 3, "1/2", ["b-0", "b-1", "b-2"], id="the weight counts"),
    ],
)
def test_what_a_queue_reclaims_in_a_full_cluster(mine: int, theirs: int, weights: str, expected: list[str]) -> None:
    objects: list[Objects] = [
        node("n1", cpu=mine + theirs),
        [at("a", "root/a", weights), job("a", mine + 1, cpu=1, running=mine)],
        [at("b", "root/b", "1/1"), job("b", theirs + 1, cpu=1, running=theirs)],
    ]
    names = [f"b-{i}" for i in range(theirs)]
    assert inside(objects, do=lambda s: reclaimed(s, f"a-{mine}", names), conf=conf("", [TREE])) == expected


def test_a_preemptor_that_needs_no_more_yields_to_who_could_still_grow() -> None:
    objects: list[Objects] = [
        node("n1", cpu=10),
        [at("a", "root/a"), job("a", 1, cpu=1)],
        [at("b", "root/b"), job("b", 5, cpu=1, running=4)],
    ]
    assert inside(objects, do=lambda s: reclaimed(s, "a-0", ["b-0"]), conf=conf("", [TREE])) == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param(4, ["b-0"], id="only of its own department while that has more than the other"),
        pytest.param(8, ["b-0", "c-0"], id="of both when the other has more"),
    ],
)
def test_departments_are_compared_before_teams(others: int, expected: list[str]) -> None:
    objects: list[Objects] = [
        node("n1", cpu=6 + others),
        [at("a", "root/x/a"), job("a", 2, cpu=1)],
        [at("b", "root/x/b"), job("b", 7, cpu=1, running=6)],
        [at("c", "root/y/c"), job("c", 9, cpu=1, running=others)],
    ]
    assert inside(objects, do=lambda s: reclaimed(s, "a-0", ["b-0", "c-0"]), conf=conf("", [TREE])) == expected


def test_what_branches_hold_for_their_weights_does_not_depend_on_who_can_grow() -> None:
    """A way that ends early goes on with its last node; neither saturation nor the least sibling counts."""
    objects: list[Objects] = [
        node("n1", cpu=10, memory="10Gi"),
        [at("a", "root/x/a", "1/2/3"), job("a", 3, cpu=1, running=3)],
        [at("b", "root/x/b", "1/2/1"), job("b", 2, cpu=1, running=1)],
        [at("c", "root/c", "1/4"), job("c", 6, cpu=1, memory="1Gi", running=4)],
        [at("d", None)],
    ]

    def held(session: Session) -> dict[str, list[list[float]]]:
        assert session.weighted_shares is not None
        ways = {name: session.weighted_shares(queue) for name, queue in session.queues.items()}
        return {name: [[round(share, 3) for share in node[:2]] for node in way] for name, way in ways.items()}

    assert inside(objects, do=held, conf=conf("", [TREE])) == {
        "a": [[0.2, 0.018], [0.1, 0.009]],
        "b": [[0.2, 0.018], [0.1, 0.009]],
        "c": [[0.1, 0.1], [0.4, 0.4]],
        "d": [[0.0, 0.0], [0.0, 0.0]],
    }


@pytest.mark.parametrize(("weight", "lost"), [(1, 0), (3, 1)])
def test_a_team_takes_from_another_department_only_what_leaves_its_own_no_larger_share(weight: int, lost: int) -> None:
    """Though gang, in an earlier tier, lets the pods go, and the job that waits for all has put the team first."""
    objects: list[Objects] = [
        node("n1", cpu=10),
        [at("a", "root/x/a", f"1/{weight}/1"), job("a", 5, cpu=1, running=0)],
        [at("b", "root/x/b", f"1/{weight}/1"), job("b", 6, cpu=1, running=6)],
        [at("c", "root/y/c"), job("c", 4, cpu=1, running=4)],
        [group("all", "a"), pod("all-0", "all", cpu=10)],
    ]
    chosen = conf("reclaim", ["gang"], [TREE, "predicates"])
    evicted = [e.pod for e in plan_of(objects, conf=chosen).evictions]
    assert sum(name.startswith("ns/c") for name in evicted) == lost
    assert any(name.startswith("ns/b") for name in evicted)


def test_a_preemptor_without_a_group_gets_nothing() -> None:
    objects = [node("n1"), at("b", "root/b"), job("b", 1, cpu=1, running=1), pod("lost", "nowhere")]
    assert inside(objects, do=lambda s: reclaimed(s, "lost", ["b-0"]), conf=conf("", [TREE])) == []


# --- shares that stay true


def expected_keys(session: Session, requests: Mapping[str, Any] | None = None) -> dict[str, list[tuple[bool, float]]]:
    """Keys of all queues as the specification has them, by plain recursion over all jobs."""
    requests = requests or requests_of(session)
    total = session.total
    jobs = [j for j in session.state.jobs.values() if j.group and j.queue in session.queues]
    in_use = {name: sum(j.allocated.get(name, 0) for j in jobs) for name in total}
    tree: dict[str, Any] = {}
    weights: dict[tuple[str, ...], float] = {}
    for q in sorted(session.queues.values(), key=lambda q: (q.creation, q.name)):
        here = tree
        for depth, name in enumerate(q.hierarchy):
            here = here.setdefault(name, {})
            weights.setdefault(q.hierarchy[: depth + 1], q.hierarchy_weights[depth])
    ways = {q.name: q.hierarchy if ends(tree, q) else (*q.hierarchy, f"/{q.name}") for q in session.queues.values()}

    def leaf(job: Job) -> tuple[Mapping[str, float], float, bool]:
        held, request = job.allocated, requests[job.key]
        full = [n for n, h in held.items() if h and (h >= request[n] or in_use[n] >= total.get(n, 0))]
        return held, share(held), bool(full)

    def share(held: Mapping[str, float]) -> float:
        return max((held.get(name, 0) / amount for name, amount in total.items() if amount), default=0.0)

    def inner(way: tuple[str, ...]) -> tuple[Mapping[str, float], float, bool]:
        below = {w[: len(way) + 1] for w in ways.values() if w[: len(way)] == way and len(w) > len(way)}
        below = {child for child in below if any(ways[j.queue][: len(child)] == child for j in jobs)}
        heavy = [weights.get(child, 1.0) for child in sorted(below)]
        parts = [inner(child) for child in sorted(below)]
        parts += [leaf(j) for j in jobs if ways[j.queue] == way]
        heavy += [1.0] * (len(parts) - len(heavy))
        growing = [
            min(s, 1.0) / w for w, (_, s, saturated) in zip(heavy, parts, strict=True) if s > 0 and not saturated
        ]
        least = min(growing, default=0.0)
        held: dict[str, float] = {}
        for w, (amounts, s, saturated) in zip(heavy, parts, strict=True):
            for name, amount in amounts.items() if s > 0 else ():
                held[name] = held.get(name, 0) + (amount if saturated else amount * least * w / s)
        return held, share(held), bool(parts) and all(saturated for _, _, saturated in parts)

    depth = max(map(len, ways.values()))
    keys = {}
    for name, way in ways.items():
        found = [inner(way[: i + 1]) for i in range(len(way))]
        key = [(saturated, s / weights.get(way[: i + 1], 1.0)) for i, (_, s, saturated) in enumerate(found)]
        keys[name] = key + [(found[-1][2], found[-1][1])] * (depth - len(way))
    return keys


def requests_of(session: Session) -> dict[str, dict[str, float]]:
    """What the tasks of each job hold or wait for."""
    return {key: job.total_request() for key, job in session.state.jobs.items()}


def ends(tree: Mapping[str, Any], queue: Queue) -> bool:
    """Whether the tree ends where the queue stands."""
    for name in queue.hierarchy:
        tree = tree[name]
    return bool(queue.hierarchy) and not tree


PLACES = ["root/a", "root/b", "root/x/c", "root/x/d", "root/x/y/e", "root/z/f", None]
SIZES = [(1, "1Gi"), (2, None), (None, "3Gi"), (1, "5Gi"), (3, "1Gi")]


def check(session: Session, requests: Mapping[str, Any]) -> None:
    """The keys are those of the specification."""
    expected = expected_keys(session, requests)
    for name, found in snapshot(session).items():
        assert [s for s, _ in found] == [s for s, _ in expected[name]], name
        assert [x for _, x in found] == pytest.approx([x for _, x in expected[name]], rel=1e-9), name


@given(st.data())
def test_shares_follow_every_change_and_come_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 6))
    queues = [
        at(f"q{i}", data.draw(st.sampled_from(PLACES)), data.draw(st.sampled_from(["1/2/3/4", "1/1/1/1", "1/1/2"])))
        for i in range(count)
    ]
    groups = []
    for j in range(data.draw(st.integers(1, 8))):
        cpu, memory = data.draw(st.sampled_from(SIZES))
        groups.append(group(f"g{j}", f"q{data.draw(st.integers(0, count - 1))}"))
        runs = data.draw(st.integers(0, 2))
        groups += [pod(f"g{j}-{i}", f"g{j}", cpu, memory, node="n1" if i < runs else None) for i in range(4)]

    def play(session: Session) -> None:
        opening, requests = snapshot(session), requests_of(session)
        statement = session.statement()
        for _ in range(data.draw(st.integers(1, 12))):
            task = session.state.tasks[data.draw(st.sampled_from(sorted(session.state.tasks)))]
            if task.status == status.PENDING:
                with suppress(StatementError):
                    statement.allocate(task, 0)
            elif task.status == status.RUNNING:
                statement.evict(task, "probe")
            if data.draw(st.booleans()):
                check(session, requests)
        check(session, requests)
        statement.discard()
        assert snapshot(session) == opening

    small = data.draw(st.sampled_from([8, 12, 40]))
    inside(node("n1", cpu=small, memory="24Gi"), queues, groups, do=play, conf=conf("", [TREE]))


def test_the_first_queue_is_the_first_at_every_turn() -> None:
    places = ["root/x/a", "root/x/b", "root/y/c", "root/y/d", "root/y/e", "root/f"]
    queues = [at(f"q{i}", place, "1/3/2") for i, place in enumerate(places)]
    groups = [[group(f"j{i}", f"q{i % 6}"), tasks(f"j{i}", 3, *SIZES[i % 5])] for i in range(18)]
    turns: list[tuple[str, str]] = []

    def watch(session: Session) -> None:
        def note(queue: Queue) -> None:
            expected, jobs = expected_keys(session), session.state.jobs.values()
            waiting = {j.queue for j in jobs if j.counts[status.PENDING]}
            if queue.name in waiting:
                keys = {name: ([(s, round(x, 9)) for s, x in expected[name]], name) for name in waiting}
                turns.append((queue.name, min(waiting, key=lambda name: keys[name])))

        session.add_overused("watch", note)

    watched = conf("allocate", [TREE, "watch"])
    room = node("n1", cpu=200, memory="400Gi")
    plan_of(room, queues, groups, conf=watched, plugins=[plugin_called("watch", watch)])
    assert len(turns) == 54
    assert [taken for taken, _ in turns] == [first for _, first in turns]
