"""Quotas of queues on devices that pods claim: `deviceclass/<class>` in the capability."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import Data, Objects, binds, codes, conf, flat, group, node, pending, plan_of, queue
from support.device_objects import ask, claim, claiming, device_class, pods_with_own, slice_

FLAT = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
TREE = conf("enqueue, allocate", ["gang"], ["predicates", {"name": "capacity", "enableHierarchy": True}])
DIMENSIONS = conf(
    "enqueue, allocate", ["gang"], ["predicates", ("capacity", {"capacity.DRAConsumableCapacityEnable": True})]
)
CARDS = ["a", "b", "c", "d"]


def cluster(limit: Data, *objects: Any, of: Data = FLAT) -> Any:
    devices = slice_("n1", *CARDS)
    return plan_of(node("n1", cpu=99), device_class(), devices, queue("q", capability=limit), objects, conf=of)


def pods(count: int, each: int = 1, **fields: Any) -> list[Any]:
    names = [f"p-w-{i}" for i in range(count)]
    return flat([[group(name, minimum=1), *pods_with_own(name, group=name, requests=[ask(count=each, **fields)])]
                 for name in names])  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "each", "starting"),
    [
        ({"deviceclass/gpu": 2}, 1, 2),
        ({"deviceclass/gpu": 2}, 2, 1),
        ({"deviceclass/gpu": 1}, 2, 0),
        ({"deviceclass/gpu": 0}, 1, 4),  # no limit, as in the original
        ({"deviceclass/other": 1}, 1, 4),
        ({"cpu": 99}, 1, 4),
    ],
)
def test_a_queue_claims_no_more_devices_of_a_class_than_its_capability(limit: Data, each: int, starting: int) -> None:
    assert len(binds(cluster(limit, pods(4, each)))) == starting


def test_the_reason_names_the_queue_the_class_and_what_is_left() -> None:
    found = cluster({"deviceclass/gpu": 1}, pods(2))
    (reason,) = pending(found).values()
    assert (reason.code, reason.queue, reason.resource) == ("QueueQuotaExceeded", "q", "deviceclass/gpu")
    assert reason.message == "queue q would exceed the deviceclass/gpu that it may use"
    assert (reason.asked, reason.left) == (1000, 0)


def test_running_pods_count_and_terminating_ones_do_not() -> None:
    held = [claim("r", held=["n1/a"], node="n1", by=["r"]), claim("s", held=["n1/b"], node="n1", by=["s"])]
    running = [claiming("r", "r", node="n1", group="run"), claiming("s", "s", node="n1", group="run", deleting=True)]
    found = cluster({"deviceclass/gpu": 2}, held, running, group("run", phase="Running"), pods(2))
    assert len(binds(found)) == 1


def test_a_claim_that_pods_share_counts_once() -> None:
    shared = [claim("c", ask(count=2)), group("g", minimum=1), [claiming(f"p-{i}", "c") for i in range(3)]]
    found = cluster({"deviceclass/gpu": 2}, shared)
    assert len(binds(found)) == 3
    assert found.queues["q"].allocated["deviceclass/gpu"] == 2000


def test_all_devices_and_alternatives_are_not_counted() -> None:
    every = [group("x", minimum=1), *pods_with_own("x-w-0", group="x", requests=[ask(allocationMode="All")])]
    assert len(binds(cluster({"deviceclass/gpu": 1}, every))) == 1


def test_every_queue_above_counts() -> None:
    queues = [queue("root"), queue("up", capability={"deviceclass/gpu": 1}), queue("q", parent="up")]
    found = plan_of(node("n1", cpu=99), device_class(), slice_("n1", *CARDS), queues, pods(2), conf=TREE)
    assert len(binds(found)) == 1
    (reason,) = pending(found).values()
    assert reason.queue == "up"


def test_a_shared_claim_counts_once_in_the_queue_above() -> None:
    queues = [
        queue("root"), queue("up", capability={"deviceclass/gpu": 1}), queue("q", parent="up"), queue("r", parent="up")
    ]  # fmt: skip
    groups = [group("x", queue="q"), group("y", queue="r")]
    sharing = [claim("c"), claiming("x-w-0", "c", group="x"), claiming("y-w-0", "c", group="y")]
    found = plan_of(node("n1", cpu=99), device_class(), slice_("n1", *CARDS), queues, groups, sharing, conf=TREE)
    assert len(binds(found)) == 2


def test_capacities_count_when_that_is_switched_on() -> None:
    wants = pods(2, capacity={"requests": {"memory": "10Gi"}})
    cards = slice_("n1", *({"name": n, "capacity": {"memory": {"value": "40Gi"}}} for n in CARDS))
    limit = {"deviceclass/gpu": 4, "memory.deviceclass/gpu": "10Gi"}
    objects: list[Objects] = [node("n1", cpu=99), device_class(), cards, queue("q", capability=limit), wants]
    assert len(binds(plan_of(*objects, conf=DIMENSIONS))) == 1
    assert len(binds(plan_of(*objects, conf=FLAT))) == 2


def test_a_group_whose_minimum_needs_more_is_not_admitted() -> None:
    names = [f"x-w-{i}" for i in range(2)]
    big = [group("x", minimum=2, phase="Pending", resources={"cpu": 1}), *pods_with_own(*names, group="x")]
    found = cluster({"deviceclass/gpu": 1}, big)
    assert set(codes(found).values()) == {"QueueQuotaInsufficient"}
    assert found.groups["ns/x"].phase == "Pending"


def test_the_minimum_goes_by_the_minima_of_roles() -> None:
    names = [f"x-w-{i}" for i in range(3)]
    roles = group("x", minimum=2, phase="Pending", resources={"cpu": 1}, roles={"w": 2})
    big = [roles, *pods_with_own(*names, group="x", role="w")]
    assert found_phase(cluster({"deviceclass/gpu": 1}, big)) == "Pending"
    assert found_phase(cluster({"deviceclass/gpu": 2}, big)) != "Pending"


def test_a_claim_that_the_queue_holds_already_does_not_count_against_admission() -> None:
    held = [claim("c", held=["n1/a"], node="n1", by=["r"]), claiming("r", "c", node="n1", group="run")]
    new = [group("x", minimum=1, phase="Pending", resources={"cpu": 1}), claiming("x-w-0", "c", group="x")]
    found = cluster({"deviceclass/gpu": 1}, held, group("run", phase="Running"), new)
    assert binds(found) == {"x-w-0": "n1"}


@pytest.mark.parametrize("roles", [{"w": 3}, None], ids=["with minima of roles", "without"])
def test_a_claim_that_the_pods_of_a_group_share_counts_once_for_admission(roles: dict[str, int] | None) -> None:
    new = group("x", minimum=3, phase="Pending", resources={"cpu": 1}, roles=roles)
    found = cluster(
        {"deviceclass/gpu": 1}, claim("c"), new, [claiming(f"x-w-{i}", "c", group="x", role="w") for i in range(3)]
    )
    assert len(binds(found)) == 3


def test_a_claim_that_groups_share_counts_once_for_admission() -> None:
    new = [
        [group(g, minimum=1, phase="Pending", resources={"cpu": 1}), claiming(f"{g}-w-0", "c", group=g)] for g in "xy"
    ]
    assert len(binds(cluster({"deviceclass/gpu": 1}, claim("c"), new))) == 2


def test_pods_that_have_not_come_yet_count_for_admission_by_what_the_first_of_their_role_has_for_itself() -> None:
    """Two of three pods are there; each claims a device of its own beside the one that they share."""
    new = group("x", minimum=3, phase="Pending", resources={"cpu": 1}, roles={"w": 3})
    there = [
        [claim(f"own-{i}", owner=f"x-w-{i}"), claiming(f"x-w-{i}", "c", f"own-{i}", group="x", role="w")]
        for i in (0, 1)
    ]
    assert found_phase(cluster({"deviceclass/gpu": 4}, claim("c"), new, there)) != "Pending"
    assert found_phase(cluster({"deviceclass/gpu": 3}, claim("c"), new, there)) == "Pending"


def found_phase(plan: Any) -> str:
    return str(plan.groups["ns/x"].phase)


def test_huge_counts_do_not_wrap() -> None:
    huge = pods(1, each=2**62)
    assert binds(cluster({"deviceclass/gpu": 8}, huge)) == {}


def test_a_limit_of_devices_leaves_shares_as_they_are() -> None:
    """It is not a resource of nodes: a queue that names only devices is still without a promise."""
    found = plan_of(
        node("n1", cpu=99), device_class(), slice_("n1", *CARDS), pods(1),
        queue("q", capability={"deviceclass/gpu": 4}, deserved={"deviceclass/gpu": 4}), conf=FLAT,
    )  # fmt: skip
    assert "deviceclass/gpu" not in (found.queues["q"].deserved or {})
    assert found.queues["q"].capability == {"deviceclass/gpu": 4000}
    assert len(binds(found)) == 1
