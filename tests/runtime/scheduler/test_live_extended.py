"""The live scheduler makes the claims for extended resources that devices serve, across failures and restarts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.kinds import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kilauea.api.ports import ApiError
from kilauea.engine.cycle import cycle, default_conf
from kilauea.engine.model.claims.extended import special_name
from kilauea.runtime.inputs.resources import PODS
from support.live_world import Intercepted, Live, live_world
from support.older_api import Older

DRIVER = "gpu.example.com"
GPU = "example.com/gpu"


def devices(live: Live, node: str, *names: str) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": name} for name in names]}
    live.create(RESOURCE_SLICES, f"{node}-s", spec=spec)


def world(live: Live, *names: str) -> None:
    live.node("n1")
    devices(live, "n1", *names)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    live.create(DEVICE_CLASSES, "gpu", spec={"selectors": [selector], "extendedResourceName": GPU})


def user(live: Live, name: str, count: int = 1) -> None:
    amounts = {"cpu": "1", GPU: str(count)}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": {GPU: str(count)}}}
    live.pod(name, containers=[container])


def claims(live: Live) -> dict[str, dict[str, Any]]:
    """By pod, the claims for extended resources."""
    listed = live.world.run(live.calm.list(RESOURCE_CLAIMS)).items
    found = [msgspec.json.decode(item) for item in listed]
    assert all(each["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
               for each in found)  # fmt: skip
    by_pod = {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}
    assert len(by_pod) == len(found)
    return by_pod


def held(live: Live) -> dict[str, list[str]]:
    """By pod the devices of its claim."""
    return {
        pod: [each["device"] for each in (claim.get("status") or {"allocation": {"devices": {"results": []}}})
              ["allocation"]["devices"]["results"]]
        for pod, claim in claims(live).items()
    }  # fmt: skip


def test_a_pod_gets_a_claim_with_devices_before_it_is_bound() -> None:
    with live_world() as live:
        world(live, "a", "b", "c")
        user(live, "p", 2)
        live.start()
        live.wait(1)
        claim, pod = claims(live)["p"], live.get(PODS, "p")
        name = claim["metadata"]["name"]
        assert name.startswith("p-extended-resources-")
        assert claim["metadata"]["generateName"] == "p-extended-resources-"
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
        assert claim["spec"] == {"devices": {"requests": [{"name": "container-0-request-1", "exactly": exactly}]}}
        assert held(live) == {"p": ["a", "b"]}
        assert [each["uid"] for each in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
        mapping = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}
        assert pod["status"]["extendedResourceClaimStatus"] == {
            "resourceClaimName": name,
            "requestMappings": [mapping],
        }
        assert live.node_of("p") == "n1"
        order = [f"{method} {target.partition('?')[0].rsplit('/', 1)[-1]}" for method, target in live.wire.sent
                 if method != "GET" and "events" not in target and "queues" not in target]  # fmt: skip
        assert order[:5] == ["POST resourceclaims", f"PUT {name}", "PUT status", "PATCH status", "POST binding"]


def test_a_node_that_offers_the_resource_needs_no_claim() -> None:
    with live_world() as live:
        world(live, "a")
        offer = {"cpu": "4", "memory": "64Gi", "pods": "110", GPU: "1"}
        live.patch(NODES, "n1", {"status": {"capacity": offer, "allocatable": offer}}, "status")
        user(live, "p")
        live.start()
        live.wait(1)
        assert (live.node_of("p"), claims(live)) == ("n1", {})
        assert "extendedResourceClaimStatus" not in live.get(PODS, "p")["status"]


def test_a_device_that_is_being_given_is_given_to_no_pod_of_the_next_cycle() -> None:
    """The claim does not exist yet when the next cycle begins."""
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        live.start()
        live.wait(0.02)
        user(live, "q")
        live.wait(2)
        assert (live.node_of("p"), live.node_of("q"), held(live)) == ("n1", "", {"p": ["a"]})


@pytest.mark.parametrize("after", ["/resourceclaims", "/CLAIM", "/CLAIM/status", "pods/p/status", "pods/p/binding"])
def test_a_restart_at_any_write_makes_one_claim_and_gives_no_device_twice(after: str) -> None:
    """The scheduler dies once the write is done; the next one finds the claim again."""
    with live_world() as live:
        world(live, "a", "b")
        user(live, "p")
        died = False

        def die(method: str, target: str) -> None:
            nonlocal died
            path = target.partition("?")[0]
            parts = path.split("/")
            named = [each for each in parts if each.startswith("p-extended-resources-")]
            if named:
                path = path.replace(named[0], "CLAIM")
            if not died and method != "GET" and path.endswith(after):
                died = True
                raise ApiError(0, "", "the process is gone")

        live.wire.after = die
        live.start()
        live.wait(0.01)
        live.stop()
        live.wire.after = None
        live.restart()
        live.start()
        user(live, "q")
        live.wait(60)
        assert died
        assert (live.node_of("p"), live.node_of("q")) == ("n1", "n1")
        assert sorted(each for devices in held(live).values() for each in devices) == ["a", "b"]


def test_a_lost_answer_makes_no_second_claim() -> None:
    with live_world() as live:
        world(live, "a", "b")
        user(live, "p")
        lost: list[str] = []

        def lose(method: str, target: str) -> None:
            if method == "POST" and target.partition("?")[0].endswith("/resourceclaims") and not lost:
                lost.append(target)
                raise ApiError(0, "", "connection reset")

        live.wire.after = lose
        live.start()
        live.wait(30)
        assert lost
        assert (live.node_of("p"), held(live)) == ("n1", {"p": ["a"]})


def test_a_bind_that_the_server_refuses_deletes_the_claim() -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")

        async def refuse(method: str, target: str) -> None:
            if target.endswith("pods/p/binding"):
                raise ApiError(403, "Forbidden", "not this pod")

        live.wire.before = refuse
        live.start()
        live.wait(0.5)
        assert claims(live) == {}
        user(live, "q")
        live.wait(60)
        assert (live.node_of("p"), live.node_of("q"), held(live)) == ("", "n1", {"q": ["a"]})


@pytest.mark.parametrize("given_up", ["the bind fails", "its node is cordoned while the scheduler is down"])
def test_a_pod_does_not_name_a_claim_that_was_given_up(given_up: str) -> None:
    """It starts where the node offers the resource; a kubelet would wait for the claim forever."""
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        refusing = True

        async def refuse(method: str, target: str) -> None:
            if target.endswith("pods/p/binding") and refusing:
                raise ApiError(403 if given_up == "the bind fails" else 0, "Forbidden", "not this pod")

        live.wire.before = refuse
        live.start()
        live.wait(0.01)
        if given_up != "the bind fails":
            live.stop()
            assert "extendedResourceClaimStatus" in live.get(PODS, "p")["status"]
        live.patch(NODES, "n1", {"spec": {"unschedulable": True}})
        live.node("n2")
        offer = {"cpu": "4", "memory": "64Gi", "pods": "110", GPU: "1"}
        live.patch(NODES, "n2", {"status": {"capacity": offer, "allocatable": offer}}, "status")
        refusing = False
        if given_up != "the bind fails":
            live.restart()
            live.start()
        live.wait(30)
        assert (live.node_of("p"), claims(live)) == ("n2", {})
        assert "extendedResourceClaimStatus" not in live.get(PODS, "p")["status"]


def test_a_claim_without_devices_that_asks_for_something_else_is_made_again() -> None:
    """As an earlier scheduler left it, before the class served the resource by another count."""
    with live_world() as live:
        world(live, "a", "b")
        user(live, "p")
        pod = live.get(PODS, "p")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
        marks = {"resource.kubernetes.io/extended-resource-claim": "true"}
        request = {"name": "container-0-request-1", "exactly": {"deviceClassName": "gpu", "count": 2}}
        metadata = {"ownerReferences": [owner], "annotations": marks}
        spec = {"devices": {"requests": [request]}}
        live.create(RESOURCE_CLAIMS, "p-extended-resources-old", metadata=metadata, spec=spec)
        live.start()
        live.wait(5)
        assert (live.node_of("p"), held(live)) == ("n1", {"p": ["a"]})
        assert claims(live)["p"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_a_claim_of_the_same_name_that_belongs_to_another_pod_is_left_alone() -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        name = special_name("p", live.get(PODS, "p")["metadata"]["uid"])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "other", "controller": True}
        request = {"name": "container-0-request-1", "exactly": {"deviceClassName": "gpu", "count": 1}}
        spec = {"devices": {"requests": [request]}}
        live.create(RESOURCE_CLAIMS, name, metadata={"ownerReferences": [owner]}, spec=spec)
        live.start()
        live.wait(5)
        claim = live.get(RESOURCE_CLAIMS, name)
        own = live.get(PODS, "p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert (live.node_of("p"), own) == ("n1", special_name("p", live.get(PODS, "p")["metadata"]["uid"], 1))
        assert (claim["metadata"]["ownerReferences"], claim.get("status", {})) == ([owner], {})


def test_a_claim_whose_devices_are_where_its_pod_does_not_fit_is_deleted_and_made_elsewhere() -> None:
    with live_world() as live:
        world(live, "a")
        live.node("n2")
        devices(live, "n2", "b")
        user(live, "p")

        async def refuse(method: str, target: str) -> None:
            if target.endswith("pods/p/binding"):
                raise ApiError(0, "", "the process is gone")

        live.wire.before = refuse
        live.start()
        live.wait(0.01)
        live.stop()
        assert held(live) == {"p": ["a"]}
        live.patch(NODES, "n1", {"spec": {"unschedulable": True}})
        live.wire.before = None
        live.restart()
        live.start()
        live.wait(10)
        assert (live.node_of("p"), held(live)) == ("n2", {"p": ["b"]})


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_the_claim_is_made_in_the_version_that_the_cluster_serves(version: str) -> None:
    with live_world() as live:
        live.wire = Intercepted(Older(live.wire, version))
        live.restart()
        world(live, "a")
        user(live, "p")
        live.start()
        live.wait(1)
        assert (live.node_of("p"), held(live)) == ("n1", {"p": ["a"]})


def test_the_plan_of_a_dump_is_what_the_live_scheduler_decides() -> None:
    with live_world() as live:
        world(live, "a", "b")
        user(live, "p")
        user(live, "q", 2)
        live.start()
        live.wait(1)
        state, now = live.scheduler.feed.state, live.world.clock.now()
        assert held(live) == {"p": ["a"]}
        assert state.resource_claims.keys("ResourceClaim") == [f"default/{claims(live)['p']['metadata']['name']}"]
        plan = cycle(state, default_conf(), now)
        (reason,) = plan.pending
        assert (reason.pod, plan.binds) == ("default/q", ())
        assert f"Insufficient {GPU}" in reason.message
