"""Usage of one object in quotas, by name, and the names under which a kind can count."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kilauea.api.names import qualified_name_problems
from kilauea.api.remembered import remembered
from kilauea.apiserver.admission.amounts import SINGLE, ZERO, Amount, add, count, largest, parse_all
from kilauea.apiserver.admission.pod_resources import container_amounts, pod_amounts
from kilauea.apiserver.admission.storage_defaults import class_of

Kind = tuple[str, str]
"""Group and plural."""
Object = dict[str, Any]
PODS: Kind = ("", "pods")
SERVICES: Kind = ("", "services")
CLAIMS: Kind = ("", "persistentvolumeclaims")
RESOURCE_CLAIMS: Kind = ("resource.k8s.io", "resourceclaims")
UNCOUNTED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Kinds that no quota counts."""

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_REQUIRED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Names that every container must set once a quota counts them."""
_POD_NAMES = frozenset({"pods", *_COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE)})
_SERVICE_NAMES = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_OF_CLASS = ".storageclass.storage.k8s.io/"
_NAMES_OF_CLASSES = tuple(_OF_CLASS + each for each in _CLAIM_NAMES)
_OLD_NAMES = {("", plural): plural for plural in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")}
_MANY_NAMES = frozenset({PODS, CLAIMS, RESOURCE_CLAIMS})
"""Kinds whose objects count under names with a user-defined part."""
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32
"""The maximum number of devices of a claim, and so of a request for all devices."""


def count_name(kind: Kind) -> str:
    """Return the name under which objects of a kind are counted."""
    group, plural = kind
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def names_for(kind: Kind, names: Collection[str]) -> frozenset[str]:
    """Return the names of a quota under which objects of a kind count.

    There may be thousands of names and of kinds; objects of most kinds count under at most two names.
    """
    possible = {count_name(kind), *(_SERVICE_NAMES if kind == SERVICES else (_OLD_NAMES.get(kind, ""),))}
    found = frozenset(name for name in possible if name in names)
    return found.union(name for name in names if matches(kind, name)) if kind in _MANY_NAMES else found


def matches(kind: Kind, name: str) -> bool:
    """Return True if objects of a kind with many names count under a name of a quota."""
    if kind == PODS:
        return name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or _is_extended(name)
    if kind == CLAIMS:
        return name.endswith(_NAMES_OF_CLASSES) or name in _CLAIM_NAMES
    return name.endswith(_DEVICES_OF_CLASS)


def _is_extended(name: str) -> bool:
    """Return True if a quota's name is for requests of an extended resource."""
    if not name.startswith("requests."):
        return False
    native = "/" not in name or "kubernetes.io/" in name
    return not native or name.startswith(f"requests.{_DEVICE_CLASS}")


def usage_of(kind: Kind, obj: Object) -> dict[str, Amount]:
    """Return the usage of an object."""
    if kind == PODS:
        return _pod_usage(obj)
    used = {count_name(kind): SINGLE}
    if kind == SERVICES:
        used |= _service_usage(obj.get("spec") or {})
    elif kind == CLAIMS:
        used |= _claim_usage(obj)
    elif kind == RESOURCE_CLAIMS:
        used |= _device_usage(obj)
    elif kind in _OLD_NAMES:
        used[_OLD_NAMES[kind]] = SINGLE
    return used


def _pod_usage(pod: Object) -> dict[str, Amount]:
    """Return the usage of a pod; a terminated one counts only as an object."""
    used = {count_name(PODS): SINGLE}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return used
    spec = pod.get("spec") or {}
    overhead = parse_all(spec.get("overhead"))
    requests = pod_amounts(spec, "requests", every_pod_level=True)
    limits = pod_amounts(spec, "limits", every_pod_level=True)
    for name, amount in overhead.items():
        if limits.get(name, ZERO).nanos:
            limits[name] = limits[name].plus(amount)
    return used | _compute_usage(add(requests, overhead), limits)


def _compute_usage(requests: dict[str, Amount], limits: dict[str, Amount]) -> dict[str, Amount]:
    """Return requests and limits under the names of quotas."""
    used = {"pods": SINGLE}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[f"requests.{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif _is_extended_resource(name):
            used[f"requests.{name}"] = amount
    return used


@remembered(4096)
def _is_extended_resource(name: str) -> bool:
    """Return True if a name in requests is not defined by Kubernetes."""
    if name.startswith(_DEVICE_CLASS):
        return True
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name_problems(f"requests.{name}")


def _service_usage(spec: Object) -> dict[str, Amount]:
    """Return the usage of a service, its node ports and its load balancer."""
    used = {"services": SINGLE, "services.nodeports": ZERO, "services.loadbalancers": ZERO}
    ports = spec.get("ports") or []
    kind = spec.get("type")
    if kind == "LoadBalancer":
        used["services.loadbalancers"] = SINGLE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [each for each in ports if each.get("nodePort")]
    if kind in ("NodePort", "LoadBalancer"):
        used["services.nodeports"] = count(len(ports))
    return used


def _claim_usage(claim: Object) -> dict[str, Amount]:
    """Return the usage of a claim and its size, also for its class; while it shrinks, the current size."""
    asked = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    given = (claim.get("status") or {}).get("allocatedResources") or {}
    sizes = largest(parse_all({key: asked[key] for key in asked if key == "storage"}),
                    parse_all({key: given[key] for key in given if key == "storage"}))  # fmt: skip
    used = {"persistentvolumeclaims": SINGLE}
    if "storage" in sizes:
        used["requests.storage"] = sizes["storage"]
    name = class_of(claim)
    return used | {f"{name}{_OF_CLASS}{each}": amount for each, amount in used.items()} if name else used


def _device_usage(claim: Object) -> dict[str, Amount]:
    """Return the maximum number of devices of a claim, by class; of alternatives, the largest for each class."""
    used: dict[str, int] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for asked in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name = f"{asked.get('deviceClassName', '')}{_DEVICES_OF_CLASS}"
            number = _MOST_DEVICES if asked.get("allocationMode") == "All" else int(asked.get("count") or 1)
            most[name] = max(most.get(name, 0), number)
        for name, number in most.items():
            used[name] = used.get(name, 0) + number
    return {name: count(number) for name, number in used.items()}


def missing_amounts(pod: Object) -> dict[str, str]:
    """Return the containers of a pod that lack amounts required by quotas, by name of the amount."""
    spec = pod.get("spec") or {}
    if _says_in_all(spec.get("resources") or {}):
        return {}
    lacking: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        said = _compute_usage(container_amounts(container, "requests"), container_amounts(container, "limits"))
        for name in _REQUIRED - said.keys():
            lacking.setdefault(name, set()).add(container.get("name", ""))
    return {name: ",".join(sorted(containers)) for name, containers in lacking.items()}


def _says_in_all(resources: Object) -> bool:
    """Return True if a pod has pod-level resources, so that its containers need none."""
    names = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in names)
