"""Devices, classes and claims in few words, and what a plan gives to claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.decode import KINDS
from kilauea.api.dynamic import EXTENDED_CLAIM, ResourceClaim
from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import NAMESPACE, Data, Objects, at, conf, flat, pod

DRIVER = "gpu.example.com"
CONDITIONS = ("bindsToNode", "bindingConditions", "bindingFailureConditions")
DEVICES = conf("allocate, backfill", ["gang"], ["predicates"])


def build(data: Data) -> Object:
    obj: Object = msgspec.convert({"apiVersion": "resource.k8s.io/v1"} | data, KINDS[data["kind"]])
    return obj


def device(name: str, *, capacity: Mapping[str, Any] | None = None, **fields: Any) -> Data:
    """A device: fields that its type has, and attributes by any other name."""
    known = (
        "consumesCounters",
        "taints",
        "nodeName",
        "nodeSelector",
        "allNodes",
        "allowMultipleAllocations",
        *CONDITIONS,
    )
    own = {key: fields.pop(key) for key in known if key in fields}
    kinds = {str: "string", bool: "bool", int: "int"}
    attributes = {
        key: value if isinstance(value, dict) else {kinds[type(value)]: value} for key, value in fields.items()
    }
    amounts = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": attributes, "capacity": amounts} | own


def slice_(
    node: str = "", *devices: Data | str, generation: int = 1, slices: int = 1, name: str = "", **spec: Any
) -> Object:
    """A slice of the pool of a node; without a node, of all nodes."""
    listed = [device(each) if isinstance(each, str) else each for each in devices]
    place = {"nodeName": node} if node else {"allNodes": True}
    if spec.keys() & {"nodeSelector", "perDeviceNodeSelection"}:
        place = {}
    within = {"name": node or "shared", "generation": generation, "resourceSliceCount": slices}
    body = {"driver": DRIVER, "pool": within, "devices": listed} | place | spec
    return build({"kind": "ResourceSlice", "metadata": {"name": name or f"{node or 'shared'}-slice"}, "spec": body})


def device_class(
    name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"', *, created: int | None = None, **spec: Any
) -> Object:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    metadata = {"name": name} | ({} if created is None else {"creationTimestamp": at(created)})
    return build({"kind": "DeviceClass", "metadata": metadata, "spec": {"selectors": selectors} | spec})


def ask(name: str = "g", of: str = "gpu", *expressions: str, count: int = 1, **fields: Any) -> Data:
    """A request for exactly this."""
    return {"name": name, "exactly": way("", of, *expressions, count=count, **fields)}


def way(name: str, of: str = "gpu", *expressions: str, count: int = 1, **fields: Any) -> Data:
    """One way to satisfy a request."""
    selectors = [{"cel": {"expression": each}} for each in expressions]
    mode = {} if fields.get("allocationMode") == "All" else {"count": count}
    return ({"name": name} if name else {}) | {"deviceClassName": of, "selectors": selectors} | mode | fields


def claim(
    name: str,
    *requests: Data,
    constraints: Sequence[Data] = (),
    owner: str = "",
    held: Iterable[str] = (),
    node: str = "",
    by: Iterable[str] = (),
    deleting: bool = False,
    config: Sequence[Data] = (),
) -> Object:
    """A claim; it holds devices (`pool/device`) on a node, reserved for pods (by their names, whose uids are keys)."""
    metadata: Data = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"{NAMESPACE}/{owner}", "controller": True}
        ]
    if deleting:
        metadata["deletionTimestamp"] = at(0)
    spec = {
        "devices": {"requests": list(requests) or [ask()], "constraints": list(constraints), "config": list(config)}
    }
    status: Data = {}
    results = [
        {"request": "g", "driver": DRIVER, "pool": each.split("/")[0], "device": each.split("/")[1]} for each in held
    ]
    if results:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status["allocation"] = {"devices": {"results": results}} | ({"nodeSelector": selector} if node else {})
        status["reservedFor"] = [{"resource": "pods", "name": each, "uid": f"{NAMESPACE}/{each}"} for each in by]
    return build({"kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": status})


def special_claim(pod: str, *held: str, node: str = "", uid: str = "", name: str = "", **more: Any) -> Object:
    """The claim that a scheduler made for the extended resources of a pod: one container, one resource."""
    request = ask("container-0-request-0", count=more.pop("count", max(len(held), 1)))
    made = msgspec.to_builtins(claim(name or f"{pod}-extended-resources-x", request, owner=pod, **more))
    made["metadata"]["annotations"] = {EXTENDED_CLAIM: "true"}
    if uid:
        made["metadata"]["ownerReferences"][0]["uid"] = uid
    if held:
        given = msgspec.to_builtins(claim("x", held=held, node=node, by=[pod]))["status"]
        for result in given["allocation"]["devices"]["results"]:
            result["request"] = "container-0-request-0"
        made["status"] = given
    return build(made)


def taint_rule(name: str, selector: Data | None, effect: str = "NoSchedule") -> Object:
    """A rule that puts the taint `broken` on devices."""
    spec: Data = {"taint": {"key": "broken", "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = selector
    body = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": name}}
    return build(body | {"spec": spec})


def template(name: str, *requests: Data) -> Object:
    spec = {"spec": {"devices": {"requests": list(requests) or [ask()]}}}
    return build({"kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


def claiming(name: str, *claims: str, **more: Any) -> Object:
    """A pod that names claims."""
    wanted = [{"name": each, "resourceClaimName": each} for each in claims]
    return pod(name, resourceClaims=wanted, **{"uid": f"{NAMESPACE}/{name}"} | more)


def pods_with_own(*names: str, requests: Sequence[Data] = (), **more: Any) -> list[Object]:
    """Pods, each with a claim of its own."""
    return flat([[claiming(name, f"{name}-c", **more), claim(f"{name}-c", *requests, owner=name)] for name in names])


def given(plan: Plan) -> dict[str, list[str]]:
    """By claim: `request=pool/device` of what the plan gives it."""
    return {
        each.claim.removeprefix(f"{NAMESPACE}/"): [
            f"{result.request}={result.pool}/{result.device}" for result in each.allocation.devices.results or ()
        ]
        for bind in plan.binds
        for each in bind.claims
        if each.allocation is not None
    }


def devices_held(objects: Objects) -> list[tuple[str, str, str]]:
    """Driver, pool and device of everything that claims hold, access for administrators left out."""
    out = []
    for obj in flat(objects):
        if isinstance(obj, ResourceClaim) and obj.status is not None and obj.status.allocation is not None:
            results = obj.status.allocation.devices.results or ()
            out += [(each.driver, each.pool, each.device) for each in results if not each.admin_access]
    return out
