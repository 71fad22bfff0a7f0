"""Room for new volumes: claims of one cycle share the capacity of a segment, and the plan says what each claim gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.explain.group import explain
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.simulator.scenario import build_state
from support.builders import (
    HOSTNAME,
    NAMESPACE,
    Objects,
    binds,
    conf,
    flat,
    group,
    labels_of,
    node,
    pending,
    plan_in,
    plan_of,
    pod,
    queue,
    state_of,
)
from support.probes import inside
from support.volume_objects import (
    ZONE,
    claim,
    csi_node,
    held,
    local,
    room,
    storage_class,
    topologies,
    tracking,
    user,
    volume,
)

FILTERS = conf("allocate", ["gang"], ["predicates"])
NO_SPACE = "node(s) did not have enough free storage"
DRIVER = [storage_class(provisioner="csi"), tracking("csi")]
GIB = 2**30


def nodes(count: int) -> list[Object]:
    return [node(f"n{i}", cpu=9, labels={HOSTNAME: f"n{i}", ZONE: "ab"[i % 2]}) for i in range(1, count + 1)]


def disk(name: str, capacity: str | None, most: str | None = None) -> Object:
    """Room on one node."""
    return room(f"on-{name}", "slow", capacity, labels_of({HOSTNAME: name}), most=most)


def users(count: int, size: str = "4Gi") -> list[Object]:
    """Pods, each with a claim of its own."""
    claims = [claim(f"c{i}", size) for i in range(count)]
    return [*claims, *(user(f"p{i}", f"c{i}", created=i) for i in range(count))]


def given_to(plan: Plan) -> dict[str, str]:
    """By claim: the volume that it gets, or in brackets the class of a new one."""
    return {
        volume.claim.partition("/")[2]: volume.volume or f"({volume.class_name})"
        for bind in plan.binds
        for volume in bind.volumes
    }


# --- capacity


def test_claims_of_one_cycle_share_the_room_of_a_segment() -> None:
    plan = plan_of(nodes(2), DRIVER, users(4), disk("n1", "9Gi"), disk("n2", "4Gi"), group(minimum=1), conf=FILTERS)
    assert sorted(binds(plan).values()) == ["n1", "n1", "n2"]
    assert pending(plan)["p3"].message == f"0/2 nodes are unavailable: 2 {NO_SPACE}."


def test_a_segment_of_several_nodes_is_shared_by_them() -> None:
    zone = room("zone", "slow", "8Gi", labels_of({ZONE: "a"}))
    plan = plan_of(nodes(4), DRIVER, users(3), zone, group(minimum=1), conf=FILTERS)
    assert len(binds(plan)) == 2
    assert set(binds(plan).values()) <= {"n2", "n4"}


@pytest.mark.parametrize(
    ("capacity", "most", "started"),
    [
        pytest.param("8Gi", None, 2, id="two volumes fit"),
        pytest.param("7Gi", None, 1, id="one volume fits"),
        pytest.param("8Gi", "4Gi", 2, id="none is larger than the most"),
        pytest.param("99Gi", "3Gi", 0, id="each is larger than the most"),
        pytest.param(None, "4Gi", 3, id="a driver that tells only the most"),
        pytest.param("1Gi", "4Gi", 1, id="the most is what counts for the first"),
        pytest.param("8Ei", None, 3, id="however large"),
    ],
)
def test_how_many_claims_a_segment_takes(capacity: str | None, most: str | None, started: int) -> None:
    plan = plan_of(nodes(1), DRIVER, users(3), disk("n1", capacity, most), group(minimum=1), conf=FILTERS)
    assert len(binds(plan)) == started


@pytest.mark.parametrize(
    ("segments", "fits"),
    [
        pytest.param([disk("n1", "8Gi")], True, id="both fit"),
        pytest.param([disk("n1", "7Gi")], False, id="only one fits"),
        pytest.param([disk("n1", "5Gi"), room("x", "slow", "4Gi", {})], True, id="one in each segment"),
        pytest.param([disk("n1", "5Gi"), room("x", "slow", "3Gi", {})], False, id="the other segment is too small"),
        pytest.param([disk("n1", "8Ei"), room("x", "slow", None, {}, most="1Gi")], True, id="a small one beside it"),
    ],
)
def test_claims_of_one_pod_need_room_together(segments: list[Object], fits: bool) -> None:
    pair = [claim("a", "4Gi"), claim("b", "4Gi"), user("p", "a", "b")]
    plan = plan_of(nodes(1), DRIVER, pair, segments, group(), conf=FILTERS)
    assert binds(plan) == ({"p": "n1"} if fits else {})


def test_a_claim_that_finds_a_volume_leaves_the_room_to_the_others_of_its_pod() -> None:
    pair = [claim("a", "4Gi"), claim("b", "4Gi"), user("p", "a", "b")]
    there = [volume("v", "4Gi", nodeAffinity=local("n1"))]
    plan = plan_of(nodes(2), DRIVER, pair, there, disk("n1", "4Gi"), disk("n2", "4Gi"), group(), conf=FILTERS)
    assert (binds(plan), sorted(given_to(plan).values())) == ({"p": "n1"}, ["(slow)", "v"])


def test_a_gang_that_does_not_fit_leaves_the_room_to_the_next_group() -> None:
    gang = [group("a", minimum=2, created=1), user("a-0", "c0", group="a"), user("a-1", "c1", group="a")]
    later = [group("b", created=2), user("b-0", "c2", group="b")]
    claims = [claim(f"c{i}", "4Gi") for i in range(3)]
    plan = plan_of(nodes(1), DRIVER, claims, disk("n1", "5Gi"), gang, later, conf=FILTERS)
    assert binds(plan) == {"b-0": "n1"}


def test_a_claim_whose_volume_is_being_made_keeps_its_room() -> None:
    selected = claim("mine", "4Gi", annotations={"volume.kubernetes.io/selected-node": "n1"})
    running = user("r", "mine", node="n1")
    objects: list[Objects] = [nodes(1), DRIVER, selected, running, users(1), group()]
    assert binds(plan_of(*objects, disk("n1", "7Gi"), conf=FILTERS)) == {}
    assert binds(plan_of(*objects, disk("n1", "8Gi"), conf=FILTERS)) == {"p0": "n1"}


def test_claims_without_a_size_or_of_a_silent_driver_take_no_room() -> None:
    free = [claim("a", None), user("p", "a"), claim("b", "9Gi", of="silent"), user("q", "b")]
    silent = storage_class("silent", provisioner="other")
    plan = plan_of(nodes(1), DRIVER, silent, free, disk("n1", "1Gi"), group(minimum=1), conf=FILTERS)
    assert sorted(binds(plan)) == ["p", "q"]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 3), min_size=1)), max_size=4),
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_no_segment_promises_more_than_it_has(segments: list[tuple[int, set[int]]], pods: list[list[int]]) -> None:
    """Whatever the segments and pods, what is promised of all segments that nodes reach is at most what they have."""
    places = [
        node(f"n{i}", cpu=9, labels={f"s{n}": "x" for n, (_, on) in enumerate(segments) if i in on}) for i in range(4)
    ]
    rooms = [room(f"r{n}", "slow", f"{size}Gi", labels_of({f"s{n}": "x"})) for n, (size, _) in enumerate(segments)]
    claims = [claim(f"c{p}-{c}", f"{size}Gi") for p, sizes in enumerate(pods) for c, size in enumerate(sizes)]
    takers = [user(f"p{p}", *(f"c{p}-{c}" for c in range(len(sizes)))) for p, sizes in enumerate(pods)]
    plan = plan_of(places, rooms, DRIVER, claims, takers, group(minimum=1), conf=FILTERS)
    by_node: dict[str, int] = {}
    for bind in plan.binds:
        by_node[bind.node] = by_node.get(bind.node, 0) + sum(pods[int(bind.pod.rpartition("/p")[2])])
    assert sum(by_node.values()) <= sum(size for size, _ in segments)
    for name, total in by_node.items():
        assert total <= sum(size for size, on in segments if int(name[1:]) in on)


def test_a_statement_that_is_taken_back_gives_the_room_back() -> None:
    def act(session: Session) -> None:
        first, second = (session.state.tasks[f"{NAMESPACE}/{name}"] for name in ("p0", "p1"))
        statement = session.statement()
        assert session.evaluation(second).choose() is not None
        statement.allocate(first, 0)
        assert session.evaluation(second).choose() is None
        statement.discard()
        assert (session.evaluation(second).choose() is not None, held(session)) == (True, {})

    conf_ = conf("", ["gang"], ["predicates"])
    inside(nodes(1), DRIVER, users(2), disk("n1", "4Gi"), group(), do=act, conf=conf_)


# --- what a plan says


def test_a_plan_says_which_volume_each_claim_gets() -> None:
    volumes = [volume("v1", "2Gi", nodeAffinity=local("n1")), volume("v2", "1Gi", nodeAffinity=local("n1"))]
    mixed = [claim("a", "2Gi"), claim("b", "1Gi"), claim("c", of="made"), claim("bound", bound="w"), volume("w")]
    classes = [storage_class(), storage_class("made", provisioner="csi")]
    plan = plan_of(nodes(2), volumes, mixed, classes, user("p", "a", "b", "c", "bound"), group(), conf=FILTERS)
    assert (binds(plan), given_to(plan)) == ({"p": "n1"}, {"a": "v1", "b": "v2", "c": "(made)"})


def test_pods_that_share_a_claim_both_wait_for_it() -> None:
    shared = [claim("a"), user("p", "a", created=1), user("q", "a", created=2), volume("v")]
    plan = plan_of(nodes(1), shared, storage_class(), group(minimum=2), conf=FILTERS)
    assert [[v.volume for v in bind.volumes] for bind in plan.binds] == [["v"], ["v"]]


def test_a_plan_leaves_no_trace_in_the_state() -> None:
    state = state_of(nodes(1), claim("a"), user("p", "a"), volume("v"), storage_class(), group())
    first = plan_in(state, FILTERS)
    assert (given_to(first), state.storage.decided) == ({"a": "v"}, {})
    assert plan_in(state, FILTERS).binds == first.binds


def test_services_and_jobs_get_different_volumes() -> None:
    service = user("s", "b", schedulerName="default-scheduler", group="")
    objects: list[Objects] = [nodes(1), claim("a"), claim("b"), volume("v"), volume("w"), storage_class(), group()]
    plan = plan_in(build_state(flat([queue("q"), *objects, user("p", "a"), service])), FILTERS)
    assert given_to(plan) == {"b": "v", "a": "w"}


# --- reasons, and what ends them

LOCAL = [storage_class(), claim("data", "4Gi")]


def reason(*objects: Objects) -> str:
    state = state_of(group(), *objects)
    plan = plan_in(state, FILTERS)
    return "" if plan.binds else explain(plan, state, f"{NAMESPACE}/g").blockers[0].message


@pytest.mark.parametrize(
    ("before", "fix", "words"),
    [
        pytest.param(
            [LOCAL],
            [volume("v", "4Gi")],
            "claim data asks for 4Gi of class slow (no free volume; the class makes none)",
            id="no volume",
        ),
        pytest.param(
            [LOCAL, volume("u", "1Gi"), volume("t", "2Gi")],
            [volume("v", "4Gi")],
            "(2 free volumes, the largest has 2Gi; the class makes none)",
            id="too small",
        ),
        pytest.param(
            [LOCAL, volume("u", "4Gi", nodeAffinity=local("n9"))],
            [node("n9", labels={HOSTNAME: "n9"})],
            "(1 free volume, 1 of them suitable, on nodes with kubernetes.io/hostname In n9; the class makes none)",
            id="elsewhere",
        ),
        pytest.param(
            [claim("data", "4Gi"), storage_class(provisioner="csi", allowedTopologies=topologies({ZONE: ["z"]}))],
            [node("n9", labels={ZONE: "z"})],
            f"(no free volume; new ones only on nodes with {ZONE} In z)",
            id="topologies of the class",
        ),
        pytest.param(
            [claim("data", "4Gi"), DRIVER, disk("n1", "3Gi")],
            [room("more", "slow", "4Gi", labels_of({HOSTNAME: "n1"}))],
            "the most room that driver csi reports for one volume is 3Gi)",
            id="no room",
        ),
        pytest.param(
            [claim("data", "4Gi"), DRIVER],
            [disk("n1", "4Gi")],
            "the most room that driver csi reports for one volume is none)",
            id="no word of room",
        ),
        pytest.param(
            [
                claim("data", annotations={"volume.kubernetes.io/selected-node": "n9"}),
                storage_class(provisioner="csi"),
            ],
            [node("n9")],
            "; its volume is being made for node n9)",
            id="made for another node",
        ),
        pytest.param(
            [claim("data", bound="v"), volume("v", driver="csi"), csi_node("n1", csi=0)],
            [csi_node("n1", csi=1)],
            "the pod has 1 volume of driver csi, and a node takes at most 0",
            id="full",
        ),
    ],
)
def test_a_reason_names_the_claim_and_what_lacks_and_that_ends_it(
    before: list[Objects], fix: list[Object], words: str
) -> None:
    objects: list[Objects] = [*nodes(1), user("p", "data"), *before]
    assert words in reason(*objects)
    assert reason(*objects, fix) == ""


def test_a_reason_names_the_disk_that_another_pod_has() -> None:
    disks = [{"name": "d", "gcePersistentDisk": {"pdName": "shared"}}]
    objects: list[Objects] = [nodes(1), pod("p", volumes=disks)]
    message = "another pod on the node has gcePersistentDisk shared"
    assert message in reason(*objects, pod("r", node="n1", volumes=disks))
    assert reason(*objects, pod("r", node="n1")) == ""
