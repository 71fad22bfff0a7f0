"""The live scheduler binds a pod once the devices of its claims are prepared."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilauea.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from support.live_world import Live, live_world

DRIVER = "fabric.example.com"
CONDITIONS = {"bindsToNode": True, "bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}


def world(live: Live, *devices: str) -> None:
    """Two nodes, and devices that are attached to one of them before a pod may use them."""
    live.node("n1")
    live.node("n2")
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": name} | CONDITIONS for name in devices]
    live.create(RESOURCE_SLICES, "s", spec={"driver": DRIVER, "allNodes": True, "pool": pool, "devices": listed})
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    live.create(DEVICE_CLASSES, "gpu", spec={"selectors": [selector]})
    request = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
    live.create(RESOURCE_CLAIMS, "c", spec={"devices": {"requests": [request]}})


def user(live: Live, name: str) -> None:
    live.pod(name, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


def report(live: Live, **conditions: str) -> None:
    """Let the driver set conditions of the device of the claim."""
    (result,) = live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["devices"]["results"]
    listed = [
        {"type": name, "status": status, "reason": "Because", "message": "of the cable", "lastTransitionTime": NOW}
        for name, status in conditions.items()
    ]
    device = {name: result[name] for name in ("driver", "pool", "device")} | {"conditions": listed}
    live.patch(RESOURCE_CLAIMS, "c", {"status": {"devices": [device]}}, "status")


QUICK = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments: {dynamicresources.bindingTimeoutSeconds: 30}
"""
NOW = "2025-01-01T00:00:00Z"


def status(live: Live) -> dict[str, object]:
    found: dict[str, object] = live.get(RESOURCE_CLAIMS, "c").get("status") or {}
    return found


def test_a_pod_is_bound_once_its_device_is_attached_to_the_node() -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        live.start()
        live.wait(30)
        allocation = live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]
        (result,) = allocation["devices"]["results"]
        assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["Attached"], ["Failed"])
        ((term,),) = [allocation["nodeSelector"]["nodeSelectorTerms"]]
        (node,) = term["matchFields"][0]["values"]
        assert allocation["allocationTimestamp"]
        assert live.node_of("p") == ""
        assert "BindingConditionsPending" in live.reasons("Pod", "p")
        report(live, Attached="False")
        live.wait(5)
        assert live.node_of("p") == ""
        report(live, Attached="True", Failed="False")
        live.wait(5)
        assert live.node_of("p") == node


def test_a_pod_whose_device_cannot_be_attached_gets_one_again() -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        live.start()
        live.wait(1)
        report(live, Failed="True")
        live.wait(1)
        assert status(live) == {}
        live.wait(10)
        assert "devices" not in status(live)
        report(live, Attached="True")
        live.wait(5)
        assert live.node_of("p") != ""


@pytest.mark.parametrize("restart", [False, True])
def test_devices_that_are_not_attached_in_ten_minutes_are_given_back(restart: bool) -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        live.start()
        live.wait(400)
        first = live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["allocationTimestamp"]
        if restart:
            live.stop()
            live.restart()
            live.start()
        live.wait(199)
        assert live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["allocationTimestamp"] == first
        live.wait(20)
        assert live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["allocationTimestamp"] != first
        assert live.node_of("p") == ""


def test_the_time_to_attach_a_device_is_an_argument(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(QUICK)
    with live_world(str(tmp_path / "conf")) as live:
        world(live, "a")
        live.group("g", 1, pods=0)
        live.pod("p", group="g", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
        live.start()
        live.wait(25)
        first = live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["allocationTimestamp"]
        live.wait(15)
        assert live.get(RESOURCE_CLAIMS, "c")["status"]["allocation"]["allocationTimestamp"] != first


def test_pods_that_share_a_claim_wait_for_its_device_together() -> None:
    with live_world() as live:
        world(live, "a")
        user(live, "p")
        user(live, "q")
        live.start()
        live.wait(3)
        assert (live.node_of("p"), live.node_of("q")) == ("", "")
        report(live, Attached="True")
        live.wait(3)
        assert live.node_of("p") == live.node_of("q") != ""
