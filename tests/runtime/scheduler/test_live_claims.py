"""The live scheduler gives devices to claims, across failures and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from kilauea.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kilauea.api.ports import ApiError, Key
from kilauea.client.transport import Answer, Transport
from kilauea.runtime.inputs.resources import PODS
from support.live_world import Intercepted, Live, live_world
from support.older_api import Older

DRIVER = "gpu.example.com"


def devices(live: Live, node: str, *names: str) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": name} for name in names]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    live.create(RESOURCE_SLICES, f"{node}-s", spec=spec)


def world(live: Live, *names: str) -> None:
    live.node("n1")
    devices(live, "n1", *names)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    live.create(DEVICE_CLASSES, "gpu", spec={"selectors": [selector]})


def claim(live: Live, name: str) -> None:
    request = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
    live.create(RESOURCE_CLAIMS, name, spec={"devices": {"requests": [request]}})


def user(live: Live, name: str, *claims: str) -> None:
    live.pod(name, resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims])


def held(live: Live, name: str) -> list[str]:
    status = live.get(RESOURCE_CLAIMS, name).get("status") or {}
    return [each["device"] for each in (status.get("allocation") or {"devices": {"results": []}})["devices"]["results"]]


def users(live: Live, name: str) -> list[str]:
    return [each["name"] for each in (live.get(RESOURCE_CLAIMS, name).get("status") or {}).get("reservedFor") or ()]


def test_a_claim_is_written_before_its_pod_is_bound() -> None:
    with live_world() as live:
        world(live, "a", "b")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(1)
        assert (live.node_of("p"), held(live, "c"), users(live, "c")) == ("n1", ["a"], ["p"])
        writes = [target for method, target in live.wire.sent if method in ("PUT", "POST") and "events" not in target]
        order = [target.partition("?")[0].rsplit("/", 1)[-1] for target in writes]
        assert [each for each in order if each in ("c", "status", "binding")] == ["c", "status", "binding"]


def test_pods_that_share_a_claim_are_both_noted_in_it() -> None:
    with live_world() as live:
        world(live, "a")
        claim(live, "c")
        user(live, "p", "c")
        user(live, "q", "c")
        live.start()
        live.wait(1)
        assert (live.node_of("p"), live.node_of("q")) == ("n1", "n1")
        assert sorted(users(live, "c")) == ["p", "q"]


def test_a_device_that_is_being_given_is_given_to_no_other_claim_of_the_next_cycle() -> None:
    with live_world() as live:
        world(live, "a")
        claim(live, "c")
        claim(live, "d")
        user(live, "p", "c")
        live.start()
        live.wait(0.02)
        user(live, "q", "d")
        live.wait(2)
        assert (live.node_of("p"), live.node_of("q")) == ("n1", "")
        assert (held(live, "c"), held(live, "d")) == (["a"], [])


@pytest.mark.parametrize("after", ["claims/c/status", "claims/c", "pods/p/binding"])
def test_a_restart_at_any_write_gives_no_device_twice(after: str) -> None:
    """The scheduler dies once the write is done; the next one begins with what the objects say."""
    with live_world() as live:
        world(live, "a", "b")
        for name in ("c", "d"):
            claim(live, name)
        user(live, "p", "c")
        died = False

        def die(method: str, target: str) -> None:
            nonlocal died
            if not died and method != "GET" and target.partition("?")[0].endswith(after):
                died = True
                raise ApiError(0, "", "the process is gone")

        live.wire.after = die
        live.start()
        live.wait(0.01)
        live.stop()
        live.wire.after = None
        live.restart()
        live.start()
        user(live, "q", "d")
        live.wait(60)
        assert died
        assert (live.node_of("p"), live.node_of("q")) == ("n1", "n1")
        assert sorted([*held(live, "c"), *held(live, "d")]) == ["a", "b"]


def test_a_claim_that_another_scheduler_gave_other_devices_holds_its_pod_back() -> None:
    with live_world() as live:
        world(live, "a", "b")
        claim(live, "c")
        user(live, "p", "c")
        results = [{"request": "g", "driver": DRIVER, "pool": "n1", "device": "b"}]

        async def before(method: str, target: str) -> None:
            if method == "PUT" and target.partition("?")[0].endswith("claims/c") and not taken:
                taken.append(target)
                status = {"allocation": {"devices": {"results": results}}, "reservedFor": other}
                await live.calm.patch(RESOURCE_CLAIMS, live_key, {"status": status}, subresource="status")

        live_key, taken = Key("default", "c"), list[str]()
        other: list[dict[str, Any]] = [{"resource": "pods", "name": "x", "uid": "u"}]
        live.wire.before = before
        live.start()
        live.wait(30)
        assert taken
        assert held(live, "c") == ["b"]
        assert live.node_of("p") == "n1"
        assert sorted(users(live, "c")) == ["p", "x"]


def test_a_bind_that_the_server_refuses_gives_the_devices_back() -> None:
    with live_world() as live:
        world(live, "a")
        claim(live, "c")
        claim(live, "d")
        user(live, "p", "c")

        async def refuse(method: str, target: str) -> None:
            if target.endswith("pods/p/binding"):
                raise ApiError(403, "Forbidden", "not this pod")

        live.wire.before = refuse
        live.start()
        live.wait(1)
        assert (held(live, "c"), users(live, "c")) == ([], [])
        user(live, "q", "d")
        live.wait(60)
        assert (live.node_of("p"), live.node_of("q"), held(live, "d")) == ("", "n1", ["a"])


def test_a_claim_that_is_made_later_for_a_pod_lets_it_start() -> None:
    """The claims that are made for a pod are in its status, which the scheduler reads for them."""
    with live_world() as live:
        world(live, "a")
        live.pod("p", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
        live.start()
        live.wait(1)
        assert live.node_of("p") == ""
        owner = live.get(PODS, "p")["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["uid"], "controller": True}
        request = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
        live.create(
            RESOURCE_CLAIMS, "c", metadata={"ownerReferences": [reference]}, spec={"devices": {"requests": [request]}}
        )
        made = [{"name": "x", "resourceClaimName": "c"}]
        live.patch(PODS, "p", {"status": {"resourceClaimStatuses": made}}, "status")
        live.wait(1)
        assert (live.node_of("p"), held(live, "c")) == ("n1", ["a"])


def test_a_claim_moves_to_another_node_if_its_pod_does_not_fit_where_its_devices_are() -> None:
    with live_world() as live:
        world(live, "a")
        live.node("n2")
        devices(live, "n2", "b")
        claim(live, "c")
        result = {"request": "g", "driver": DRIVER, "pool": "n1", "device": "a"}
        field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        given = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
        live.patch(RESOURCE_CLAIMS, "c", {"status": given}, "status")
        live.pod("full", cpu="4", nodeName="n1")
        user(live, "p", "c")
        live.start()
        live.wait(3)
        assert (live.node_of("p"), held(live, "c"), users(live, "c")) == ("n2", ["b"], ["p"])


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_a_cluster_with_an_older_version_is_read_and_written_in_it(version: str) -> None:
    with live_world() as live:
        live.wire = Intercepted(Older(live.wire, version))
        live.restart()
        world(live, "a")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(1)
        assert (live.node_of("p"), held(live, "c"), users(live, "c")) == ("n1", ["a"], ["p"])
        assert live.wire.count("PUT", f"/resource.k8s.io/{version}/namespaces/default/resourceclaims/c/status") == 1


def test_a_scheduler_that_may_not_read_rules_for_taints_starts_pods() -> None:
    with live_world() as live:
        world(live, "a")
        claim(live, "c")
        user(live, "p", "c")

        async def refuse(method: str, target: str) -> None:
            if "devicetaintrules" in target:
                raise ApiError(403, "Forbidden", "devicetaintrules.resource.k8s.io is forbidden")

        live.wire.before = refuse
        live.start()
        live.wait(1)
        assert (live.node_of("p"), held(live, "c")) == ("n1", ["a"])


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
def test_rules_for_taints_are_read_in_the_version_that_the_cluster_serves(version: str) -> None:
    spec = {"deviceSelector": {"device": "a"}, "taint": {"key": "broken", "effect": "NoSchedule"}}
    rule = {"metadata": {"name": "r", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    with live_world() as live:
        live.wire = Intercepted(WithRules(live.wire, version, rule))
        live.restart()
        world(live, "a", "b")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(1)
        assert held(live, "c") == ["b"]


class WithRules:
    """A transport to a cluster that serves DeviceTaintRules, and has one."""

    def __init__(self, transport: Transport, version: str, rule: Mapping[str, Any]) -> None:
        self._transport = transport
        self._place = f"/apis/resource.k8s.io/{version}/devicetaintrules"
        self._list = {"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceTaintRuleList", "items": [rule]}

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if "/devicetaintrules" in target and not target.startswith(self._place):
            return Answer(404, {"content-type": "text/plain"}, b"404 page not found")
        if not target.startswith(self._place):
            return await self._transport.request(method, target, headers, body)
        listed = {**self._list, "metadata": {"resourceVersion": "1"}}
        return Answer(200, {"content-type": "application/json"}, msgspec.json.encode(listed))

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        if target.startswith(self._place):
            await asyncio.sleep(600)
            return
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._transport.close()
