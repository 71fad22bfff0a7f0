"""The action backfill: pods that ask for nothing."""

from __future__ import annotations

import pytest

from support.builders import (
    PLAIN,
    Objects,
    best_effort,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    plan_of,
    pod,
    queue,
)
from support.probes import full

BACKFILL = conf("backfill", ["gang"], ["predicates"])


def test_backfill_places_pods_that_ask_for_nothing_and_no_others() -> None:
    plan = plan_of(node("n1"), group(), best_effort("a"), pod("b"), conf=BACKFILL)
    assert binds(plan) == {"a": "n1"}


def test_allocate_leaves_pods_that_ask_for_nothing_alone() -> None:
    plan = plan_of(node("n1"), group(minimum=0), best_effort("a"), pod("b"), conf=conf("allocate", ["gang"]))
    assert (binds(plan), codes(plan)) == ({"b": "n1"}, {"a": "NotReached"})


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([node("n1", pods=1), pod("r", "old", node="n1")], id="the node is full of pods"),
        pytest.param(
            [node("n1", pods=1), pod("r", "old", node="n1", deleting=True)], id="its only slot is being freed"
        ),
        pytest.param([node("n1", taints=["a=b:NoSchedule"])], id="the node has a taint"),
        pytest.param([node("n1", unschedulable=True)], id="the node is cordoned"),
        pytest.param([], id="there is no node"),
    ],
)
def test_backfill_asks_the_filters(objects: list[Objects]) -> None:
    plan = plan_of(*objects, group("old"), group(), best_effort("a"), conf=BACKFILL)
    assert (binds(plan), codes(plan)) == ({}, {"a": "Unschedulable"})


def test_a_pod_that_asks_for_nothing_finds_room_on_a_node_without_any() -> None:
    plan = plan_of(
        node("n1", cpu=1), group("old"), pod("r", "old", node="n1"), group(), best_effort("a"), conf=BACKFILL
    )
    assert binds(plan) == {"a": "n1"}


def test_a_pod_that_asks_for_nothing_finds_room_on_a_node_that_carries_too_much() -> None:
    running = pod("r", "old", cpu="2", node="n1")
    plan = plan_of(node("n1", cpu=1), group("old"), running, group(), best_effort("a"), conf=BACKFILL)
    assert binds(plan) == {"a": "n1"}


def test_a_group_that_is_not_admitted_waits() -> None:
    plan = plan_of(node("n1"), group(phase="Pending"), best_effort("a"), conf=BACKFILL)
    assert (binds(plan), codes(plan)) == ({}, {"a": "NotAdmitted"})


def test_a_group_with_too_few_pods_waits() -> None:
    assert binds(plan_of(node("n1"), group(minimum=2), best_effort("a"), conf=BACKFILL)) == {}


def test_a_gang_that_is_not_ready_starts_nothing() -> None:
    plan = plan_of(node("n1"), group(minimum=2), best_effort("a"), pod("b", cpu="99"), conf=PLAIN)
    assert binds(plan) == {}


def test_pods_that_wait_and_ask_for_nothing_count_towards_the_minimum_before_they_are_placed() -> None:
    pods = [pod("r", node="n1"), best_effort("a"), best_effort("b")]
    assert binds(plan_of(node("n1", pods=2), group(minimum=3), pods, conf=BACKFILL)) == {"a": "n1"}
    assert binds(plan_of(node("n1", pods=3), group(minimum=3), pods, conf=BACKFILL)) == {"a": "n1", "b": "n1"}


def test_a_gang_that_becomes_ready_by_it_starts_with_all_that_is_placed() -> None:
    roles = {"a": 1, "b": 1}
    pods = [best_effort("g-a-0", role="a", nodeSelector={"none": "such"}), best_effort("g-b-1", role="b")]
    assert binds(plan_of(node("n1"), group(minimum=2, roles=roles), pods, conf=BACKFILL)) == {"g-b-1": "n1"}


def test_a_gang_of_both_kinds_starts_in_both_actions() -> None:
    plan = plan_of(node("n1"), group(minimum=2), pod("a"), best_effort("b"), conf=PLAIN)
    assert [b.pod for b in plan.binds] == [full("a"), full("b")]


def test_each_queue_is_drained_before_the_next() -> None:
    groups = [group("g1", queue="a"), group("g2", queue="a"), group("h", queue="b")]
    pods = [
        best_effort("h-w-0", "h"),
        best_effort("g2-w-0", "g2"),
        best_effort("g1-w-1", "g1"),
        best_effort("g1-w-0", "g1"),
    ]
    plan = plan_of(queue("b"), queue("a"), node("n1"), groups, pods, conf=BACKFILL)
    assert [b.pod for b in plan.binds] == [full(n) for n in ("g1-w-0", "g1-w-1", "g2-w-0", "h-w-0")]


def test_closed_queues_and_quotas_do_not_concern_it() -> None:
    objects = [queue("q", state="Closed"), node("n1"), group(), best_effort("a")]
    assert binds(plan_of(*objects, conf=conf("backfill", ["gang"], ["predicates", "proportion"]))) == {"a": "n1"}


def test_nodes_are_scored_for_them_too() -> None:
    objects = [
        node("n1", cpu=2),
        node("n2", cpu=64),
        group("old"),
        pod("r", "old", node="n1"),
        group(),
        best_effort("a"),
    ]
    plan = plan_of(*objects, conf=conf("backfill", ["gang"], ["predicates", "nodeorder"]))
    assert binds(plan) == {"a": "n2"}


def test_slots_are_counted_as_they_are_taken() -> None:
    plan = plan_of(
        node("n1", pods=2), node("n2", pods=1), group(), [best_effort(f"g-w-{i}") for i in range(4)], conf=BACKFILL
    )
    assert binds(plan) == {"g-w-0": "n1", "g-w-1": "n1", "g-w-2": "n2"}
    assert codes(plan) == {"g-w-3": "Unschedulable"}


def test_jobs_of_the_example_are_as_they_were_without_the_action() -> None:
    assert binds(plan_of(node("n1"), gang("g", 2), conf=conf("allocate", ["gang"]))) == {"g-w-0": "n1", "g-w-1": "n1"}


def test_a_pod_that_asks_for_nothing_waits_for_the_port_of_one_that_terminates() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    going = pod("r", "old", node="n1", deleting=True, ports=ports)
    plan = plan_of(node("n1"), going, group("old"), group(), best_effort("a", ports=ports), conf=BACKFILL)
    assert not plan.binds
    waits = "0/1 nodes are unavailable: 1 node(s) had terminating pods that hold what the pod needs."
    assert [p.message for p in plan.pending] == [waits]
