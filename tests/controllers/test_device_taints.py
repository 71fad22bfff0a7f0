"""The controller that drives pods away from tainted devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, TAINT_RULES
from kilauea.controllers.device_taints import DeviceTaintEvictionController
from support.controlled import Cluster

TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute"}


@pytest.fixture
def world(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(DeviceTaintEvictionController())


def offer(world: Cluster, *taints: dict[str, Any], name: str = "s", generation: int = 1) -> None:
    """A slice with two devices, the first of which has taints."""
    devices = [{"name": "d0", "taints": list(taints)}, {"name": "d1"}]
    spec = {"driver": "d", "nodeName": "n1", "pool": {"name": "p", "resourceSliceCount": 1, "generation": generation}}
    world.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": {**spec, "devices": devices}})


def run(
    world: Cluster, name: str, device: str = "d0", *tolerations: dict[str, Any], bound: bool = True, **result: Any
) -> dict[str, Any]:
    """A pod that runs, with a device."""
    request = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
    world.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    claims = [{"name": "card", "resourceClaimName": name}]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
    pod = world.create(PODS, {"metadata": {"name": name}, "spec": spec})
    results = [{"request": "g", "driver": "d", "pool": "p", "device": device, "tolerations": list(tolerations)}]
    users = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
    given = {"allocation": {"devices": {"results": [{**results[0], **result}]}}, "reservedFor": users}
    world.patch(RESOURCE_CLAIMS, name, {"status": given}, "status")
    if bound:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        binding = {"apiVersion": "v1", "kind": "Binding", **body}
        world.api.run(world.client.create(PODS, "default", binding, "binding", name))
        world.say(pod, "Running")
    return pod


def rule(world: Cluster, selector: dict[str, str] | None, effect: str = "NoExecute", name: str = "r") -> None:
    spec: dict[str, Any] = {"taint": {"key": "broken", "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = selector
    world.create(TAINT_RULES, {"metadata": {"name": name}, "spec": spec})


def going(world: Cluster) -> list[str]:
    return [p["metadata"]["name"] for p in world.all(PODS) if p["metadata"].get("deletionTimestamp")]


def said(world: Cluster, name: str = "r") -> tuple[str, str, str]:
    (condition,) = world.get(TAINT_RULES, name)["status"]["conditions"]
    assert condition["type"] == "EvictionInProgress"
    return condition["status"], condition["reason"], condition["message"]


def test_a_pod_is_evicted_from_a_device_that_its_driver_taints(world: Cluster) -> None:
    run(world, "victim")
    run(world, "other", "d1")
    offer(world, TAINT)
    world.settle()
    assert going(world) == ["victim"]
    conditions = world.get(PODS, "victim")["status"]["conditions"]
    (disrupted,) = [each for each in conditions if each["type"] == "DisruptionTarget"]
    assert (disrupted["status"], disrupted["reason"]) == ("True", "DeletionByDeviceTaintManager")
    assert set(world.told) == {("victim", "DeviceTaintManagerEviction", "Marking for deletion")}


def test_a_pod_that_comes_to_a_tainted_device_is_evicted(world: Cluster) -> None:
    offer(world, TAINT)
    world.settle()
    run(world, "late")
    world.settle()
    assert going(world) == ["late"]


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        ([], 0),
        ([{"key": "broken", "operator": "Exists"}], None),
        ([{"key": "broken", "value": "yes", "effect": "NoExecute"}], None),
        ([{"key": "broken", "value": "no", "effect": "NoExecute"}], 0),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 0),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}], 30),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}], 0),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}], 0),
        ([{"operator": "Exists", "tolerationSeconds": 10}, {"operator": "Exists", "tolerationSeconds": 30}], 30),
        ([{"operator": "Exists", "tolerationSeconds": 10}, {"operator": "Exists"}], None),
    ],
)
def test_a_pod_stays_as_long_as_its_claim_tolerates_the_taint(
    world: Cluster, tolerations: list[dict[str, Any]], stays: int | None
) -> None:
    run(world, "p", "d0", *tolerations)
    offer(world, TAINT)
    world.wait((stays or 1000) - 1 if stays != 0 else 0)
    assert going(world) == (["p"] if stays == 0 else [])
    world.wait(2)
    assert going(world) == ([] if stays is None else ["p"])


def test_taints_that_drive_no_one_away_evict_no_pod(world: Cluster) -> None:
    run(world, "p")
    offer(world, {**TAINT, "effect": "NoSchedule"}, {**TAINT, "key": "told", "effect": "None"})
    world.wait(60)
    assert going(world) == []


def test_only_the_newest_generation_of_a_pool_counts(world: Cluster) -> None:
    run(world, "p")
    offer(world, name="new", generation=2)
    offer(world, TAINT, name="old", generation=1)
    world.wait(60)
    assert going(world) == []


def test_pods_without_a_node_and_pods_that_have_ended_are_left_alone(world: Cluster) -> None:
    run(world, "waits", bound=False)
    world.say(run(world, "ended"), "Succeeded")
    offer(world, TAINT)
    world.settle()
    assert going(world) == []


def test_a_claim_that_another_pod_of_the_name_used_evicts_no_pod(world: Cluster) -> None:
    run(world, "p")
    world.delete(PODS, "p", grace=0)
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "card", "resourceClaimName": "p"}]}
    world.create(PODS, {"metadata": {"name": "p"}, "spec": {**spec, "nodeName": "n1"}})
    offer(world, TAINT)
    world.settle()
    assert going(world) == []


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        ({}, ["a", "b"]),
        ({"driver": "d", "pool": "p"}, ["a", "b"]),
        ({"device": "d1"}, ["b"]),
        ({"driver": "other"}, []),
        (None, []),
    ],
)
def test_a_rule_evicts_the_pods_of_the_devices_that_it_selects(
    world: Cluster, selector: dict[str, str] | None, gone: list[str]
) -> None:
    run(world, "a", "d0")
    run(world, "b", "d1")
    offer(world)
    rule(world, selector)
    world.settle()
    assert going(world) == gone


def test_a_rule_says_how_many_pods_have_to_go_and_that_they_are_gone(world: Cluster) -> None:
    run(world, "a")
    run(world, "b", "d1", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20})
    rule(world, {})
    world.settle()
    assert said(world) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
    world.wait(30)
    assert said(world) == ("False", "Completed", "All pods that had to be evicted have been evicted.")
    assert going(world) == ["a", "b"]


def test_a_rule_without_pods_says_that_nothing_has_started(world: Cluster) -> None:
    rule(world, {})
    world.settle()
    assert said(world)[:2] == ("False", "NotStarted")
    assert world.next_due() is None


def test_a_rule_of_another_effect_says_so(world: Cluster) -> None:
    run(world, "a")
    rule(world, {}, "NoSchedule")
    world.settle()
    assert said(world) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")
    assert going(world) == []


def test_a_rule_without_effect_says_what_it_would_do_and_then_does_it(world: Cluster) -> None:
    run(world, "a")
    run(world, "b", "d1", {"operator": "Exists", "effect": "NoExecute"})
    offer(world)
    rule(world, {}, "None")
    world.settle()
    assert said(world) == (
        "False",
        "NoEffect",
        "2 published devices selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace if the "
        "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an "
        "update.",
    )
    assert going(world) == []
    world.patch(TAINT_RULES, "r", {"spec": {"taint": {"effect": "NoExecute"}}})
    world.settle()
    assert going(world) == ["a"]
