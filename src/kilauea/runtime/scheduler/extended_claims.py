"""The claims for extended resources of pods: created before their pods are bound, and deleted if binding fails.

The name of such a claim depends on the pod's UID. So a scheduler finds the claim again after a crash, and a retry after
a lost response does not create a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kilauea.api.dynamic import EXTENDED_CLAIM, FINALIZER, OF_EXTENDED_RESOURCES, ResourceClaim
from kilauea.api.kinds import PODS
from kilauea.api.meta import ObjectMeta
from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.engine.model.claims.extended import SpecialDemand
from kilauea.engine.model.claims.table import ClaimAllocation

Body = dict[str, Any]


def metadata_of(claim: str, pod: str, uid: str) -> Body:
    """The `metadata` of the claim for the extended resources of a pod."""
    namespace, _, name = claim.partition("/")
    own = pod.partition("/")[2]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": own, "uid": uid, "controller": True}
    return {
        "name": name,
        "generateName": f"{own}{OF_EXTENDED_RESOURCES}",
        "namespace": namespace,
        "annotations": {EXTENDED_CLAIM: "true"},
        "ownerReferences": [owner],
    }


def _body(kind: Resource, claim: str, content: SpecialDemand, pod: str, uid: str) -> Body:
    """A new claim, in the version that the cluster serves."""
    spec: Body = msgspec.to_builtins(content.spec)
    if kind.version == "v1beta1":  # it has the fields of a request beside its name
        spec["devices"]["requests"] = [{"name": r["name"], **r["exactly"]} for r in spec["devices"]["requests"]]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata_of(claim, pod, uid),
        "spec": spec,
    }


def special_claim(claim: ClaimAllocation, pod: str, uid: str) -> ResourceClaim | None:
    """The claim created for a pod, as the watch will show it at first; None if it already has devices."""
    if claim.special is None or claim.allocation is None:
        return None
    metadata = msgspec.convert(metadata_of(claim.claim, pod, uid), ObjectMeta)
    return ResourceClaim("resource.k8s.io/v1", "ResourceClaim", metadata, claim.special.spec)


async def make(api: Api, kind: Resource, claim: ClaimAllocation, pod: str, uid: str) -> str:
    """Create the claim of a pod, unless a matching one exists; returns its UID.

    Raises:
        ApiError: it cannot be created, or another claim has its name.
    """
    assert claim.special is not None
    key = Key(*claim.claim.split("/", 1))
    body = _body(kind, claim.claim, claim.special, pod, uid)
    try:
        return _uid(await api.create(kind, key.namespace, body))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    found = await api.get(kind, key)
    if all(owner.get("uid") != uid for owner in found["metadata"].get("ownerReferences") or ()):
        raise ApiError(409, "ClaimChanged", f"resourceclaim {claim.claim} belongs to another pod: delete it")
    if _asks(found) == _asks(body):
        return _uid(found)
    await _delete(api, kind, key, found)
    return _uid(await api.create(kind, key.namespace, body))


def _uid(claim: Body) -> str:
    return str(claim["metadata"]["uid"])


def _asks(claim: Body) -> list[tuple[Any, ...]]:
    """Names, classes and numbers of the requests of a claim."""
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    ways = ((each.get("name"), each.get("exactly") or each) for each in requests)
    return [(name, way.get("deviceClassName"), way.get("count", 1)) for name, way in ways]


async def note(api: Api, claim: ClaimAllocation, pod: str, uid: str, containers: Sequence[str]) -> None:
    """Record the claim for the extended resources of a pod in its status, container by container.

    Raises:
        ApiError: it cannot be written.
    """
    assert claim.special is not None
    mappings = [
        {"containerName": containers[each.container], "resourceName": each.resource, "requestName": each.request}
        for each in claim.special.served
    ]
    status = {"resourceClaimName": claim.claim.partition("/")[2], "requestMappings": mappings}
    patch = {"metadata": {"uid": uid}, "status": {"extendedResourceClaimStatus": status}}
    await api.patch(PODS, Key(*pod.split("/", 1)), patch, "merge", "status")


async def remove(api: Api, kind: Resource, claim: str, pod: str, uid: str) -> None:
    """Delete the claim of a pod that is not bound, which releases its devices.

    The reference in the pod is removed: otherwise the kubelet would not start the pod on a node without devices. Best
    effort: a remaining claim is owned by the pod, and deleted with it.
    """
    key = Key(*claim.split("/", 1))
    forgotten = {"metadata": {"uid": uid}, "status": {"extendedResourceClaimStatus": None}}
    try:
        await api.patch(PODS, Key(*pod.split("/", 1)), forgotten, "merge", "status")
        found = await api.get(kind, key)
        owned = any(owner.get("uid") == uid for owner in found["metadata"].get("ownerReferences") or ())
        if owned and found["metadata"].get("annotations", {}).get(EXTENDED_CLAIM) == "true":
            await _delete(api, kind, key, found)
    except ApiError:
        return


async def _delete(api: Api, kind: Resource, key: Key, found: Body) -> None:
    """Delete a claim, after removing the finalizer that keeps it while it has devices."""
    held = found["metadata"].get("finalizers") or ()
    if FINALIZER in held:
        kept = [each for each in held if each != FINALIZER]
        found = await api.update(kind, {**found, "metadata": {**found["metadata"], "finalizers": kept}})
    await api.delete(kind, key, uid=_uid(found))
