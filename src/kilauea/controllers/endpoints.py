"""Endpoints and endpoint slices of services: the addresses of the pods that a service selects.

After a change of a pod, the services of its namespace are reconciled once, after a short delay that collects further
changes. Only changes that affect services count, so running pods cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kilauea.api.kinds import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from kilauea.api.ports import Create, Delete, Interest, Key, Obj, Outcome, Patch, Single, Steps, Together, View, key_of
from kilauea.controllers.hashes import suffixes
from kilauea.controllers.objects import (
    NOTHING,
    is_going,
    labels_of,
    name_of,
    own_key,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from kilauea.controllers.pods import READ_PER_STEP, is_finished, is_ready

SERVICE_LABEL = "kubernetes.io/service-name"
SLICE_MANAGER_LABEL, SLICE_MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
MANAGER_LABEL, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
HEADLESS = "service.kubernetes.io/headless"
ITS_SERVICE = "service of an endpoint slice"
"""Name of the index of slices by their service."""
PER_SLICE = 100
"""Maximum number of endpoints in one slice."""
MOST = 1000
"""Maximum number of addresses in the older Endpoints."""
DELAY = 0.5
"""Seconds for which changes of pods are collected."""

LOOKS_PER_STEP = 500
"""Number of pods and ports to process in a step; a step processes at least one service."""

_METADATA = ("name", "namespace", "uid", "labels", "deletionTimestamp")
_SPEC = ("nodeName", "hostname", "subdomain")

Ports = tuple[tuple[str, int, str], ...]
"""Name, number and protocol of each port."""


def _its_namespace(obj: Obj) -> Iterable[Key]:
    return (Key(obj["metadata"]["namespace"], ""),)


def _its_service(obj: Obj) -> Iterable[Key]:
    name = labels_of(obj).get(SERVICE_LABEL)
    return (Key(obj["metadata"]["namespace"], name),) if name else ()


def _seen_of(pod: Obj | None) -> tuple[Any, ...] | None:
    """The fields of a pod that services need; None for a pod without an address."""
    if pod is None or not status_of(pod).get("podIP") or is_finished(pod):
        return None
    return labels_of(pod), status_of(pod).get("podIP"), is_ready(pod), is_going(pod)


def service_of(slice_: Obj) -> str:
    """An index: namespace and name of the service of a slice."""
    name = labels_of(slice_).get(SERVICE_LABEL)
    return f"{slice_['metadata']['namespace']}/{name}" if name else ""


def _matters(old: Obj | None, new: Obj | None) -> bool:
    return _seen_of(old) != _seen_of(new)


class EndpointsController:
    """Maintains the Endpoints and EndpointSlices of services with a selector."""

    name = "endpoints-controller"
    interests = (
        Interest(SERVICES, own_key),
        Interest(ENDPOINTS, own_key),
        Interest(ENDPOINT_SLICES, _its_service, indexes={ITS_SERVICE: service_of}),
        Interest(PODS, _its_namespace, delay=DELAY, matters=_matters),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        """Write the addresses of one service, or of all services of a namespace."""
        if not key.name:
            services = [each for each in view.list(SERVICES, key.namespace) if _selects(each)]
            return _in_steps(view, key.namespace, services) if services else NOTHING
        service = view.get(SERVICES, key)
        if service is None:
            return Outcome(_without_service(view, key))
        return _in_steps(view, key.namespace, [service]) if _selects(service) else NOTHING


def _in_steps(view: View, namespace: str, services: Sequence[Obj]) -> Steps:
    pods: dict[tuple[str, str], list[Obj]] = {}
    for number, pod in enumerate(view.list(PODS, namespace), 1):
        if _seen_of(pod) is not None:
            part = _part_of(pod)
            for label in labels_of(pod).items():
                pods.setdefault(label, []).append(part)
        if number % READ_PER_STEP == 0:
            yield ()
    chains, looked_at = list[list[Single]](), 0
    for service in services:
        candidates = _candidates(pods, service)
        looked_at += len(candidates) + len(spec_of(service).get("ports") or ()) + 1
        if chain := _of_service(view, service, candidates):
            chains.append(chain)
        if looked_at >= LOOKS_PER_STEP:
            yield [Together(chains)] if chains else ()
            chains, looked_at = [], 0
    return Outcome([Together(chains)] if chains else ())


def _part_of(pod: Obj) -> Obj:
    """The part of a pod that services read: whole pods would take much memory."""
    metadata, spec, status = pod["metadata"], spec_of(pod), status_of(pod)
    conditions = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
    containers = [{"ports": each["ports"]} for each in spec.get("containers") or () if each.get("ports")]
    return {
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": {**{name: spec[name] for name in _SPEC if name in spec}, "containers": containers},
        "status": {"podIP": status["podIP"], "conditions": conditions},
    }


def _selects(service: Obj) -> bool:
    """Return True if a service has a selector for its endpoints."""
    spec = spec_of(service)
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName" and not is_going(service)


def _candidates(pods: Mapping[tuple[str, str], Sequence[Obj]], service: Obj) -> Sequence[Obj]:
    """The pods with the rarest label that a service selects."""
    return min((pods.get(label, ()) for label in spec_of(service)["selector"].items()), key=len)


def _of_service(view: View, service: Obj, pods: Iterable[Obj]) -> list[Single]:
    """Write the addresses of the pods that a service selects."""
    wanted = spec_of(service)["selector"].items()
    groups = ServicePorts(service).groups(pod for pod in pods if wanted <= labels_of(pod).items())
    return [*_write_endpoints(view, service, groups), *_write_slices(view, service, groups)]


def _without_service(view: View, key: Key) -> list[Single]:
    """Delete Endpoints without a service; slices are owned by it."""
    found = view.get(ENDPOINTS, key)
    if found is None or labels_of(found).get(MANAGER_LABEL) != MANAGER:
        return []
    return [Delete(ENDPOINTS, key, uid_of(found))]


def _named_ports(pod: Obj) -> Mapping[tuple[Any, str], Any]:
    """The numbers of the ports of a pod, by name and protocol."""
    return {
        (port.get("name"), port.get("protocol", "TCP")): port.get("containerPort")
        for container in spec_of(pod).get("containers") or ()
        for port in container.get("ports") or ()
    }


class ServicePorts:
    """The ports of a service, of which there can be thousands; resolved once for equal pods.

    Attributes:
        ports: name, target and protocol of each.
    """

    def __init__(self, service: Obj) -> None:
        self.ports = [
            (port.get("name", ""), port.get("targetPort") or port.get("port"), port.get("protocol", "TCP"))
            for port in spec_of(service).get("ports") or ()
        ]
        self._targets = {(target, protocol) for _, target, protocol in self.ports if isinstance(target, str)}

    def groups(self, pods: Iterable[Obj]) -> Mapping[Ports, Sequence[Obj]]:
        """Pods by the resolved ports of the service; a named port that a pod does not have is left out."""
        alike: dict[frozenset[Any], list[Obj]] = {}
        for pod in pods:
            named = _named_ports(pod)
            meant = frozenset((target, named[target]) for target in named.keys() & self._targets)
            alike.setdefault(meant, []).append(pod)
        found: dict[Ports, list[Obj]] = {}
        for same in alike.values():
            found.setdefault(tuple(self._at(_named_ports(same[0]))), []).extend(same)
        return found

    def _at(self, named: Mapping[tuple[Any, str], Any]) -> Iterator[tuple[str, int, str]]:
        for name, target, protocol in self.ports:
            number = target if isinstance(target, int) else named.get((target, protocol))
            if number:
                yield name, number, protocol


def _ready(service: Obj, pod: Obj) -> bool:
    """Return True if a pod should receive traffic."""
    return bool(spec_of(service).get("publishNotReadyAddresses")) or (is_ready(pod) and not is_going(pod))


def _reference(pod: Obj) -> dict[str, str]:
    return {"kind": "Pod", "namespace": pod["metadata"]["namespace"], "name": name_of(pod), "uid": uid_of(pod)}


def _hostname(service: Obj, pod: Obj) -> dict[str, str]:
    spec = spec_of(pod)
    named = spec.get("hostname") and spec.get("subdomain") == name_of(service)
    return {"hostname": spec["hostname"]} if named else {}


# --- the older form


def _write_endpoints(view: View, service: Obj, groups: Mapping[Ports, Sequence[Obj]]) -> list[Single]:
    key = key_of(service)
    subsets = [_subset(service, ports, pods[:MOST]) for ports, pods in sorted(groups.items())]
    labels = {**labels_of(service), MANAGER_LABEL: MANAGER, **_headless(service)}
    found = view.get(ENDPOINTS, key)
    if found is None:
        metadata = {"name": key.name, "namespace": key.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": list(filter(None, subsets))}
        return [Create(ENDPOINTS, body)]
    new = list(filter(None, subsets))
    if (found.get("subsets") or []) == new and labels_of(found) == labels:
        return []
    gone = dict.fromkeys(labels_of(found).keys() - labels.keys())
    return [Patch(ENDPOINTS, key, {"metadata": {"labels": {**labels, **gone}}, "subsets": new})]


def _headless(service: Obj) -> dict[str, str]:
    return {HEADLESS: ""} if spec_of(service).get("clusterIP") == "None" else {}


def _subset(service: Obj, ports: Ports, pods: Sequence[Obj]) -> dict[str, Any]:
    """The pods with the same ports, ready and other ones separately; empty if none counts."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        if is_going(pod) and not spec_of(service).get("publishNotReadyAddresses"):
            continue
        address = {"ip": status_of(pod)["podIP"], **_hostname(service, pod), "targetRef": _reference(pod)}
        node = spec_of(pod).get("nodeName")
        address |= {"nodeName": node} if node else {}
        lists.setdefault("addresses" if _ready(service, pod) else "notReadyAddresses", []).append(address)
    if not lists:
        return {}
    shown = [{**({"name": name} if name else {}), "port": number, "protocol": kind} for name, number, kind in ports]
    return {**lists, **({"ports": shown} if shown else {})}


# --- slices


def _write_slices(view: View, service: Obj, groups: Mapping[Ports, Sequence[Obj]]) -> list[Single]:
    found = {
        name_of(each): each
        for each in view.indexed(ENDPOINT_SLICES, ITS_SERVICE, str(key_of(service)))
        if labels_of(each).get(SLICE_MANAGER_LABEL) == SLICE_MANAGER
    }
    wanted = [
        _slice(service, ports, pods[start : start + PER_SLICE])
        for ports, pods in sorted(groups.items() or {(): ()}.items())
        for start in range(0, max(len(pods), 1), PER_SLICE)
    ]
    operations: list[Single] = []
    names = [f"{name_of(service)}-{each}" for each in islice(suffixes(f"{uid_of(service)}/slices"), len(wanted))]
    for name, content in zip(names, wanted, strict=True):
        operations += _write_slice(service, name, content, found.pop(name, None))
    gone = [Delete(ENDPOINT_SLICES, key_of(each), uid_of(each)) for each in found.values() if not is_going(each)]
    return [*operations, *gone]


def _slice(service: Obj, ports: Ports, pods: Sequence[Obj]) -> dict[str, Any]:
    shown = [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]
    return {"endpoints": [_endpoint(service, pod) for pod in pods], "ports": shown}


def _endpoint(service: Obj, pod: Obj) -> dict[str, Any]:
    node = spec_of(pod).get("nodeName")
    conditions = {"ready": _ready(service, pod), "serving": is_ready(pod), "terminating": is_going(pod)}
    return {
        "addresses": [status_of(pod)["podIP"]],
        "conditions": conditions,
        **_hostname(service, pod),
        "targetRef": _reference(pod),
        **({"nodeName": node} if node else {}),
    }


def _write_slice(service: Obj, name: str, content: Mapping[str, Any], found: Obj | None) -> list[Single]:
    labels = {
        **labels_of(service), **_headless(service), SERVICE_LABEL: name_of(service), SLICE_MANAGER_LABEL: SLICE_MANAGER,
    }  # fmt: skip
    if found is None:
        metadata = {
            "name": name, "generateName": f"{name_of(service)}-", "namespace": service["metadata"]["namespace"],
            "labels": labels, "ownerReferences": [owner_reference(SERVICES, service)],
        }  # fmt: skip
        head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
        return [Create(ENDPOINT_SLICES, {**head, "addressType": "IPv4", **content})]
    same = all((found.get(part) or []) == value for part, value in content.items()) and labels_of(found) == labels
    if same:
        return []
    gone = dict.fromkeys(labels_of(found).keys() - labels.keys())
    return [Patch(ENDPOINT_SLICES, key_of(found), {"metadata": {"labels": {**labels, **gone}}, **content})]
