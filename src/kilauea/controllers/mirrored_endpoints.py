"""EndpointSlices for Endpoints that users write for services without a selector.

Consumers read only EndpointSlices: without such slices, these Endpoints would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from itertools import islice
from typing import Any

from kilauea.api.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kilauea.api.ports import Create, Delete, Interest, Key, Obj, Operation, Outcome, Patch, View, key_of
from kilauea.controllers.endpoints import (
    HEADLESS,
    ITS_SERVICE,
    MANAGER,
    MANAGER_LABEL,
    SERVICE_LABEL,
    SLICE_MANAGER_LABEL,
    service_of,
)
from kilauea.controllers.hashes import suffixes
from kilauea.controllers.objects import is_going, labels_of, name_of, own_key, owner_reference, spec_of, uid_of

MIRROR = "endpointslicemirroring-controller.k8s.io"
SKIP_LABEL = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of Endpoints that are the lock of a leader election and do not belong to a service."""
PER_SUBSET = 1000
"""Maximum number of addresses to mirror per subset."""


def _its_endpoints(obj: Obj) -> Iterable[Key]:
    labels = labels_of(obj)
    name = labels.get(SERVICE_LABEL) if labels.get(SLICE_MANAGER_LABEL) == MIRROR else None
    return (Key(obj["metadata"]["namespace"], name),) if name else ()


class MirroringController:
    """Mirrors Endpoints that no controller writes to slices."""

    name = "endpointslice-mirroring-controller"
    interests = (
        Interest(ENDPOINTS, own_key),
        Interest(SERVICES, own_key),
        Interest(ENDPOINT_SLICES, _its_endpoints, indexes={ITS_SERVICE: service_of}),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write the slices for the Endpoints of one name, or remove outdated ones."""
        found = {
            name_of(each): each
            for each in view.indexed(ENDPOINT_SLICES, ITS_SERVICE, str(key))
            if key in _its_endpoints(each)
        }
        endpoints, service = view.get(ENDPOINTS, key), view.get(SERVICES, key)
        wanted = _slices(endpoints) if endpoints is not None and _is_mirrored(endpoints, service) else []
        operations: list[Operation] = []
        if endpoints is not None:
            names = islice(suffixes(f"{uid_of(endpoints)}/mirrored"), len(wanted))
            for suffix, content in zip(names, wanted, strict=True):
                name = f"{key.name}-{suffix}"
                operations += _write(endpoints, name, content, found.pop(name, None))
        gone = [Delete(ENDPOINT_SLICES, key_of(each), uid_of(each)) for each in found.values() if not is_going(each)]
        return Outcome([*operations, *gone])


def _is_mirrored(endpoints: Obj, service: Obj | None) -> bool:
    """Return True if Endpoints belong to a service without a selector, and mirroring is not disabled."""
    if service is None or is_going(endpoints) or spec_of(service).get("selector"):
        return False
    labels, notes = labels_of(endpoints), endpoints["metadata"].get("annotations") or {}
    return labels.get(MANAGER_LABEL) != MANAGER and labels.get(SKIP_LABEL) != "true" and LEADER not in notes


def _slices(endpoints: Obj) -> list[dict[str, Any]]:
    """The content of the slices: one for each subset and address family."""
    found = []
    for subset in endpoints.get("subsets") or ():
        families: dict[str, list[dict[str, Any]]] = {}
        ready, others = subset.get("addresses") or (), subset.get("notReadyAddresses") or ()
        for address, is_ready in islice(_each(ready, others), PER_SUBSET):
            family = f"IPv{ip_address(address['ip']).version}"
            families.setdefault(family, []).append(_endpoint(address, is_ready))
        ports = [{"name": "", "protocol": "TCP", **each} for each in subset.get("ports") or ()]
        for family, each in sorted(families.items()):
            found.append({"addressType": family, "endpoints": each, "ports": ports})
    return found


def _each(ready: Sequence[Obj], others: Sequence[Obj]) -> Iterable[tuple[Obj, bool]]:
    yield from ((each, True) for each in ready)
    yield from ((each, False) for each in others)


def _endpoint(address: Obj, is_ready: bool) -> dict[str, Any]:
    kept = {field: address[field] for field in ("hostname", "nodeName", "targetRef") if address.get(field)}
    return {"addresses": [address["ip"]], "conditions": {"ready": is_ready}, **kept}


def _write(endpoints: Obj, name: str, content: Mapping[str, Any], found: Obj | None) -> list[Operation]:
    metadata = endpoints["metadata"]
    labels = {
        **{key: value for key, value in labels_of(endpoints).items() if key != HEADLESS},
        SERVICE_LABEL: name_of(endpoints),
        SLICE_MANAGER_LABEL: MIRROR,
    }
    if found is None or found.get("addressType") != content["addressType"]:
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "generateName": f"{name_of(endpoints)}-",
                "namespace": metadata["namespace"],
                "labels": labels,
                "ownerReferences": [owner_reference(ENDPOINTS, endpoints)],
            },
            **content,
        }
        # The family of a slice cannot change: it is deleted, and created again once that is observed.
        return [
            Create(ENDPOINT_SLICES, body) if found is None else Delete(ENDPOINT_SLICES, key_of(found), uid_of(found))
        ]
    if all((found.get(part) or []) == value for part, value in content.items()) and labels_of(found) == labels:
        return []
    gone = dict.fromkeys(labels_of(found).keys() - labels.keys())
    return [Patch(ENDPOINT_SLICES, key_of(found), {"metadata": {"labels": {**labels, **gone}}, **content})]
