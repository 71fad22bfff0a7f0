"""Preempt and reclaim: what is evicted, for whom, and what the plans of evictions promise."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.api.times import SECOND, parse_time
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Gone
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Data,
    Objects,
    at,
    build,
    conf,
    flat,
    group,
    manifest,
    node,
    nominations,
    parsed,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
    state_of,
)

PREEMPT = conf("allocate, preempt", ["priority", "gang", "conformance"], ["predicates", "nodeorder"])
RECLAIM = conf("allocate, reclaim", ["priority", "gang", "conformance"], ["predicates", "capacity", "nodeorder"])
SHARES = conf("allocate, reclaim", ["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"])
TREE = conf(
    "allocate, reclaim",
    ["priority", "gang", "conformance"],
    ["predicates", {"name": "capacity", "enableHierarchy": True}, "nodeorder"],
)
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]


def running(name: str, size: int, *nodes: str, minimum: int = 1, cpu: int = 1, **more: Any) -> list[Object]:
    """A gang that runs, its pods on the nodes in turn."""
    of_group = {k: more.pop(k) for k in ("queue", "priority") if k in more}
    pods = [pod(f"{name}-{i}", name, cpu=cpu, node=nodes[i % len(nodes)], **more) for i in range(size)]
    return [group(name, minimum=minimum, phase="Running", **of_group), *pods]


def victims(plan: Plan) -> list[str]:
    return sorted(e.pod.removeprefix("ns/") for e in plan.evictions)


def starving(name: str, size: int, cpu: int = 1, **of_group: Any) -> list[Object]:
    return [group(name, minimum=size, **of_group), *(pod(f"{name}-{i}", name, cpu=cpu) for i in range(size))]


# --- preempt


def test_a_more_important_job_gets_the_room_of_surplus_pods() -> None:
    plan = plan_of(
        CLASSES, node("n1"), running("r", 4, "n1", priority="low"), starving("s", 2, priority="high"), conf=PREEMPT
    )
    assert len(victims(plan)) == 2
    assert set(nominations(plan).values()) == {"n1"}
    assert {(e.by, e.action) for e in plan.evictions} == {("ns/s", "preempt")}


def test_a_job_of_the_same_importance_evicts_no_one() -> None:
    plan = plan_of(
        CLASSES, node("n1"), running("r", 4, "n1", priority="low"), starving("s", 2, priority="low"), conf=PREEMPT
    )
    assert not plan.evictions


def test_a_gang_that_would_not_fit_whole_evicts_no_one() -> None:
    plan = plan_of(
        CLASSES, node("n1"), running("r", 4, "n1", priority="low"), starving("s", 5, priority="high"), conf=PREEMPT
    )
    assert not plan.evictions
    assert not plan.nominations


def test_one_large_pod_goes_rather_than_two_small_ones() -> None:
    low = [running("small", 2, "n1", priority="low"), running("large", 2, "n1", "n2", cpu=2, priority="low")]
    plan = plan_of(CLASSES, node("n1"), node("n2", cpu=2), low, starving("s", 1, cpu=2, priority="high"), conf=PREEMPT)
    assert len(victims(plan)) == 1


def test_a_pod_that_may_not_be_evicted_is_not() -> None:
    keep: dict[str, Any] = {"annotations": {"volcano.sh/preemptable": "false"}}
    plan = plan_of(
        CLASSES,
        node("n1"),
        running("r", 4, "n1", priority="low", **keep),
        starving("s", 1, priority="high"),
        conf=PREEMPT,
    )
    assert not plan.evictions


def test_system_pods_are_spared() -> None:
    system: dict[str, Any] = {"priorityClassName": "system-node-critical"}
    plan = plan_of(
        CLASSES,
        node("n1"),
        running("r", 4, "n1", priority="low", **system),
        starving("s", 1, priority="high"),
        conf=PREEMPT,
    )
    assert not plan.evictions


@pytest.mark.parametrize("least", ["n1", "n2", "n3"])
def test_among_nodes_that_cost_one_pod_the_least_important_loses_it(least: str) -> None:
    names = ["n1", "n2", "n3"]
    held = [running(f"on-{n}", 2, n, cpu=2, priority="low" if n == least else "middle") for n in names]
    plan = plan_of(
        CLASSES,
        priority_class("middle", 100),
        [node(n) for n in names],
        held,
        starving("s", 1, 2, priority="high"),
        conf=PREEMPT,
    )
    assert [v[:-2] for v in victims(plan)] == [f"on-{least}"]


def test_no_one_is_evicted_where_only_a_predicate_stands_in_the_way_that_eviction_does_not_mend() -> None:
    picky = [group("s", priority="high"), pod("s-0", "s", nodeSelector={"disk": "ssd"})]
    plan = plan_of(CLASSES, node("n1"), running("r", 4, "n1", priority="low"), picky, conf=PREEMPT)
    assert not plan.evictions


# --- reclaim

HALVES = [queue("a", deserved={"cpu": "2", "memory": "8Gi"}), queue("b", deserved={"cpu": "2", "memory": "8Gi"})]


def test_a_queue_takes_back_what_it_deserves_and_no_more() -> None:
    held = running("r", 4, "n1", queue="a")
    claim = [group("s", queue="b", minimum=2), *(pod(f"s-{i}", "s") for i in range(3))]
    plan = plan_of(HALVES, node("n1"), held, claim, conf=RECLAIM)
    assert len(victims(plan)) == 2


def taking_back(serves: str | None, *, starving: bool = True, by: str = "reclaim") -> Data:
    """Reclaim or gangreclaim for every pod that waits, or for starving jobs, if a plugin may say which these are."""
    flags = {"enableJobStarving": starving, "enableReclaimable": False}
    arguments: Data = {by: {"reclaimFor": serves}} if serves else {}
    return conf(f"allocate, {by}", [plugin("gang", **flags)], ["predicates", "capacity", "nodeorder"], **arguments)


@pytest.mark.parametrize("by", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(
    ("serves", "starving", "minimum", "lost"),
    [
        pytest.param(None, True, 1, 1, id="every pod is served, also beyond the minimum of its job"),
        pytest.param(None, False, 1, 1, id="without asking who starves"),
        pytest.param("pending", True, 1, 1, id="as the argument may say"),
        pytest.param("starving", True, 1, 0, id="a job that has its minimum is not starving"),
        pytest.param("starving", True, 2, 1, id="one below its minimum is"),
        pytest.param("starving", False, 2, 0, id="no one is served where no plugin says who starves"),
    ],
)
def test_whom_an_action_that_takes_back_serves(
    by: str, serves: str | None, starving: bool, minimum: int, lost: int
) -> None:
    own = [group("s", queue="b", minimum=minimum, phase="Running"), pod("s-0", "s", node="n1"), pod("s-1", "s")]
    objects: list[Objects] = [HALVES, node("n1"), running("r", 3, "n1", queue="a"), own]
    plan = plan_of(objects, conf=taking_back(serves, starving=starving, by=by))
    assert (len(plan.evictions), len(nominations(plan))) == (lost, lost)


@pytest.mark.parametrize("by", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(
    ("short", "lost"),
    [pytest.param("memory", 1, id="it deserves the memory"), pytest.param("cpu", 0, id="not the cpu")],
)
def test_a_queue_takes_back_what_is_short_if_it_deserves_that(by: str, short: str, lost: int) -> None:
    """It holds all the cpu that it deserves, and less memory; the other queue holds too much of both."""
    queues = [queue(n, deserved={"cpu": c, "memory": m}) for n, c, m in (("a", "2", "8Gi"), ("b", "1", "8Gi"))]
    size: dict[str, Any] = {"cpu": 8, "memory": "16Gi"} if short == "memory" else {"cpu": 4, "memory": "64Gi"}
    held = running("r", 3, "n1", queue="a", memory="5Gi")
    own = [
        group("s", queue="b", phase="Running"),
        pod("s-0", "s", node="n1", memory="1Gi"),
        pod("s-1", "s", memory="5Gi"),
    ]
    plan = plan_of(queues, node("n1", **size), held, own, conf=taking_back(None, by=by))
    assert (len(plan.evictions), len(nominations(plan))) == (lost, lost)


@pytest.mark.parametrize("by", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(
    ("holds", "weight", "lost"),
    [
        pytest.param((3, 0), 1, 1, id="less than the other"),
        pytest.param((3, 1), 1, 1, id="as much as the other will"),
        pytest.param((2, 2), 1, 0, id="more than the other will"),
        pytest.param((2, 2), 3, 1, id="less for its weight"),
    ],
)
@pytest.mark.parametrize("fair", [[], [plugin("drf", enableHierarchy=True)]], ids=["no queue plugin", "hdrf"])
def test_where_no_plugin_says_what_queues_deserve_one_takes_only_what_leaves_it_before_the_other(
    fair: list[Data], holds: tuple[int, int], weight: int, lost: int, by: str
) -> None:
    """Else each of two queues could take the same room back from the other, in turn and forever."""
    queues = [queue("a"), queue("b", weight)]
    queues[1].metadata.annotations = {
        "volcano.sh/hierarchy": "root/b",
        "volcano.sh/hierarchy-weights": f"1/{weight}",
    }
    held = running("r", holds[0], "n1", queue="a")
    own = [running("t", holds[1], "n1", queue="b") if holds[1] else [], starving("s", 1, queue="b")]
    chosen = conf(f"allocate, {by}", ["priority", "gang", "conformance"], [*fair, "predicates", "nodeorder"])
    plan = plan_of(queues, node("n1", cpu=sum(holds)), held, own, conf=chosen)
    assert (len(plan.evictions), len(nominations(plan))) == (lost, lost)
    told = [p.message for p in plan.pending if p.code == "QueueOutOfTurn"]
    assert told == ([] if lost else ["queue b would come after queue a if it took this room from it"])


def test_what_queues_deserve_decides_also_where_no_plugin_votes_on_who_may_reclaim() -> None:
    queues = [queue("a", deserved={"cpu": "2", "memory": "8Gi"}), queue("b", deserved={"cpu": "6", "memory": "24Gi"})]
    held = [running("r", 3, "n1", queue="a"), running("t", 5, "n1", queue="b"), starving("s", 1, queue="b")]
    without = conf("allocate, reclaim", ["gang"], ["predicates", plugin("capacity", enablePreemptive=False)])
    plan = plan_of(queues, node("n1", cpu=8, memory="32Gi"), held, conf=without)
    assert len(plan.evictions) == 1


@pytest.mark.parametrize("by", ["reclaim", "gangreclaim"])
def test_where_the_first_victims_would_leave_their_queue_behind_others_are_found(by: str) -> None:
    """One pod of c makes the room at the least cost, but c would then come before a; b has room to spare."""
    queues, machines = [queue(name) for name in "abc"], [node(f"n{i}", cpu=4) for i in range(1, 4)]
    large, small = (pod(f"r-{cpu}", "r", cpu=cpu, node=on) for cpu, on in ((4, "n1"), (1, "n4")))
    of_b = running("t", 4, "n2", "n2", "n3", "n3", queue="b", cpu=2)
    held = [group("r", minimum=1, phase="Running", queue="c"), large, small, node("n4", cpu=1), *of_b]
    chosen = conf(f"allocate, {by}", ["priority", "gang", "conformance"], ["predicates", "nodeorder"])
    plan = plan_of(queues, machines, held, starving("s", 1, 4, queue="a"), conf=chosen)
    assert (len(victims(plan)), len(nominations(plan))) == (2, 1)
    assert {name.rpartition("-")[0] for name in victims(plan)} == {"t"}


def test_a_queue_that_may_not_be_reclaimed_keeps_everything() -> None:
    queues = [queue("a", deserved={"cpu": "2"}, reclaimable=False), queue("b", deserved={"cpu": "2"})]
    plan = plan_of(queues, node("n1"), running("r", 4, "n1", queue="a"), starving("s", 2, queue="b"), conf=RECLAIM)
    assert not plan.evictions


def test_a_guarantee_is_never_touched() -> None:
    queues = [
        queue("a", deserved={"cpu": "3"}, guarantee={"cpu": "3"}),
        queue("b", deserved={"cpu": "4"}),
    ]
    plan = plan_of(queues, node("n1"), running("r", 4, "n1", queue="a"), starving("s", 1, queue="b"), conf=RECLAIM)
    more = plan_of(queues, node("n1"), running("r", 4, "n1", queue="a"), starving("s", 2, queue="b"), conf=RECLAIM)
    assert len(victims(plan)) == 1
    assert not more.evictions


def test_a_gang_at_its_minimum_goes_whole_or_not_at_all() -> None:
    held = [running("whole", 4, "n1", minimum=4, queue="a")]
    queues = [queue("a", deserved={"cpu": "0"}), queue("b", deserved={"cpu": "4", "memory": "16Gi"})]
    plan = plan_of(queues, node("n1"), held, starving("s", 1, queue="b"), conf=RECLAIM)
    assert len(victims(plan)) in (0, 4)


def test_rooms_of_the_nearest_queues_of_a_tree_are_taken_first() -> None:
    queues = [
        queue("team-a", deserved={"cpu": "4"}),
        queue("team-b", deserved={"cpu": "2"}),
        queue("training", parent="team-a", deserved={"cpu": "1"}),
        queue("inference", parent="team-a", deserved={"cpu": "3"}),
        queue("batch", parent="team-b", deserved={"cpu": "1"}),
        queue("root"),
    ]
    held = [running("t", 3, "n1", queue="training"), running("b", 3, "n1", queue="batch")]
    plan = plan_of(queues, node("n1", cpu=6), held, starving("s", 1, queue="inference"), conf=TREE)
    assert [v.rsplit("-", 1)[0] for v in victims(plan)] == ["t"]


# --- what every plan promises

sizes = st.integers(1, 4)
gangs = st.lists(st.tuples(st.sampled_from("ab"), sizes, sizes, st.integers(1, 2)), max_size=5)
claims = st.lists(st.tuples(st.sampled_from("ab"), sizes, st.integers(1, 2)), min_size=1, max_size=3)


def cluster(nodes: int, held: list[Any], wanted: list[Any], preempting: bool) -> list[Object]:
    """Gangs that run, first fit, and gangs that claim."""
    free = {f"n{i}": 4 for i in range(nodes)}
    objects: list[Objects] = [CLASSES, [node(name) for name in free], HALVES]
    for number, (owner, size, minimum, cpu) in enumerate(held):
        places = []
        for _ in range(size):
            place = next((n for n, left in free.items() if left >= cpu), None)
            if place is not None:
                free[place] -= cpu
                places.append(place)
        if places:
            of_queue = "a" if preempting else owner
            made = running(f"r{number}", len(places), *places, cpu=cpu, queue=of_queue, priority="low")
            made[0] = group(f"r{number}", of_queue, min(minimum, len(places)), "Running", priority="low")
            objects.append(made)
    for number, (owner, size, cpu) in enumerate(wanted):
        objects.append(starving(f"s{number}", size, cpu, queue="a" if preempting else owner, priority="high"))
    return flat(objects)


def laws(shared: Path) -> Any:
    spec = importlib.util.spec_from_file_location("laws", shared / "tools" / "laws.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_json(plan: Plan) -> Data:
    return {
        "binds": {b.pod: b.node for b in plan.binds},
        "pipelined": {n.pod: n.node for n in plan.nominations},
        "evictions": [{"pod": e.pod, "node": e.node, "by": e.by, "action": e.action} for e in plan.evictions],
    }


@pytest.mark.parametrize(("chosen", "preempting"), [(PREEMPT, True), (RECLAIM, False), (SHARES, False)])
@given(nodes=st.integers(1, 3), held=gangs, wanted=claims)
def test_every_plan_keeps_the_laws(
    shared: Path, chosen: Data, preempting: bool, nodes: int, held: list[Any], wanted: list[Any]
) -> None:
    objects = cluster(nodes, held, wanted, preempting)
    plan = cycle(state_of(*objects), parsed(chosen)[0], NOW)
    assert laws(shared).broken([manifest(o) for o in objects], chosen, as_json(plan)) == []


@pytest.mark.parametrize(("chosen", "preempting"), [(PREEMPT, True), (RECLAIM, False)])
@given(nodes=st.integers(1, 3), held=gangs, wanted=claims)
def test_evictions_come_to_an_end_and_victims_that_come_back_evict_no_one(
    chosen: Data, preempting: bool, nodes: int, held: list[Any], wanted: list[Any]
) -> None:
    objects = cluster(nodes, held, wanted, preempting)
    state = state_of(*objects)
    life = SimulatedCluster(objects, NOW)
    evicted: Counter[str] = Counter()
    for _ in range(8):
        plan = cycle(state, parsed(chosen)[0], NOW)
        if not plan.evictions and not plan.binds:
            break
        evicted.update(e.pod for e in plan.evictions)
        again = [manifest(pod) for e in plan.evictions if (pod := life.pod(e.pod))]
        events = life.carry_out(plan)
        for data in again:
            data["spec"].pop("nodeName", None)
            events += life.put(build(data | {"status": {"phase": "Pending"}}))
        for event in events:
            state.apply(event)
    else:
        pytest.fail("evictions do not end")
    assert all(count == 1 for count in evicted.values())


def test_what_was_tried_leaves_no_trace() -> None:
    objects = flat(
        [CLASSES, node("n1"), running("r", 4, "n1", priority="low"), starving("s", 5, priority="high"), queue("q")]
    )
    state = state_of(*objects)
    before = cycle(state, parsed(conf("allocate", ["gang"]))[0], NOW)
    cycle(state, parsed(PREEMPT)[0], NOW)
    assert cycle(state, parsed(conf("allocate", ["gang"]))[0], NOW) == before
    state.apply(Gone("Pod", "ns/s-4"))


# --- room that was given away in the same cycle


def short_of_one(*, spread: bool = False) -> list[Objects]:
    """Two cores are free. The gang of three deserves three; borrowers hold two and would take the free ones too."""
    return [
        *(node(f"n{i}", cpu=2) for i in (1, 2)),
        queue("own", deserved={"cpu": "3"}),
        queue("other", deserved={"cpu": "1"}),
        *running("old", 2, "n1", "n2" if spread else "n1", queue="other"),
        *starving("wide", 3, queue="own"),
        group("more", minimum=1, phase="Inqueue", queue="other"),
        [pod(f"more-{i}", "more") for i in range(2)],
    ]


@pytest.mark.parametrize("spread", [False, True])
def test_who_would_take_the_room_back_gets_it_before_anybody_is_evicted(spread: bool) -> None:
    plan = plan_of(short_of_one(spread=spread), conf=RECLAIM)
    assert len(plan.evictions) == 1
    assert victims(plan)[0].startswith("old")
    assert plan.binds == ()
    assert len(nominations(plan)) == 3
    reasons = {p.pod: p.code for p in plan.pending if p.group == "ns/more"}
    assert reasons == {"ns/more-0": "RoomKept", "ns/more-1": "RoomKept"}


def test_whom_no_one_would_take_room_from_again_starts_as_before() -> None:
    objects = [*short_of_one(), node("n3", cpu=2, labels={"own": "no"}, taints=["own=no:NoSchedule"])]
    objects += [group("apart", minimum=1, phase="Inqueue", queue="other")]
    tolerant = [{"key": "own", "operator": "Exists"}]
    plan = plan_of([*objects, pod("apart-0", "apart", tolerations=tolerant, nodeSelector={"own": "no"})], conf=RECLAIM)
    assert [bind.pod for bind in plan.binds] == ["ns/apart-0"]
    assert len(plan.evictions) == 1


def test_a_lesser_job_does_not_start_where_a_greater_one_would_evict_it() -> None:
    objects: list[Objects] = [
        *CLASSES,
        *(node(f"n{i}", cpu=2) for i in (1, 2)),
        *running("old", 2, "n1", priority="low"),
        *starving("wide", 3, priority="high"),
        group("more", minimum=0, phase="Inqueue", priority="low"),
        [pod(f"more-{i}", "more") for i in range(2)],
    ]
    plan = plan_of(objects, conf=PREEMPT)
    assert (len(plan.evictions), plan.binds, len(nominations(plan))) == (1, (), 3)


def test_a_gang_that_was_to_start_stays_whole_when_its_room_is_kept() -> None:
    objects = [*short_of_one()[:-2], group("more", minimum=2, phase="Inqueue", queue="other")]
    plan = plan_of([*objects, [pod(f"more-{i}", "more") for i in range(2)]], conf=RECLAIM)
    assert plan.binds == ()
    assert len(plan.evictions) == 1


# --- promises to pods whose victims do not end


@pytest.mark.parametrize(
    ("late", "running_since", "starts"),
    [
        pytest.param(30, 0, "low-0", id="late for half a minute"),
        pytest.param(90, 0, "high-0", id="late for longer than a minute"),
        pytest.param(3600, 3590, "low-0", id="the machine slept for an hour, until ten seconds ago"),
        pytest.param(3600, 3500, "high-0", id="it has been awake for longer than a minute"),
    ],
)
def test_room_is_not_held_for_a_gang_whose_victim_is_long_overdue(late: int, running_since: int, starts: str) -> None:
    """A gang of two waits for a pod on n1 to end and holds n2, which is free; a more important group wants n2."""
    stuck = [group("old", phase="Running"), pod("old-0", "old", cpu=1, node="n1", deleting=True)]
    gang = [
        group("low", minimum=2, phase="Inqueue", priority="low"),
        *(pod(f"low-{i}", "low", cpu=1, nominated=f"n{i + 1}") for i in range(2)),
    ]
    better = [group("high", minimum=1, phase="Inqueue", priority="high"), pod("high-0", "high", cpu=1)]
    state = state_of(flat([node("n1", cpu=1), node("n2", cpu=1), CLASSES, stuck, gang, better]))
    begin = parse_time(at(0))
    memory = AdmissionBackoff(running_since=begin + running_since * SECOND if running_since else 0)
    plan = cycle(state, parsed(PREEMPT)[0], begin + late * SECOND, backoff=memory)
    found = {*(b.pod for b in plan.binds), *(n.pod for n in plan.nominations if n.node == "n2")}
    assert found == {f"ns/{starts.replace('low-0', 'low-1')}"}
