"""Pods of Kubernetes' own scheduler without a group: placed as it would, in no queue and under no quota."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_claims import running, starving, victims
from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Gone
from kilauea.engine.plan import Plan
from kilauea.simulator.scenario import build_state
from support.builders import NOW, Data, Objects, conf, flat, gang, group, node, nominations, parsed, pending, pod, queue
from support.builders import binds as binds_of
from support.probes import fingerprint

PLAIN = conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "capacity", "nodeorder"])
FULL = conf(
    "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim",
    ["priority", "gang"],
    ["predicates", "capacity", "nodeorder"],
)


def service(name: str, cpu: int | None = 1, **more: Any) -> Object:
    """A pod as Kubernetes' own controllers make it."""
    return pod(name, "", cpu=cpu, schedulerName="default-scheduler", **more)


def plan_of(*objects: Objects, conf: Data = PLAIN) -> Plan:
    """A cycle of a scheduler that serves both."""
    state = build_state(flat([queue("q"), *objects]))
    before = fingerprint(state)
    plan = cycle(state, parsed(conf)[0], NOW)
    assert fingerprint(state) == before
    return plan


def test_it_needs_no_group_and_no_admission() -> None:
    assert binds_of(plan_of(node("n1"), service("web"))) == {"web": "n1"}


def test_it_is_not_served_by_a_scheduler_that_serves_others() -> None:
    state = build_state(flat([queue("q"), node("n1"), service("web")]), ["volcano"])
    assert cycle(state, parsed(PLAIN)[0], NOW) == cycle(
        build_state(flat([queue("q"), node("n1")])), parsed(PLAIN)[0], NOW
    )


def test_no_queue_and_no_group_hears_of_it() -> None:
    plan = plan_of(node("n1"), service("web"), service("runs", node="n1"))
    assert not plan.groups
    assert all(not outcome.allocated and not outcome.request for outcome in plan.queues.values())
    assert not plan.findings


def test_no_quota_holds_it_up_and_it_takes_none_from_others() -> None:
    small = queue("default", capability={"cpu": "1"})
    batch = [group("g", queue="default"), pod("p", cpu=1)]
    plan = plan_of(node("n1"), small, service("runs", cpu=2, node="n1"), service("web"), *batch)
    assert binds_of(plan) == {"web": "n1", "p": "n1"}


def test_the_room_that_it_takes_in_a_cycle_is_taken_for_the_others() -> None:
    plan = plan_of(node("n1", cpu=4), service("web", cpu=2), gang("g", 3))
    assert binds_of(plan) == {"web": "n1"}


@pytest.mark.parametrize("actions", ["reclaim", "preempt", "gangreclaim", "gangpreempt", "shuffle"])
def test_no_action_evicts_it_for_batch(actions: str) -> None:
    queues = [queue("a", deserved={"cpu": "4"}), queue("b", deserved={"cpu": "4"})]
    objects = [node("n1"), *queues, *(service(f"web-{n}", node="n1", priority=-5) for n in range(4))]
    rules = conf(f"enqueue, allocate, {actions}", ["priority", "gang"], ["predicates", "capacity"])
    assert not plan_of(*objects, *starving("s", 2, queue="a"), conf=rules).evictions


def test_predicates_hold_whatever_is_configured() -> None:
    bare = conf("allocate", ["gang"])
    plan = plan_of(node("n1", taints=["gpu=yes:NoSchedule"]), node("n2", cpu=1), service("web", cpu=2), conf=bare)
    assert not plan.binds
    assert "node(s) had untolerated taint" in pending(plan)["web"].message
    assert binds_of(plan_of(node("n1", taints=["gpu=yes:NoSchedule"]), node("n2"), service("web"), conf=bare)) == {
        "web": "n2"
    }


def test_the_more_important_first_then_the_older() -> None:
    pods = [service("late", created=2), service("early", created=1), service("vip", priority=7, created=3)]
    assert set(binds_of(plan_of(node("n1", cpu=1), *pods))) == {"vip"}
    assert set(binds_of(plan_of(node("n1", cpu=2), *pods))) == {"vip", "early"}


def test_a_more_important_one_preempts_a_less_important_one() -> None:
    held = [service("low", cpu=2, node="n1", priority=1), service("same", cpu=2, node="n1", priority=5)]
    plan = plan_of(node("n1", cpu=4), *held, service("web", cpu=2, priority=5))
    assert victims(plan) == ["low"]
    assert nominations(plan) == {"web": "n1"}
    assert pending(plan)["web"].code == "Nominated"


def test_the_least_important_give_way_even_if_they_are_more() -> None:
    """As with Kubernetes' own scheduler: `high` alone would do, and is spared."""
    held = [
        service("low", cpu=2, node="n1", priority=1),
        service("middle", cpu=3, node="n1", priority=2),
        service("high", cpu=4, node="n1", priority=3),
    ]
    plan = plan_of(node("n1", cpu=10), *held, service("web", cpu=5, priority=4))
    assert victims(plan) == ["low", "middle"]


def test_the_node_with_the_least_important_victims_is_taken() -> None:
    held = [
        service("low-a", cpu=2, node="n1", priority=1),
        service("low-b", cpu=2, node="n1", priority=1),
        service("high", cpu=4, node="n2", priority=3),
    ]
    plan = plan_of(node("n1", cpu=4), node("n2", cpu=4), *held, service("web", cpu=4, priority=4))
    assert victims(plan) == ["low-a", "low-b"]
    assert nominations(plan) == {"web": "n1"}


def test_one_that_never_preempts_waits() -> None:
    held = service("low", cpu=4, node="n1", priority=1)
    assert not plan_of(node("n1", cpu=4), held, service("web", priority=5, preemptionPolicy="Never")).evictions


def test_it_preempts_no_batch() -> None:
    plan = plan_of(node("n1"), *running("r", 4, "n1"), service("web", priority=1000), conf=FULL)
    assert not plan.evictions
    assert pending(plan)["web"].code == "Unschedulable"


def test_room_that_is_promised_to_it_is_not_given_to_batch() -> None:
    held = service("low", cpu=2, node="n1", priority=1)
    plan = plan_of(node("n1", cpu=2), held, service("web", cpu=2, priority=5), gang("g", 1), conf=FULL)
    assert nominations(plan) == {"web": "n1"}
    assert victims(plan) == ["low"]
    assert not plan.binds


def test_one_that_asks_for_nothing_starts_too() -> None:
    assert binds_of(plan_of(node("n1"), service("web", cpu=None, memory=None))) == {"web": "n1"}


def test_a_pod_of_that_scheduler_with_a_group_is_of_its_gang() -> None:
    objects = [group("g", minimum=2), pod("p", schedulerName="default-scheduler")]
    assert not plan_of(node("n1"), *objects).binds


def test_one_that_is_gone_leaves_nothing_behind() -> None:
    state = build_state(flat([queue("q"), node("n1"), service("web", node="n1")]))
    state.apply(Gone("Pod", "ns/web"))
    assert not state.jobs
    assert fingerprint(state) == fingerprint(build_state(flat([queue("q"), node("n1")])))
