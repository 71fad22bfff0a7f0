"""The plugins priority, drf and conformance: who goes first, and who may be evicted."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.events import Changed, Gone
from kilauea.engine.session import Session
from support.builders import (
    Objects,
    binds,
    conf,
    gang,
    group,
    node,
    plan_in,
    plan_of,
    plugin,
    pod,
    priority_class,
    state_of,
)
from support.probes import inside

PRIORITY = conf("allocate", ["priority"])
DRF = conf("allocate", ["drf"])
TASK_PRIORITY = "volcano.sh/task-priority"


def victims(session: Session, preemptor: str, of: list[str], point: str = "preemptable") -> list[str]:
    tasks = [session.state.tasks[f"ns/{name}"] for name in of]
    return [t.name for t in getattr(session, point)(session.state.tasks[f"ns/{preemptor}"], tasks)]


# --- priority


def first(*objects: Objects, by: Any = PRIORITY) -> str:
    """Which pod gets the only core."""
    (name,) = binds(plan_of(node("n1", cpu=1), *objects, conf=by))
    return name


CLASSES = [priority_class("low", 10), priority_class("high", 100)]


def job(name: str, of_class: str | None = None, **more: Any) -> Objects:
    return [group(name, priority=of_class), pod(name + "-p", name, **more)]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([CLASSES, job("a", "low"), job("b", "high")], "b-p", id="the higher class goes first"),
        pytest.param([CLASSES, job("a"), job("b", "low")], "b-p", id="no class is zero"),
        pytest.param([CLASSES, job("a", "gone"), job("b", "low")], "b-p", id="a class that does not exist is zero"),
        pytest.param(
            [CLASSES, priority_class("d", 50, default=True), job("a", "low"), job("b")],
            "b-p",
            id="without a class the global default holds",
        ),
        pytest.param(
            [CLASSES, priority_class("d", 50, default=True), job("a", "low"), job("b", "gone")],
            "b-p",
            id="and for a class that does not exist",
        ),
        pytest.param(
            [CLASSES, job("a", "high"), job("b", "system-node-critical")], "b-p", id="system classes are known"
        ),
        pytest.param(
            [CLASSES, job("a", "low", priority=1), job("b", "low", priority=9)], "a-p", id="pods do not matter"
        ),
        pytest.param([priority_class("neg", -5), job("a", "neg"), job("b")], "b-p", id="a class may be below zero"),
    ],
)
def test_jobs_by_the_class_of_their_group(objects: list[Objects], expected: str) -> None:
    assert first(*objects) == expected


def test_a_class_counts_whenever_it_arrives() -> None:
    state = state_of(node("n1", cpu=1), job("a", "low"), job("b", "high"))
    assert list(binds(plan_in(state, PRIORITY))) == ["a-p"]
    state.apply(Changed(priority_class("high", 100)))
    assert list(binds(plan_in(state, PRIORITY))) == ["b-p"]
    state.apply(Gone("PriorityClass", "high"))
    assert list(binds(plan_in(state, PRIORITY))) == ["a-p"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"priority": 1}, {"priority": 2}, id="the higher priority goes first"),
        pytest.param({"priority": 0}, {}, id="without a priority it is one"),
        pytest.param({"priority": 5}, {"annotations": {TASK_PRIORITY: "6"}}, id="the annotation counts"),
        pytest.param(
            {"priority": 9, "annotations": {TASK_PRIORITY: "-1"}}, {"priority": 0}, id="even over the priority"
        ),
        pytest.param(
            {"priority": 5, "annotations": {TASK_PRIORITY: "x"}}, {"priority": 6}, id="unless it is not a number"
        ),
        pytest.param(
            {"priority": 5, "annotations": {TASK_PRIORITY: "2147483648"}}, {"priority": 6}, id="or none of 32 bits"
        ),
    ],
)
def test_tasks_by_their_own_priority(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert first(group(), pod("x-w-0", **one), pod("x-w-1", **other)) == "x-w-1"


def test_switches_of_priority() -> None:
    objects = [CLASSES, job("a", "low"), job("b", "high")]
    assert first(*objects, by=conf("allocate", [plugin("priority", enableJobOrder=False)])) == "a-p"
    tasks = [group(), pod("x-w-0", priority=1), pod("x-w-1", priority=2)]
    assert first(*tasks, by=conf("allocate", [plugin("priority", enableTaskOrder=False)])) == "x-w-0"


def test_the_plugin_that_comes_first_decides() -> None:
    running = [group("a", priority="high"), pod("a-r", "a", cpu="500m", node="n2"), pod("a-p", "a")]
    objects: list[Objects] = [CLASSES, node("n2"), running, job("b", "low")]
    pinned: dict[str, Any] = {"unschedulable": True}
    nodes = [node("n1", cpu=1), node("n2", **pinned)]
    by_priority, by_share = (
        conf("allocate", ["priority"], ["drf", "predicates"]),
        conf("allocate", ["drf"], ["priority", "predicates"]),
    )
    assert list(binds(plan_of(*nodes, *objects[2:], CLASSES, conf=by_priority))) == ["a-p"]
    assert list(binds(plan_of(*nodes, *objects[2:], CLASSES, conf=by_share))) == ["b-p"]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(["low-r"], ["low-r"], id="a job of lower priority"),
        pytest.param(["peer-r"], [], id="not one of the same priority"),
        pytest.param(["top-r"], [], id="not one of higher priority"),
        pytest.param(["mine-low"], ["mine-low"], id="a task of its own job with lower priority"),
        pytest.param(["mine-same"], [], id="not one with the same priority"),
        pytest.param(["top-r", "low-r", "mine-low"], ["low-r", "mine-low"], id="in the order given"),
    ],
)
def test_whom_a_task_may_evict_by_priority(of: list[str], expected: list[str]) -> None:
    groups = [
        group("mine", priority="mid"),
        group("low", priority="low"),
        group("peer", priority="mid"),
        group("top", priority="high"),
    ]
    running = [pod(f"{name}-r", name, node="n1", priority=50) for name in ("low", "peer", "top")]
    own = [pod("mine-low", "mine", node="n1", priority=1), pod("mine-same", "mine", node="n1", priority=5)]
    objects: list[Objects] = [CLASSES, priority_class("mid", 50), node("n1", cpu=9), groups, running, own]
    preemptor = pod("mine-p", "mine", priority=5)
    found = inside(*objects, preemptor, do=lambda s: victims(s, "mine-p", of), conf=conf("", ["priority"]))
    assert found == expected


@pytest.mark.parametrize(
    ("tier", "pods", "starving"),
    [
        pytest.param(["priority"], ["r", "w"], True, id="priority: a pod waits"),
        pytest.param(["priority"], ["r", "r"], False, id="priority: none waits"),
        pytest.param(["gang"], ["r", "w"], False, id="gang: at its minimum"),
        pytest.param(["gang"], ["w", "w"], True, id="gang: below its minimum"),
        pytest.param(["gang", "priority"], ["r", "w"], False, id="in one tier both must find so"),
        pytest.param(["gang", "priority"], ["w", "w"], True, id="in one tier both find so"),
    ],
)
def test_who_starves(tier: list[str], pods: list[str], starving: bool) -> None:
    made = [pod(f"g-w-{i}", node="n1" if kind == "r" else None) for i, kind in enumerate(pods)]
    found = inside(node("n1"), group(), made, do=lambda s: s.job_starving(s.state.jobs["ns/g"]), conf=conf("", tier))
    assert found is starving


# --- drf


def test_the_job_with_the_smaller_share_goes_first() -> None:
    busy = [group("a"), pod("a-r", "a", cpu=1, node="n1"), pod("a-p", "a")]
    idle = [group("b"), pod("b-p", "b")]
    assert list(binds(plan_of(node("n1", cpu=2), busy, idle, conf=DRF))) == ["b-p"]


def test_the_largest_share_of_any_resource_counts() -> None:
    cores = [group("a"), pod("a-r", "a", cpu=2, memory="1Gi", node="n1"), pod("a-p", "a", cpu=1)]
    bytes_ = [group("b"), pod("b-r", "b", cpu=1, memory="8Gi", node="n1"), pod("b-p", "b", cpu=1)]
    assert list(binds(plan_of(node("n1", cpu=4, memory="64Gi"), cores, bytes_, conf=DRF))) == ["b-p"]
    assert list(binds(plan_of(node("n1", cpu=4, memory="16Gi"), cores, bytes_, conf=DRF))) == ["a-p"]


def test_shares_follow_what_is_placed_in_the_cycle() -> None:
    plan = plan_of(node("n1", cpu=4), gang("a", 3, 1), gang("b", 3, 1), conf=DRF)
    assert [b.pod for b in plan.binds] == ["ns/a-w-0", "ns/b-w-0", "ns/a-w-1", "ns/b-w-1"]


def drf_victims(*of: str | int) -> list[str]:
    """Victims for a job that holds one core of ten and wants two more, among pods of another that ask for so many."""
    held = [pod(f"r-{i}", "r", cpu=cpu, memory=None, node="n1") for i, cpu in enumerate(of)]
    mine = [group("mine"), pod("mine-r", "mine", cpu=1, memory=None, node="n1")]
    preemptor = pod("mine-p", "mine", cpu=2, memory=None)
    objects: list[Objects] = [node("n1", cpu=10, memory="10Gi"), group("r"), held, mine, preemptor]
    names = [f"r-{i}" for i in range(len(of))]
    return inside(*objects, do=lambda s: victims(s, "mine-p", names), conf=conf("", ["drf"]))


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param([2, 2, 2], ["r-0"], id="one of three: then the shares are 0.3 and 0.4"),
        pytest.param([2, 2, 1], ["r-0"], id="even shares are close enough"),
        pytest.param([4, 1, 1], [], id="a candidate that is refused counts as gone for those after it"),
        pytest.param([1, 1, 4], ["r-0", "r-1"], id="in the order given"),
        pytest.param([3], [], id="not if the other would be left with nothing"),
    ],
)
def test_whom_a_task_may_evict_by_shares(of: list[int], expected: list[str]) -> None:
    assert drf_victims(*of) == expected


# --- conformance


@pytest.mark.parametrize("point", ["preemptable", "reclaimable", "unified_evictable"])
def test_what_keeps_the_cluster_alive_is_never_evicted(point: str) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "node": {"priorityClassName": "system-node-critical"},
        "cluster": {"priorityClassName": "system-cluster-critical"},
        "high": {"priorityClassName": "high", "priority": 2_000_000_000},
    }
    pods = [pod(name, node="n1", **more) for name, more in kinds.items()]
    system = pod("dns", "", namespace="kube-system", node="n1")

    def ask(session: Session) -> list[str]:
        tasks = [*(session.state.tasks[f"ns/{name}"] for name in kinds), session.state.tasks["kube-system/dns"]]
        return [t.name for t in getattr(session, point)(tasks[0], tasks)]

    assert inside(node("n1", cpu=9), group(), pods, system, do=ask, conf=conf("", ["conformance"])) == ["plain", "high"]


def test_no_tier_names_a_critical_pod_that_an_earlier_one_spared() -> None:
    critical = pod("dns", node="n1", priorityClassName="system-node-critical")
    objects: list[Objects] = [
        node("n1"),
        CLASSES,
        group(priority="low"),
        critical,
        group("h", priority="high"),
        pod("x", "h"),
    ]
    for tiers in ([["priority", "conformance"]], [["conformance"], ["priority"]]):
        assert inside(*objects, do=lambda s: victims(s, "x", ["dns"]), conf=conf("", *tiers)) == []
