"""Gangs: all or nothing, the minimum of each role, and what a pod group is told."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Condition, Plan
from support.builders import (
    GPU,
    PLAIN,
    Objects,
    best_effort,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    nominations,
    pending,
    phases,
    plan_in,
    plan_of,
    plugin,
    pod,
    state_of,
)
from support.probes import full

ALLOCATE = conf("allocate", ["gang"], ["predicates"])


def condition(plan: Plan, of: str = "g") -> Condition | None:
    return plan.groups[full(of)].condition


# --- all or nothing


@pytest.mark.parametrize(
    ("objects", "bound"),
    [
        pytest.param([gang("g", 3)], ["g-w-0", "g-w-1", "g-w-2"], id="room for all of it"),
        pytest.param([gang("g", 5)], [], id="room for fewer than the minimum"),
        pytest.param(
            [gang("g", 5, 4)], ["g-w-0", "g-w-1", "g-w-2", "g-w-3"], id="room for the minimum but not for all"
        ),
        pytest.param(
            [gang("g", 3), pod("g-r-0", node="n1")],
            ["g-w-0", "g-w-1", "g-w-2"],
            id="more pods than the minimum, one of which runs",
        ),
        pytest.param(
            [group(minimum=3), pod("r-0", node="n1"), pod("r-1", node="n1"), pod("w-0")],
            ["w-0"],
            id="running pods count towards the minimum",
        ),
        pytest.param(
            [group(minimum=2), pod("r-0", node="n1", phase="Succeeded"), pod("w-0")],
            ["w-0"],
            id="succeeded pods count towards the minimum",
        ),
        pytest.param(
            [group(minimum=2), pod("r-0", node="n1", phase="Pending"), pod("w-0")],
            ["w-0"],
            id="bound pods count towards the minimum",
        ),
        pytest.param(
            [group(minimum=2), pod("r-0", node="n1", phase="Failed"), pod("w-0"), pod("w-1", cpu="9")],
            [],
            id="failed pods do not",
        ),
        pytest.param(
            [group(minimum=2), pod("r-0", node="n1", deleting=True), pod("w-0"), pod("w-1", cpu="9")],
            [],
            id="pods that are being deleted do not",
        ),
        pytest.param(
            [group(minimum=3), pod("w-0"), pod("w-1"), best_effort("w-2")],
            ["w-0", "w-1"],
            id="waiting pods that ask for nothing count as placed",
        ),
        pytest.param([group(minimum=0), pod("w-0")], ["w-0"], id="a minimum of zero is always met"),
    ],
)
def test_gang_on_one_node_of_four_cores(objects: list[Objects], bound: list[str]) -> None:
    assert sorted(binds(plan_of(node("n1"), *objects, conf=ALLOCATE))) == bound


def test_gang_is_spread_over_the_nodes_that_it_needs() -> None:
    plan = plan_of(node("n1", cpu=2), node("n2", cpu=1), gang("g", 3), conf=ALLOCATE)
    assert binds(plan) == {"g-w-0": "n1", "g-w-1": "n1", "g-w-2": "n2"}


def test_without_the_plugin_every_pod_is_for_itself() -> None:
    plan = plan_of(node("n1"), gang("g", 5), conf=conf("allocate", ["predicates"]))
    assert len(binds(plan)) == 4


@pytest.mark.parametrize(
    ("flags", "bound"),
    [
        pytest.param({"enableJobReady": False}, 4, id="switched off every pod is for itself"),
        pytest.param({"enableJobPipelined": False}, 0, id="the switch of another point changes nothing"),
    ],
)
def test_switch_of_the_gang_plugin(flags: dict[str, bool], bound: int) -> None:
    tier = [plugin("gang", **flags)]
    assert len(binds(plan_of(node("n1"), gang("g", 5), conf=conf("allocate", tier, ["predicates"])))) == bound


def test_two_gangs_that_need_the_same_gpus_do_not_block_each_other() -> None:
    one, two = gang("one", 4, gpu=1), gang("two", 4, gpu=1)
    state = state_of(node("n1", cpu=16, gpu=4), one, two)
    first = plan_in(state, ALLOCATE)
    assert sorted(binds(first)) == [f"one-w-{i}" for i in range(4)]
    assert nominations(first) == {}
    assert set(codes(first)) == {f"two-w-{i}" for i in range(4)}
    for i in range(4):
        state.apply(Changed(pod(f"one-w-{i}", "one", gpu=1, node="n1")))
    assert binds(plan_in(state, ALLOCATE)) == {}
    for i in range(4):
        state.apply(Gone("Pod", full(f"one-w-{i}")))
    assert sorted(binds(plan_in(state, ALLOCATE))) == [f"two-w-{i}" for i in range(4)]


def test_a_gang_that_does_not_fit_leaves_the_room_to_the_next() -> None:
    plan = plan_of(node("n1"), gang("a", 5, created=0), gang("b", 4, created=1), conf=ALLOCATE)
    assert sorted(binds(plan)) == [f"b-w-{i}" for i in range(4)]


def test_jobs_that_are_not_ready_go_before_those_that_are() -> None:
    ready = [group("a", minimum=1, created=0), pod("a-r-0", "a", cpu="3", node="n1"), pod("a-w-0", "a")]
    waits = [group("b", minimum=1, created=1), pod("b-w-0", "b")]
    assert list(binds(plan_of(node("n1"), ready, waits, conf=ALLOCATE))) == ["b-w-0"]
    off = conf("allocate", [plugin("gang", enableJobOrder=False)], ["predicates"])
    assert list(binds(plan_of(node("n1"), ready, waits, conf=off))) == ["a-w-0"]


# --- roles


def roles(minimum: int, demand: dict[str, int], pods: dict[str, int]) -> list[Objects]:
    """A group with roles; pods of role `no` fit nowhere."""
    members = [
        pod(f"x-{role}-{i}", role=role, nodeSelector={"none": "such"} if role == "no" else {})
        for role, count in pods.items()
        for i in range(count)
    ]
    return [node("n1", cpu=8), group(minimum=minimum, roles=demand), *members]


@pytest.mark.parametrize(
    ("minimum", "demand", "pods", "bound"),
    [
        pytest.param(3, {"ps": 1, "worker": 2}, {"ps": 1, "worker": 2}, 3, id="every role has its minimum"),
        pytest.param(3, {"no": 1, "worker": 2}, {"no": 1, "worker": 3}, 0, id="enough pods, but one role has none"),
        pytest.param(
            2, {"no": 1, "worker": 2}, {"no": 1, "worker": 3}, 3, id="below the sum of roles they are not asked"
        ),
        pytest.param(
            2, {"no": 0, "worker": 2}, {"no": 1, "worker": 2}, 2, id="a role with a minimum of zero may have none"
        ),
    ],
)
def test_roles(minimum: int, demand: dict[str, int], pods: dict[str, int], bound: int) -> None:
    assert len(binds(plan_of(*roles(minimum, demand, pods), conf=ALLOCATE))) == bound


def test_waiting_pods_of_a_role_that_ask_for_nothing_count_as_placed() -> None:
    objects = [
        group(minimum=2, roles={"ps": 1, "worker": 1}),
        best_effort("x-ps-0", role="ps"),
        pod("w", role="worker"),
    ]
    assert list(binds(plan_of(node("n1"), objects, conf=ALLOCATE))) == ["w"]


@pytest.mark.parametrize(
    ("minimum", "demand", "pods", "code", "message"),
    [
        pytest.param(
            3,
            {},
            {"worker": 2},
            "NotEnoughTasks",
            "Not enough valid tasks for gang-scheduling, valid: 2, min: 3",
            id="fewer pods than the minimum",
        ),
        pytest.param(
            3,
            {"ps": 1, "worker": 2},
            {"worker": 3},
            "NotEnoughPodsOfTask",
            "Not enough valid pods of each task for gang-scheduling",
            id="a role without its pods",
        ),
    ],
)
def test_groups_that_cannot_start(
    minimum: int, demand: dict[str, int], pods: dict[str, int], code: str, message: str
) -> None:
    plan = plan_of(*roles(minimum, demand, pods), conf=ALLOCATE)
    assert binds(plan) == {}
    assert {(p.code, p.message) for p in plan.pending} == {(code, message)}


# --- phases


def stands(*kinds: str) -> list[Objects]:
    """Pods of group `g`: R running, S succeeded, F failed, P waiting, D being deleted, B bound, W waiting with room."""
    made: dict[str, dict[str, Any]] = {
        "R": {"node": "n1"},
        "S": {"node": "n1", "phase": "Succeeded"},
        "F": {"node": "n1", "phase": "Failed"},
        "D": {"node": "n1", "deleting": True},
        "B": {"node": "n1", "phase": "Pending"},
        "P": {"cpu": "99"},
        "W": {},
    }
    return [pod(f"p{i}", **made[kind]) for i, kind in enumerate(kinds)]


WITH, WITHOUT = ["gang"], ["predicates"]


@pytest.mark.parametrize(
    ("pods", "before", "tier", "after"),
    [
        pytest.param("RR", "Inqueue", WITH, "Running", id="two run"),
        pytest.param("RS", "Inqueue", WITH, "Running", id="one runs, one has succeeded"),
        pytest.param("SS", "Running", WITH, "Completed", id="two have succeeded"),
        pytest.param("SF", "Running", WITHOUT, "Completed", id="one has succeeded, one failed"),
        pytest.param("SSP", "Running", WITH, "Running", id="two have succeeded, one waits in vain"),
        pytest.param("SSP", "Completed", WITHOUT, "Running", id="two have succeeded, one has come since"),
        pytest.param("SSW", "Running", WITH, "Running", id="two have succeeded, one gets room now"),
        pytest.param("RP", "Running", WITH, "Unknown", id="one runs, one waits in vain"),
        pytest.param("RP", "Running", WITHOUT, "Pending", id="one runs, one waits, and no one says that it is in vain"),
        pytest.param("PP", "Inqueue", WITH, "Inqueue", id="two wait in vain and were admitted"),
        pytest.param("PP", "Inqueue", WITHOUT, "Inqueue", id="two wait and were admitted"),
        pytest.param("PP", "Running", WITH, "Pending", id="two wait in vain that ran before"),
        pytest.param("RD", "Pending", WITH, "Running", id="one runs, one is being deleted"),
        pytest.param("BW", "Inqueue", WITH, "Inqueue", id="one is bound, one gets room now"),
    ],
)
def test_phase_of_a_group_with_a_minimum_of_two(pods: str, before: str, tier: list[str], after: str) -> None:
    plan = plan_of(node("n1", cpu=16), group(minimum=2, phase=before), stands(*pods), conf=conf("allocate", tier))
    assert phases(plan).get("g", before) == after


def test_a_group_that_is_as_it_should_be_is_not_in_the_plan() -> None:
    assert plan_of(node("n1"), group(phase="Running"), pod("p", node="n1"), conf=ALLOCATE).groups == {}


# --- what a group is told


def four_nodes() -> list[Objects]:
    """Three nodes without room, one of which runs a pod of the gang, and one with a taint."""
    full_nodes = [node("n1", cpu=1), node("n2", cpu="500m"), node("n3", cpu="500m")]
    return [*full_nodes, node("n4", taints=["dedicated=db:NoSchedule"])]


def test_messages_of_a_gang_that_waits() -> None:
    pods = [pod("w-0"), pod("w-1"), pod("w-2", node="n1")]
    plan = plan_of(*four_nodes(), group(minimum=3, phase="Running"), pods, conf=ALLOCATE)
    task = "0/4 nodes are unavailable: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    job = (
        "pod group is not ready, 1 Running, 2 Pending, 3 minAvailable; Pending: 2 Unschedulable. "
        f"Origin reason is w-0: {task}"
    )
    assert pending(plan)["w-0"].message == task
    told = Condition("Unschedulable", "NotEnoughResources", f"2/3 tasks in gang unschedulable: {job}")
    assert condition(plan) == told


def test_message_of_a_gang_of_which_a_part_would_fit() -> None:
    plan = plan_of(node("n1", cpu=2), group(minimum=3), pod("w-0"), pod("w-1"), pod("w-2"), conf=ALLOCATE)
    text = (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; "
        "Pending: 1 Unschedulable, 2 Schedulable. "
        "Origin reason is w-2: 0/1 nodes are unavailable: 1 Insufficient cpu."
    )
    assert condition(plan) == Condition("Unschedulable", "NotEnoughResources", text)


def test_message_of_a_gang_with_too_few_pods() -> None:
    plan = plan_of(node("n1"), group(minimum=3), pod("w-0"), conf=ALLOCATE)
    text = (
        "3/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 3 minAvailable; Pending: 1 Unschedulable. "
        "Origin reason is: Not enough valid tasks for gang-scheduling, valid: 1, min: 3"
    )
    assert condition(plan) == Condition("Unschedulable", "NotEnoughResources", text)


def test_a_gang_that_starts_is_told_so() -> None:
    plan = plan_of(node("n1"), gang("g", 2), conf=ALLOCATE)
    assert condition(plan) == Condition("Scheduled", "tasks in gang are ready to be scheduled", "")
    assert plan.groups[full("g")].counts == {"Binding": 2}


def test_a_gang_that_goes_away_is_told_nothing() -> None:
    pods = [pod("w-0", node="n1", deleting=True), pod("w-1", node="n1", deleting=True)]
    plan = plan_of(node("n1"), group(minimum=2, phase="Running"), pods, conf=ALLOCATE)
    assert "g" not in phases(plan) or condition(plan) is None


def test_a_group_without_pods_is_told_nothing() -> None:
    plan = plan_of(node("n1"), group(minimum=2, phase="Pending"), conf=ALLOCATE)
    assert condition(plan) is None


def test_gpus_are_named_when_they_are_what_is_missing() -> None:
    plan = plan_of(node("n1"), node("n2", gpu=1), gang("g", 1, gpu=2), conf=PLAIN)
    assert pending(plan)["g-w-0"].message == f"0/2 nodes are unavailable: 2 Insufficient {GPU}."
