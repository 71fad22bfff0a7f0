"""preempt, reclaim and shuffle, as the walk through (seed 001) and the text on concepts (seed 002) tell of them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.documented.worked_example import CLUSTER, amounts, flat_conf, tree_conf, wants
from kilauea.engine.plan import Plan, Refusal
from kilauea.engine.session import Session
from support.builders import (
    Data,
    Entry,
    Objects,
    conf,
    group,
    node,
    nominations,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
)
from support.probes import plugin_called

CLASSES = [priority_class("low", 10), priority_class("mid", 100), priority_class("high", 1000)]
TIERS: tuple[list[Entry], list[Entry]] = (
    ["priority", plugin("gang", enablePreemptable=False, enableReclaimable=False)],
    ["predicates", "capacity"],
)
PREEMPT, RECLAIM = conf("allocate, preempt", *TIERS), conf("allocate, reclaim", *TIERS)


def evicted(plan: Plan) -> list[str]:
    return sorted(e.pod.removeprefix("ns/") for e in plan.evictions)


def runs(name: str, priority: str, size: int, of_queue: str = "q", **more: Any) -> list[Objects]:
    """A job with pods of one core on the node."""
    pods = [pod(f"{name}-{i}", name, node="n", **more) for i in range(size)]
    return [group(name, of_queue, phase="Running", priority=priority), pods]


def asks(name: str, priority: str, size: int = 1, of_queue: str = "q") -> list[Objects]:
    """A gang that waits, with pods of one core."""
    return [
        group(name, of_queue, size, priority=priority, created=9),
        [pod(f"{name}-{i}", name) for i in range(size)],
    ]


# --- preempt


def test_preempt_works_between_jobs_of_a_queue() -> None:
    running = [runs("mine", "low", 2), runs("foreign", "low", 2, "other")]
    objects: list[Objects] = [CLASSES, node("n"), queue("q"), queue("other"), running]
    assert {name[:4] for name in evicted(plan_of(objects, asks("s", "high", 2), conf=PREEMPT))} == {"mine"}
    assert evicted(plan_of(objects, asks("s", "high", 3), conf=PREEMPT)) == []


WITHIN = conf("allocate, preempt", ["priority"], ["predicates", "gang"])


def test_preempt_works_within_a_job_too() -> None:
    """Four workers run, which are enough, and a more important task of the same job came late."""
    workers = [pod(f"g-{i}", node="n", priority=1) for i in range(4)]
    job: list[Objects] = [group(minimum=4, phase="Running"), workers, pod("late", priority=9)]
    plan = plan_of(node("n"), queue("q"), job, conf=WITHIN)
    assert (len(plan.evictions), nominations(plan)) == (1, {"late": "n"})


def test_other_jobs_lose_before_lesser_tasks_of_the_own_job() -> None:
    workers = [pod(f"own-{i}", "own", node="n", priority=1) for i in range(2)]
    own: list[Objects] = [
        group("own", minimum=2, phase="Running", priority="high"),
        workers,
        pod("late", "own", priority=9),
    ]
    plan = plan_of(CLASSES, node("n"), queue("q"), runs("r", "low", 2), own, conf=WITHIN)
    assert ([name[:2] for name in evicted(plan)], nominations(plan)) == (["r-"], {"late": "n"})


# --- reclaim


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(1, ["low-0"], id="one"),
        pytest.param(2, ["low-0", "mid-0"], id="two"),
        pytest.param(3, ["high-0", "low-0", "mid-0"], id="three"),
    ],
)
def test_the_least_important_jobs_lose_first_and_no_more_than_are_needed(asked: int, expected: list[str]) -> None:
    queues = [queue("q", deserved={"cpu": 4, "memory": "16Gi"}), queue("other", deserved={"cpu": 1, "memory": "4Gi"})]
    running = [runs(name, name, 1, "other") for name in ("high", "low", "mid")]
    kept = runs("kept", "high", 1, "other", annotations={"volcano.sh/preemptable": "false"})
    plan = plan_of(CLASSES, node("n"), queues, running, kept, asks("s", "low", asked), conf=RECLAIM)
    assert evicted(plan) == expected


def test_tasks_of_the_preemptor_s_own_queue_and_of_queues_that_do_not_lend_stay() -> None:
    queues = [queue("q", deserved={"cpu": 3}), queue("lends"), queue("keeps", reclaimable=False)]
    running = [runs("own", "low", 1), runs("a", "low", 1, "lends"), runs("b", "low", 2, "keeps")]
    assert evicted(plan_of(CLASSES, node("n"), queues, running, asks("s", "high"), conf=RECLAIM)) == ["a-0"]
    assert evicted(plan_of(CLASSES, node("n"), queues, running, asks("s", "high", 2), conf=RECLAIM)) == []


def test_pods_that_do_not_run_yet_are_not_reclaimed() -> None:
    queues = [queue("q", deserved={"cpu": 3}), queue("lends")]
    bound = runs("r", "low", 4, "lends", phase="Pending")
    assert evicted(plan_of(CLASSES, node("n"), queues, bound, asks("s", "high"), conf=RECLAIM)) == []


def test_a_queue_that_is_overused_claims_nothing() -> None:
    """A plugin calls the queue overused; otherwise it would get a core back."""
    refusal = Refusal("Judged", "enough")

    def call_overused(session: Session) -> None:
        session.add_overused("judge", lambda q: None if q.name != "q" else refusal)

    queues = [queue("q", deserved={"cpu": 3}), queue("lends")]
    objects: list[Objects] = [CLASSES, node("n"), queues, runs("r", "low", 4, "lends"), asks("s", "high")]
    judged = conf("reclaim", *TIERS, ["judge"])
    assert len(plan_of(objects, conf=conf("reclaim", *TIERS)).evictions) == 1
    assert evicted(plan_of(objects, conf=judged, plugins=[plugin_called("judge", call_overused)])) == []


# --- limits of queues under load


@pytest.mark.parametrize("by", ["proportion", "capacity"])
def test_a_capability_is_a_hard_limit(by: str) -> None:
    """The cluster is empty otherwise, and the queue still gets no more than 40 of 100 cores."""
    jobs = [wants(f"g{i}", "q", 10) for i in range(6)]
    limited = conf("enqueue, allocate, backfill", ["gang"], ["predicates", by])
    plan = plan_of(CLUSTER, queue("q", capability=amounts(40)), jobs, conf=limited)
    assert len(plan.binds) == 4


@pytest.mark.parametrize("in_tree", [False, True])
def test_a_guarantee_is_there_whatever_the_others_ask(in_tree: bool) -> None:
    """The others ask for all of the cluster and come first; 20 cores stay free, and the queue starts at once."""
    queues = [queue("root"), queue("others", created=0), queue("q", guarantee=amounts(20), created=1)]
    jobs = [wants(f"o{i}", "others", 10, created=i) for i in range(10)]
    how = tree_conf if in_tree else flat_conf
    plan = plan_of(CLUSTER, queues, jobs, wants("mine", "q", 20), conf=how("allocate"))
    assert (len(plan.binds), plan.queues["q"].allocated["cpu"]) == (9, 20_000)
    alone = plan_of(CLUSTER, queues, jobs, conf=how("allocate"))
    assert len(alone.binds) == 8


# --- shuffle


def test_shuffle_evicts_whom_plugins_name_and_leaves_the_order_of_jobs_alone() -> None:
    names: Data = {"r-1": True}
    rescuer = plugin_called(
        "own", lambda s: s.add_victim_tasks("own", lambda tasks: [t for t in tasks if t.name in names])
    )
    shuffled = conf("shuffle, allocate", ["gang", "own"], ["predicates"])
    waiting = [asks(name, "low") for name in ("first", "second")]
    objects: list[Objects] = [CLASSES, node("n", 5), queue("q"), runs("r", "low", 4), waiting]
    plan = plan_of(objects, conf=shuffled, plugins=[rescuer])
    assert (evicted(plan), [b.pod for b in plan.binds]) == (["r-1"], ["ns/first-0"])


def test_what_serves_the_end_of_shuffle_against_starvation_is_the_order_of_jobs() -> None:
    """Of jobs that nothing else tells apart the one that waits longest is first, cycle after cycle."""
    waiting = [[group(name, created=age), pod(f"{name}-0", name)] for age, name in enumerate(("b", "c", "a"))]
    plan = plan_of(node("n", 2), queue("q"), waiting, conf=conf("allocate", ["gang"], ["drf", "predicates"]))
    assert [b.pod for b in plan.binds] == ["ns/b-0", "ns/c-0"]


# --- gangs that lose pods


def gang_of_three(size: int, flag: str, actions: str) -> Plan:
    """A gang of three runs and needs two; a gang of so many claims."""
    queues = [queue("q", deserved={"cpu": 3, "memory": "12Gi"}), queue("other")]
    of_queue = "other" if actions == "reclaim" else "q"
    gang: list[Objects] = [
        group("r", of_queue, 2, "Running", priority="low"),
        [pod(f"r-{i}", "r", node="n") for i in range(3)],
    ]
    later = ["predicates", "capacity"] if actions == "reclaim" else ["predicates"]
    spared = conf(actions, ["priority", plugin("gang", **{flag: False})], later)
    return plan_of(CLASSES, node("n", 3), queues, gang, asks("s", "high", size), conf=spared)


FORMS = [
    pytest.param("enableReclaimable", "reclaim", id="reclaim"),
    pytest.param("enablePreemptable", "preempt", id="preempt"),
]


@pytest.mark.parametrize(("flag", "actions"), FORMS)
def test_a_gang_gives_up_what_is_beyond_its_minimum(flag: str, actions: str) -> None:
    assert len(gang_of_three(1, flag, actions).evictions) == 1


@pytest.mark.parametrize(("flag", "actions"), FORMS)
def test_a_gang_that_does_not_keep_its_minimum_goes_whole(flag: str, actions: str) -> None:
    """Two pods are needed; the third one could do nothing alone."""
    assert evicted(gang_of_three(2, flag, actions)) == ["r-0", "r-1", "r-2"]
