"""Shuffle, gangpreempt and gangreclaim: what is evicted, for whom, and what the plans of evictions promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from engine.test_claims import as_json, claims, cluster, gangs, laws, running, sizes, victims
from engine.test_topology import hypernode
from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.eviction.bundles import GangPreemptor
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Data,
    Objects,
    build,
    conf,
    flat,
    group,
    manifest,
    node,
    nominations,
    parsed,
    plan_of,
    pod,
    priority_class,
    queue,
    state_of,
)
from support.probes import inside, plugin_called

TIERS: tuple[Any, ...] = (
    ["priority", "gang", "conformance"],
    ["predicates", ("network-topology-aware", {"weight": 10}), "nodeorder"],
)
PREEMPT = conf("allocate, gangpreempt", *TIERS)
RECLAIM = conf("allocate, gangreclaim", TIERS[0], [*TIERS[1], "capacity"])
CLASSES = [priority_class("lowest", 1), priority_class("low", 10), priority_class("high", 1000)]
HALVES = [queue("a", deserved={"cpu": "2", "memory": "8Gi"}), queue("b", deserved={"cpu": "2", "memory": "8Gi"})]
SWITCH = {"mode": "hard", "highestTierAllowed": 1}


def preemptor(size: int, cpu: int = 1, topology: Mapping[str, Any] | None = None, **of_group: Any) -> list[Object]:
    """A gang `s` that waits for all its pods."""
    wish = manifest(group("s", minimum=size, **of_group))
    if topology:
        wish["spec"]["networkTopology"] = dict(topology)
    return [build(wish), *(pod(f"s-{i}", "s", cpu=cpu) for i in range(size))]


def switches() -> list[Object]:
    """Four nodes of 4 cpu, n0 and n1 under switch s0, n2 and n3 under s1."""
    nodes = [node(f"n{i}") for i in range(4)]
    return [*nodes, *(hypernode(f"s{i}", 1, [f"n{2 * i}", f"n{2 * i + 1}"]) for i in range(2))]


def jobs_of(plan: Plan) -> Counter[str]:
    """How many pods each job loses."""
    return Counter(name.rsplit("-", 1)[0] for name in victims(plan))


def switches_of(plan: Plan) -> set[int]:
    return {int(name[1:]) // 2 for name in nominations(plan).values()}


# --- shuffle


def names_victims(*names: str) -> Any:
    """A plugin that names these tasks."""

    def register(session: Session) -> None:
        session.add_victim_tasks("own", lambda tasks: [t for t in tasks if t.name in names])

    return plugin_called("own", register)


@pytest.mark.parametrize(
    ("case", "named", "flags", "expected"),
    [
        ("those that a plugin names go and no one else", ["r-1", "r-3"], {}, ["r-1", "r-3"]),
        ("who does not run does not go", ["r-0", "waiting"], {}, ["r-0"]),
        ("a plugin that names no one evicts no one", [], {}, []),
        ("a plugin that is switched off has no say", ["r-1"], {"enabledVictim": False}, []),
    ],
)
def test_shuffle(case: str, named: list[str], flags: dict[str, bool], expected: list[str]) -> None:
    plan = plan_of(
        node("n1"),
        running("r", 4, "n1"),
        pod("waiting", "r"),
        conf=conf("shuffle", ["gang", {"name": "own", **flags}]),
        plugins=[names_victims(*named)],
    )
    assert victims(plan) == expected, case
    assert {e.action for e in plan.evictions} <= {"shuffle"}


def test_shuffle_without_a_plugin_that_names_victims_evicts_no_one() -> None:
    assert not plan_of(node("n1"), running("r", 4, "n1"), conf=conf("shuffle", ["gang", "priority"])).evictions


# --- gangpreempt


def test_room_is_made_in_one_domain_for_a_gang_that_has_to_be_close() -> None:
    held = running("r", 16, "n0", "n1", "n2", "n3", priority="low")
    plan = plan_of(CLASSES, switches(), held, preemptor(8, topology=SWITCH, priority="high"), conf=PREEMPT)
    assert len(victims(plan)) == len(nominations(plan)) == 8
    assert len(switches_of(plan)) == 1
    assert {(e.by, e.action) for e in plan.evictions} == {("ns/s", "gangpreempt")}


def test_a_gang_that_no_allowed_domain_could_hold_evicts_no_one() -> None:
    held = running("r", 16, "n0", "n1", "n2", "n3", priority="low")
    plan = plan_of(CLASSES, switches(), held, preemptor(9, topology=SWITCH, priority="high"), conf=PREEMPT)
    assert not plan.evictions
    assert not plan.nominations


def test_a_gang_without_a_wish_gets_room_anywhere() -> None:
    held = running("r", 16, "n0", "n1", "n2", "n3", priority="low")
    plan = plan_of(CLASSES, switches(), held, preemptor(12, priority="high"), conf=PREEMPT)
    assert len(victims(plan)) == len(nominations(plan)) == 12


@pytest.mark.parametrize(
    ("case", "held", "expected"),
    [
        ("a job of the same priority keeps all", running("r", 4, "n1", priority="high"), {}),
        ("a job of lower priority gives way", running("r", 4, "n1", priority="low"), {"r": 1}),
        (
            "spare tasks go before gangs, however unimportant these are",
            [running("r", 2, "n1", priority="low"), running("w", 2, "n1", minimum=2, priority="lowest")],
            {"r": 1},
        ),
        (
            "of two that can spare tasks the less important one does",
            [running("r", 2, "n1", priority="low"), running("w", 2, "n1", priority="lowest")],
            {"w": 1},
        ),
        ("a gang at its minimum goes whole", running("w", 4, "n1", minimum=4, priority="low"), {"w": 4}),
        (
            "of two gangs the less important one goes",
            [
                running("r", 2, "n1", minimum=2, priority="low"),
                running("w", 2, "n1", minimum=2, priority="lowest"),
            ],
            {"w": 2},
        ),
        (
            "a pod that says so is not evicted",
            running("r", 4, "n1", priority="low", annotations={"volcano.sh/preemptable": "false"}),
            {},
        ),
        (
            "a gang with one pod that may not be evicted stays whole",
            [
                running("w", 4, "n1", minimum=4, priority="low")[:-1],
                pod("w-3", "w", node="n1", annotations={"volcano.sh/preemptable": "false"}),
            ],
            {},
        ),
        (
            "system pods stay",
            running("r", 4, "n1", priority="low", priorityClassName="system-node-critical"),
            {},
        ),
    ],
)
def test_who_gives_way(case: str, held: list[Objects], expected: dict[str, int]) -> None:
    plan = plan_of(CLASSES, node("n1"), held, preemptor(1, priority="high"), conf=PREEMPT)
    assert jobs_of(plan) == expected, case


def test_roles_keep_their_minimum() -> None:
    held = [
        group("r", minimum=2, phase="Running", roles={"ps": 1, "worker": 1}, priority="low"),
        pod("ps-0", "r", node="n1", role="ps"),
        *(pod(f"worker-{i}", "r", node="n1", role="worker") for i in range(3)),
    ]
    plan = plan_of(CLASSES, node("n1"), held, preemptor(2, priority="high"), conf=PREEMPT)
    assert jobs_of(plan) == {"worker": 2}


def test_jobs_of_other_queues_keep_all() -> None:
    queues = [queue("a"), queue("b")]
    held = running("r", 4, "n1", queue="a", priority="low")
    plan = plan_of(CLASSES, queues, node("n1"), held, preemptor(1, queue="b", priority="high"), conf=PREEMPT)
    assert not plan.evictions


def test_a_gang_that_goes_takes_its_pods_outside_the_domain_with_it() -> None:
    held = running("w", 4, "n0", "n1", "n2", "n3", minimum=4, cpu=4, priority="low")
    plan = plan_of(CLASSES, switches(), held, preemptor(2, 4, SWITCH, priority="high"), conf=PREEMPT)
    assert len(switches_of(plan)) == 1
    assert jobs_of(plan) == {"w": 4}


def test_a_gang_that_cannot_go_whole_keeps_its_pods_in_the_domain() -> None:
    held = running("w", 3, "n0", "n1", "n2", minimum=4, cpu=4, priority="low")
    held[0] = group("w", minimum=4, phase="Running", priority="low")
    keep = pod("w-3", "w", cpu=4, node="n3", annotations={"volcano.sh/preemptable": "false"})
    plan = plan_of(CLASSES, switches(), held, keep, preemptor(2, 4, SWITCH, priority="high"), conf=PREEMPT)
    assert not plan.evictions


@pytest.mark.parametrize(("allowed", "expected"), [(True, {"w": 4}), (False, {})])
def test_gangs_go_whole_only_where_that_is_allowed(allowed: bool, expected: dict[str, int]) -> None:
    held = running("w", 4, "n1", minimum=4, priority="low")
    chosen = conf("allocate, gangpreempt", *TIERS, gangpreempt={"allowWholeBundle": allowed})
    assert jobs_of(plan_of(CLASSES, node("n1"), held, preemptor(1, priority="high"), conf=chosen)) == expected


@pytest.mark.parametrize(("most", "room"), [(1, set()), (2, {1}), (0, {1})])
def test_no_more_domains_are_tried_than_allowed_and_eight_where_the_number_is_none(most: int, room: set[int]) -> None:
    held = [
        running("keep", 8, "n0", "n1", priority="high"),
        running("r", 8, "n2", "n3", priority="low"),
    ]
    chosen = conf("allocate, gangpreempt", *TIERS, gangpreempt={"maxDomains": most})
    plan = plan_of(CLASSES, switches(), held, preemptor(2, topology=SWITCH, priority="high"), conf=chosen)
    assert switches_of(plan) == room


def test_what_is_not_needed_is_put_back() -> None:
    held = [
        running("keep", 1, "n1", cpu=3, priority="high"),
        running("r", 2, "n1", "n2", priority="lowest"),
        running("big", 2, "n2", "n3", cpu=3, priority="low"),
    ]
    nodes = [node("n1"), node("n2"), node("n3", cpu=3)]
    plan = plan_of(CLASSES, nodes, held, preemptor(1, 3, priority="high"), conf=PREEMPT)
    assert jobs_of(plan) == {"big": 1}


def test_no_one_goes_where_a_predicate_stands_in_the_way_that_evictions_do_not_mend() -> None:
    picky = [group("s", priority="high"), pod("s-0", "s", nodeSelector={"disk": "ssd"})]
    plan = plan_of(CLASSES, node("n1"), running("r", 4, "n1", priority="low"), picky, conf=PREEMPT)
    assert not plan.evictions


def test_each_sub_gang_gets_its_room_in_one_domain() -> None:
    policy = {"name": "part", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["part"]}
    wish = manifest(group("s", minimum=4, priority="high"))
    wish["spec"]["subGroupPolicy"] = [policy | {"networkTopology": SWITCH}]
    parts = [pod(f"s-{p}{i}", "s", cpu=4, labels={"part": str(p)}) for p in range(2) for i in range(2)]
    held = running("r", 4, "n0", "n1", "n2", "n3", minimum=0, cpu=4, priority="low")
    plan = plan_of(CLASSES, switches(), held, build(wish), parts, conf=PREEMPT)
    found = nominations(plan)
    assert len(found) == 4
    for part in range(2):
        assert len({int(found[f"s-{part}{i}"][1:]) // 2 for i in range(2)}) == 1


# --- gangreclaim


@pytest.mark.parametrize(
    ("case", "queues", "size", "expected"),
    [
        ("a queue gets what it deserves of a queue that has more", HALVES, 2, {"r": 2}),
        ("and no more", HALVES, 3, {}),
        (
            "a queue that may not be reclaimed keeps all",
            [queue("a", deserved={"cpu": "2"}, reclaimable=False), queue("b", deserved={"cpu": "2"})],
            2,
            {},
        ),
        (
            "a guarantee is kept",
            [queue("a", deserved={"cpu": "0"}, guarantee={"cpu": "3"}), queue("b", deserved={"cpu": "4"})],
            2,
            {},
        ),
        (
            "what is above the guarantee can go",
            [queue("a", deserved={"cpu": "0"}, guarantee={"cpu": "3"}), queue("b", deserved={"cpu": "4"})],
            1,
            {"r": 1},
        ),
    ],
)
def test_what_a_queue_takes_back(case: str, queues: list[Object], size: int, expected: dict[str, int]) -> None:
    plan = plan_of(queues, node("n1"), running("r", 4, "n1", queue="a"), preemptor(size, queue="b"), conf=RECLAIM)
    assert jobs_of(plan) == expected, case
    assert {e.action for e in plan.evictions} <= {"gangreclaim"}


def test_a_queue_takes_nothing_of_its_own_jobs() -> None:
    held = running("r", 4, "n1", queue="b", priority="low")
    plan = plan_of(CLASSES, HALVES, node("n1"), held, preemptor(1, queue="b", priority="high"), conf=RECLAIM)
    assert not plan.evictions


def test_a_queue_takes_back_inside_one_domain() -> None:
    queues = [queue("a", deserved={"cpu": "8"}), queue("b", deserved={"cpu": "8"})]
    held = running("r", 16, "n0", "n1", "n2", "n3", queue="a")
    plan = plan_of(queues, switches(), held, preemptor(8, topology=SWITCH, queue="b"), conf=RECLAIM)
    assert len(victims(plan)) == len(nominations(plan)) == 8
    assert len(switches_of(plan)) == 1


def test_a_queue_that_has_its_share_of_cpu_takes_no_cpu_back_though_it_has_little_memory() -> None:
    held = [running("r", 3, "n1", queue="a"), running("own", 4, "n1", queue="b")]
    plan = plan_of(HALVES, node("n1", cpu=7), held, preemptor(1, queue="b"), conf=RECLAIM)
    assert not plan.evictions


def test_what_a_queue_may_lose_is_taken_where_it_makes_room() -> None:
    queues = [queue("a", deserved={"cpu": "14"}), queue("b", deserved={"cpu": "2"})]
    held = running("r", 16, "n0", "n1", "n2", "n3", queue="a")
    plan = plan_of(queues, switches(), held, preemptor(1, 2, queue="b"), conf=RECLAIM)
    assert jobs_of(plan) == {"r": 2}


def test_a_gang_that_is_larger_than_the_excess_goes_whole_for_a_preemptor_within_its_share() -> None:
    held = running("w", 4, "n1", minimum=4, queue="a")
    nothing = [queue("a", deserved={"cpu": "0"}), queue("b", deserved={"cpu": "4", "memory": "16Gi"})]
    assert jobs_of(plan_of(nothing, node("n1"), held, preemptor(1, queue="b"), conf=RECLAIM)) == {"w": 4}
    assert jobs_of(plan_of(HALVES, node("n1"), held, preemptor(2, queue="b"), conf=RECLAIM)) == {"w": 4}
    assert not plan_of(HALVES, node("n1"), held, preemptor(3, queue="b"), conf=RECLAIM).evictions


@pytest.mark.parametrize(
    ("first", "expected"), [(["capacity", "gang"], {"r": 2}), (["priority", "gang", "conformance", "capacity"], {})]
)
def test_the_first_tier_with_an_answer_names_the_victims(first: list[str], expected: dict[str, int]) -> None:
    rest = ["priority", "gang", "conformance", "capacity", "predicates", "nodeorder"]
    tiers = conf("allocate, gangreclaim", first, [name for name in rest if name not in first])
    held = running("r", 4, "n1", queue="a", priorityClassName="system-node-critical")
    assert jobs_of(plan_of(HALVES, node("n1"), held, preemptor(2, queue="b"), conf=tiers)) == expected


def test_a_queue_loses_no_more_than_it_can_spare_to_gangreclaim() -> None:
    def asked(session: Session) -> list[list[str]]:
        tasks = session.in_order(session.state.jobs["ns/r"].tasks.values())
        claims = [GangPreemptor(action, session.state.jobs["ns/s"], 0) for action in ("gangreclaim", "gangpreempt")]
        return [[task.name for task in session.unified_evictable(claim, tasks)] for claim in claims]

    objects: list[Objects] = [HALVES, node("n1"), running("r", 4, "n1", queue="a"), preemptor(1, queue="b")]
    found = inside(*objects, do=asked, conf=conf("allocate", ["capacity"]))
    assert found == [["r-0", "r-1"], ["r-0", "r-1", "r-2", "r-3"]]


# --- what every plan promises

LAWS = [(PREEMPT, True), (RECLAIM, False)]


@pytest.mark.parametrize(("chosen", "preempting"), LAWS)
@given(nodes=sizes, held=gangs, wanted=claims)
def test_every_plan_keeps_the_laws(
    shared: Path, chosen: Data, preempting: bool, nodes: int, held: list[Any], wanted: list[Any]
) -> None:
    objects = cluster(nodes, held, wanted, preempting)
    plan = cycle(state_of(*objects), parsed(chosen)[0], NOW)
    assert laws(shared).broken([manifest(o) for o in objects], chosen, as_json(plan)) == []


@pytest.mark.parametrize(("chosen", "preempting"), LAWS)
@given(nodes=sizes, held=gangs, wanted=claims)
def test_without_any_one_of_its_evictions_a_plan_would_not_hold(
    shared: Path, chosen: Data, preempting: bool, nodes: int, held: list[Any], wanted: list[Any]
) -> None:
    objects = cluster(nodes, held, wanted[:1], preempting)
    plan = cycle(state_of(*objects), parsed(chosen)[0], NOW)
    broken: Callable[..., list[str]] = laws(shared).broken
    size = Counter(o.key.rsplit("-", 1)[0] for o in objects if o.kind == "Pod")
    lost = Counter(e.pod.rsplit("-", 1)[0] for e in plan.evictions)
    for one in plan.evictions:
        gang = one.pod.rsplit("-", 1)[0]
        whole = lost[gang] == size[gang]
        data = as_json(plan)
        data["evictions"] = [
            e for e in data["evictions"] if e["pod"] != one.pod and not (whole and e["pod"].rsplit("-", 1)[0] == gang)
        ]
        assert any("overbooked" in law for law in broken([manifest(o) for o in objects], chosen, data))


@pytest.mark.parametrize(("chosen", "preempting"), LAWS)
@given(nodes=sizes, held=gangs, wanted=claims)
def test_evictions_come_to_an_end_though_victims_come_back(
    chosen: Data, preempting: bool, nodes: int, held: list[Any], wanted: list[Any]
) -> None:
    objects = cluster(nodes, held, wanted, preempting)
    state = state_of(*objects)
    life = SimulatedCluster(objects, NOW)
    for _ in range(12):
        plan = cycle(state, parsed(chosen)[0], NOW)
        if not plan.evictions and not plan.binds:
            break
        again = [manifest(pod) for e in plan.evictions if (pod := life.pod(e.pod))]
        events = life.carry_out(plan)
        for data in again:
            data["spec"].pop("nodeName", None)
            events += life.put(build(data | {"status": {"phase": "Pending"}}))
        for event in events:
            state.apply(event)
    else:
        pytest.fail("evictions do not end")


@pytest.mark.parametrize(("action", "tiers"), [("gangpreempt", TIERS), ("gangreclaim", TIERS)])
def test_what_was_tried_leaves_no_trace(action: str, tiers: tuple[Any, ...]) -> None:
    held = running("r", 16, "n0", "n1", "n2", "n3", queue="a", priority="low")
    owner = "a" if action == "gangpreempt" else "b"
    objects = flat([CLASSES, queue("a"), queue("b"), switches(), held])
    state = state_of(objects, preemptor(9, topology=SWITCH, queue=owner, priority="high"))
    alone = parsed(conf("allocate", *tiers))[0]
    before = cycle(state, alone, NOW)
    tried = cycle(state, parsed(conf(f"allocate, {action}", *tiers))[0], NOW)
    assert not tried.evictions
    assert not tried.nominations
    assert cycle(state, alone, NOW) == before
