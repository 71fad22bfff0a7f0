"""The controller of resource claims: claims of pods, and claims that no pod uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.dynamic import CLAIM_OF_POD, EXTENDED_CLAIM, FINALIZER
from kilauea.api.kinds import CLAIM_TEMPLATES, PODS, RESOURCE_CLAIMS
from kilauea.controllers.resource_claims import ResourceClaimController
from support.controlled import Cluster

REQUEST = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
SPEC: dict[str, Any] = {"devices": {"requests": [REQUEST]}}


@pytest.fixture
def world(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(ResourceClaimController())


def pod(world: Cluster, name: str = "p", **entry: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    claims = [{"name": "card", **(entry or {"resourceClaimTemplateName": "t"})}]
    return world.create(
        PODS, {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
    )


def template(world: Cluster, **metadata: Any) -> None:
    world.create(CLAIM_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"metadata": metadata, "spec": SPEC}})


def given(world: Cluster, claim: str, *pods: dict[str, Any]) -> None:
    """A scheduler gives a claim a device, for some pods."""
    results = [{"request": "g", "driver": "d", "pool": "p", "device": "x"}]
    users = [{"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in pods]
    world.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}})
    world.patch(
        RESOURCE_CLAIMS,
        claim,
        {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": users}},
        "status",
    )


def made_for(world: Cluster, name: str) -> str:
    (entry,) = world.get(PODS, name)["status"]["resourceClaimStatuses"]
    assert entry["name"] == "card"
    return str(entry["resourceClaimName"])


def bind(world: Cluster, name: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    world.api.run(
        world.client.create(PODS, "default", {"apiVersion": "v1", "kind": "Binding", **body}, "binding", name)
    )


def test_a_pod_gets_a_claim_of_its_own_from_its_template(world: Cluster) -> None:
    template(world, labels={"team": "a"}, annotations={"why": "x"})
    owner = pod(world)
    world.settle()
    claim = world.get(RESOURCE_CLAIMS, made_for(world, "p"))
    assert claim["spec"] == world.get(CLAIM_TEMPLATES, "t")["spec"]["spec"]
    assert claim["metadata"]["labels"] == {"team": "a"}
    assert claim["metadata"]["annotations"] == {"why": "x", CLAIM_OF_POD: "card"}
    (reference,) = claim["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Pod", owner["metadata"]["uid"], True)


def test_a_claim_that_is_made_but_not_noted_is_not_made_again(world: Cluster) -> None:
    """As after a crash between the two writes."""
    template(world)
    pod(world)
    world.settle()
    name = made_for(world, "p")
    world.patch(PODS, "p", {"status": {"resourceClaimStatuses": None}}, "status")
    world.settle()
    assert (world.names(RESOURCE_CLAIMS), made_for(world, "p")) == ([name], name)


def test_a_pod_whose_template_does_not_exist_is_told_and_gets_its_claim_when_it_comes(world: Cluster) -> None:
    pod(world)
    world.settle()
    assert ("p", "FailedResourceClaimCreation",
            'PodResourceClaim card: resourceclaimtemplate "t" not found') in world.told  # fmt: skip
    template(world)
    world.wait(60)
    assert world.names(RESOURCE_CLAIMS) == [made_for(world, "p")]


def test_a_claim_of_a_pod_that_has_ended_gives_its_devices_back_and_is_deleted(world: Cluster) -> None:
    template(world)
    owner = pod(world)
    world.settle()
    given(world, made_for(world, "p"), owner)
    bind(world, "p")
    world.say(world.get(PODS, "p"), "Running")
    world.settle()
    assert world.get(RESOURCE_CLAIMS, made_for(world, "p"))["status"]["reservedFor"]
    world.say(world.get(PODS, "p"), "Succeeded")
    world.settle()
    assert world.names(RESOURCE_CLAIMS) == []


def test_a_claim_that_pods_share_keeps_its_devices_until_the_last_of_them_has_ended(world: Cluster) -> None:
    world.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": SPEC})
    users = [pod(world, name, resourceClaimName="c") for name in ("p", "q")]
    given(world, "c", *users)
    for name in ("p", "q"):
        bind(world, name)
    world.say(world.get(PODS, "p"), "Failed")
    world.settle()
    status = world.get(RESOURCE_CLAIMS, "c")["status"]
    assert [each["name"] for each in status["reservedFor"]] == ["q"]
    assert status["allocation"]
    world.delete(PODS, "q", grace=0)
    world.settle()
    claim = world.get(RESOURCE_CLAIMS, "c")
    assert claim.get("status", {}) == {}
    assert not claim["metadata"].get("finalizers")


def test_a_claim_that_is_being_deleted_stays_as_long_as_a_pod_uses_it(world: Cluster) -> None:
    world.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": SPEC})
    user = pod(world, resourceClaimName="c")
    given(world, "c", user)
    bind(world, "p")
    world.delete(RESOURCE_CLAIMS, "c")
    world.settle()
    assert world.names(RESOURCE_CLAIMS) == ["c"]
    world.delete(PODS, "p", grace=0)
    world.settle()
    assert world.names(RESOURCE_CLAIMS) == []


def test_a_consumer_that_is_no_pod_keeps_its_claim(world: Cluster) -> None:
    world.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": SPEC})
    given(world, "c")
    status = {"reservedFor": [{"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u"}]}
    world.patch(RESOURCE_CLAIMS, "c", {"status": status}, "status")
    world.settle()
    assert world.get(RESOURCE_CLAIMS, "c")["status"]["reservedFor"] == status["reservedFor"]


# --- claims for extended resources, which a scheduler makes


def special(world: Cluster, pod: dict[str, Any]) -> None:
    """The claim that a scheduler made for the extended resources of a pod, with a device."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    metadata = {"name": "s", "annotations": {EXTENDED_CLAIM: "true"}, "ownerReferences": [reference]}
    world.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": SPEC})
    given(world, "s", pod)
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "g"}
    status = {"resourceClaimName": "s", "requestMappings": [mapping]}
    world.patch(PODS, "p", {"status": {"extendedResourceClaimStatus": status}}, "status")


def asking(world: Cluster) -> dict[str, Any]:
    amounts = {"example.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return world.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_claim_for_extended_resources_goes_when_its_pod_has_ended(world: Cluster, phase: str) -> None:
    special(world, asking(world))
    bind(world, "p")
    world.say(world.get(PODS, "p"), "Running")
    world.settle()
    assert world.get(RESOURCE_CLAIMS, "s")["status"]["reservedFor"]
    world.say(world.get(PODS, "p"), phase)
    world.settle()
    assert world.names(RESOURCE_CLAIMS) == []


def test_the_claim_for_extended_resources_gives_its_devices_back_when_its_pod_is_gone(world: Cluster) -> None:
    special(world, asking(world))
    bind(world, "p")
    world.delete(PODS, "p", grace=0)
    world.settle()
    claim = world.get(RESOURCE_CLAIMS, "s")  # the garbage collector deletes it by its owner
    assert (claim.get("status", {}), claim["metadata"].get("finalizers")) == ({}, None)
