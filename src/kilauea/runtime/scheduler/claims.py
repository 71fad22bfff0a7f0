"""Writes what a plan decides about resource claims: their devices, and the pods that they are reserved for.

A claim is written before its pod is bound, and each write is of the version that was read. So no claim gets other
devices than it has, and after a crash the next scheduler finds in the claims which devices are taken. `kind` is that of
claims, in the version that the cluster serves.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.dynamic import FINALIZER, MOST_CONSUMERS
from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.engine.model.claims.table import ClaimAllocation
from kilauea.engine.plan import Release

TRIES = 5
"""Attempts to write a claim that others write at the same time."""

Body = dict[str, Any]


def consumer_of(pod: str, uid: str) -> dict[str, str]:
    """The entry of `status.reservedFor` for a pod (`namespace/name`)."""
    return {"resource": "pods", "name": pod.partition("/")[2], "uid": uid}


async def reserve(api: Api, kind: Resource, claim: ClaimAllocation, consumer: dict[str, str]) -> str:
    """Give a claim its devices and reserve it for a pod; returns the version of the claim that shows it.

    Raises:
        ApiError: it cannot be written, or has other devices or none by now.
    """
    key = Key(*claim.claim.split("/", 1))
    for attempt in range(TRIES):
        body = await api.get(kind, key)
        try:
            return await _reserve(api, kind, body, claim, consumer)
        except ApiError as error:
            if error.code != 409 or error.reason != "Conflict" or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def _reserve(api: Api, kind: Resource, body: Body, claim: ClaimAllocation, consumer: dict[str, str]) -> str:
    metadata, status = body["metadata"], body.get("status") or {}
    if claim.uid and metadata.get("uid") != claim.uid:
        raise _refused(f"resourceclaim {claim.claim} was replaced by another of its name")
    if metadata.get("deletionTimestamp"):
        raise _refused(f"resourceclaim {claim.claim} is being deleted")
    allocation = _allocation(claim, status)
    reserved = list(status.get("reservedFor") or ())
    if any(each.get("uid") == consumer["uid"] for each in reserved):
        return str(metadata.get("resourceVersion", ""))
    if len(reserved) >= MOST_CONSUMERS:
        raise _refused(f"resourceclaim {claim.claim} is in use by {MOST_CONSUMERS} pods already")
    if FINALIZER not in (metadata.get("finalizers") or ()):
        kept = {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}
        body = await api.update(kind, {**body, "metadata": kept})
    written = {**status, "allocation": allocation, "reservedFor": [*reserved, consumer]}
    body = await api.update(kind, {**body, "status": written}, "status")
    return str(body["metadata"].get("resourceVersion", ""))


def _allocation(claim: ClaimAllocation, status: Body) -> Body:
    """The devices that a claim is to have.

    Raises:
        ApiError: it has others, or lost those that it had.
    """
    stored: Body | None = status.get("allocation")
    if claim.allocation is None:
        if stored is None:
            raise _refused(f"resourceclaim {claim.claim} lost its devices before the pod was bound")
        return stored
    decided: Body = msgspec.to_builtins(claim.allocation)
    if stored is not None and _devices(stored) != _devices(decided):
        raise _refused(f"resourceclaim {claim.claim} was given other devices")
    return stored or decided


def _devices(allocation: Body) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [tuple(str(each.get(name, "")) for name in ("request", "driver", "pool", "device")) for each in results]


def _refused(message: str) -> ApiError:
    return ApiError(409, "ClaimChanged", message)


async def deallocate(api: Api, kind: Resource, decided: Release, uid: str) -> None:
    """Let a claim give its devices back, if it has the same ones still and no pod but one (`uid`) may use it.

    Best effort: if it cannot be written, a later cycle decides again.
    """
    try:
        body = await api.get(kind, Key(*decided.claim.split("/", 1)))
        status = body.get("status") or {}
        users = [each.get("uid") for each in status.get("reservedFor") or ()]
        same = [each[1:] for each in _devices(status.get("allocation") or {})] == [tuple(d) for d in decided.devices]
        if body["metadata"].get("uid") != decided.uid or not same or any(each != uid for each in users):
            return
        dropped = ("allocation", "reservedFor", "devices")
        kept = {name: value for name, value in status.items() if name not in dropped}
        await api.update(kind, {**body, "status": kept}, "status")
    except ApiError:
        return


async def release(api: Api, kind: Resource, claim: ClaimAllocation, consumer: dict[str, str]) -> None:
    """Undo `reserve` for a pod that could not be bound; devices that no other pod has go back.

    Best effort: what cannot be written is undone by the controller of resource claims once the pod is gone.
    """
    try:
        body = await api.get(kind, Key(*claim.claim.split("/", 1)))
        status = body.get("status") or {}
        reserved = status.get("reservedFor") or []
        kept = [each for each in reserved if each.get("uid") != consumer["uid"]]
        if body["metadata"].get("uid") != (claim.uid or body["metadata"].get("uid")) or len(kept) == len(reserved):
            return
        status = {name: value for name, value in status.items() if name not in ("allocation", "reservedFor")}
        if kept or claim.allocation is None:
            status |= {"allocation": body["status"].get("allocation"), "reservedFor": kept}
        await api.update(kind, {**body, "status": status}, "status")
    except ApiError:
        return
