"""Pods whose containers are being resized: what the scheduler counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from engine.test_services import plan_of
from kilauea.api import core
from kilauea.api.core import Pod
from kilauea.api.resized import counted
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.task_specs import requests_of
from kilauea.runtime.inputs.reading import has_only_advanced, kept, pod_in
from support.builders import node
from support.builders import pod as plain_pod


def pod(
    wanted: str, actual: str | None = None, allocated: str | None = None, pending: str = "", **metadata: Any
) -> Pod:
    """A pod with one container, and cpu as spec, status and node have it."""
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": wanted, "memory": "1Gi"}}}
    status: dict[str, Any] = {"name": "c"}
    if actual is not None:
        status["resources"] = {"requests": {"cpu": actual, "memory": "1Gi"}}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated, "memory": "1Gi"}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": pending}] if pending else []
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "default", **metadata},
            "spec": {"nodeName": "n", "containers": [container]},
            "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [status]},
        },
        Pod,
    )


CASES = [
    pytest.param(pod("1", "1", "1"), 1000, id="none is under way"),
    pytest.param(pod("1"), 1000, id="the node says nothing"),
    pytest.param(pod("1", None, "2"), 1000, id="the node does not say what is in force"),
    pytest.param(pod("2", "1", "1", "Deferred"), 2000, id="a deferred one counts, as it is to be done"),
    pytest.param(pod("9", "1", "1", "Infeasible"), 1000, id="an infeasible one does not"),
    pytest.param(pod("9", "1", "2", "Infeasible"), 2000, id="what was granted before it does"),
    pytest.param(pod("2", "1", "2"), 2000, id="larger, under way"),
    pytest.param(pod("1", "2", "1"), 2000, id="smaller, under way: what is in force is not free yet"),
    pytest.param(pod("1", "1000m", "1"), 1000, id="the same, written otherwise"),
]


@pytest.mark.parametrize(("resized", "cpu"), CASES)
def test_the_largest_amount_counts_that_can_be_in_force(resized: Pod, cpu: int) -> None:
    asked = requests_of(counted(resized).spec)[0]
    assert (asked[CPU], asked[MEMORY]) == (cpu, 1 << 30)
    # What is kept of the pod says the same.
    assert requests_of(counted(pod_in(kept(resized))).spec)[0] == asked


def test_a_resize_that_does_not_count_shares_the_spec_that_is_there() -> None:
    there = pod("1", "1", "1")
    assert counted(there) is there


def test_sidecars_count_in_the_same_way_and_other_init_containers_do_not() -> None:
    resized = pod("1", "1", "1")
    for number, policy in enumerate((None, "Always")):
        made = pod("1", "4", "4")
        (container,), (status,) = made.spec.containers or [], (made.status and made.status.container_statuses) or []
        container.name = status.name = f"i{number}"
        container.restart_policy = policy
        resized.spec.init_containers = [*(resized.spec.init_containers or []), container]
        assert resized.status is not None
        resized.status.init_container_statuses = [*(resized.status.init_container_statuses or []), status]
    assert requests_of(counted(resized).spec)[0][CPU] == 5000


@pytest.mark.parametrize(("pending", "placed"), [("Infeasible", True), ("Deferred", False)])
def test_room_that_an_infeasible_resize_would_take_is_given_to_others(pending: str, placed: bool) -> None:
    held = plain_pod("held", "", cpu=1, node="n", phase="Running", schedulerName="default-scheduler")
    assert isinstance(held, Pod)
    containers = held.spec.containers or []
    has = core.ContainerStatus(containers[0].name, containers[0].resources, {"cpu": "1"})
    held.spec.containers = [replace(containers[0], resources=core.Requirements({"cpu": "3"}))]
    held.status = core.PodStatus(
        phase="Running",
        conditions=[core.PodCondition("PodResizePending", "True", reason=pending)],
        container_statuses=[has],
    )
    arrived = plain_pod("arrived", "", cpu=2, schedulerName="default-scheduler")
    plan = plan_of(node("n", cpu=4), held, arrived)
    assert bool(plan.binds) is placed


@pytest.mark.parametrize(
    ("before", "now", "alike"),
    [
        (pod("2", "1", "1", "Deferred"), pod("2", "2", "2"), True),
        (pod("9", "1", "1", "Infeasible"), pod("9", "9", "9"), False),
        (pod("9"), pod("9", "1", "1", "Infeasible"), False),
        (pod("1", "2", "2"), pod("1", "1", "1"), False),
        (pod("1"), pod("1", "1", "1"), True),
    ],
)
def test_a_pod_is_read_again_if_another_amount_counts(before: Pod, now: Pod, alike: bool) -> None:
    assert has_only_advanced(before, now) is alike
