"""Writes the decisions of a plan about resource claims: their devices, and the pods for which they are reserved.

A claim is written before its pod is bound, and each write requires the version that was read. So the devices of a claim
are never replaced, and after a crash the next scheduler finds the devices in use in the claims. `kind` is that of
claims, in the version that the cluster serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kilauea.api.dynamic import EXTENDED_CLAIM, FINALIZER, MOST_CONSUMERS, ResourceClaim
from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.engine.model.claims.table import ClaimAllocation
from kilauea.engine.plan import Release
from kilauea.runtime.scheduler.extended_claims import remove

OF_ALLOCATION = ("allocation", "reservedFor", "devices")
"""Status fields that a claim without devices does not have."""
NOT_BOUND = "DevicesNotBound"
"""Reason of an error: the binding conditions of devices failed, or were not true in time."""
TRIES = 5
"""Attempts to write a claim that other clients write at the same time."""

Body = dict[str, Any]


def consumer_of(pod: str, uid: str) -> dict[str, str]:
    """The entry of `status.reservedFor` for a pod (`namespace/name`)."""
    return {"resource": "pods", "name": pod.partition("/")[2], "uid": uid}


async def reserve(
    api: Api, kind: Resource, claim: ClaimAllocation, consumer: dict[str, str], now: int
) -> ResourceClaim:
    """Allocate devices to a claim and reserve it for a pod; returns the updated claim.

    Args:
        api: the cluster.
        kind: the kind of claims.
        claim: the claim and its devices.
        consumer: the entry for the pod.
        now: the time of the allocation, from which the timeout of binding conditions counts.

    Raises:
        ApiError: it cannot be written, or now has other devices or none.
    """
    key = Key(*claim.claim.split("/", 1))
    for attempt in range(TRIES):
        body = await api.get(kind, key)
        try:
            return msgspec.convert(await _reserve(api, kind, body, claim, consumer, now), ResourceClaim)
        except ApiError as error:
            if error.code != 409 or error.reason != "Conflict" or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def _reserve(
    api: Api, kind: Resource, body: Body, claim: ClaimAllocation, consumer: dict[str, str], now: int
) -> Body:
    metadata, status = body["metadata"], body.get("status") or {}
    if claim.uid and metadata.get("uid") != claim.uid:
        raise _refused(f"resourceclaim {claim.claim} was replaced by another one with the same name")
    if metadata.get("deletionTimestamp"):
        raise _refused(f"resourceclaim {claim.claim} is being deleted")
    allocation = _allocation(claim, status, now)
    reserved = list(status.get("reservedFor") or ())
    if any(each.get("uid") == consumer["uid"] for each in reserved):
        return body
    if len(reserved) >= MOST_CONSUMERS:
        raise _refused(f"resourceclaim {claim.claim} is already in use by {MOST_CONSUMERS} pods")
    if FINALIZER not in (metadata.get("finalizers") or ()):
        kept = {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}
        body = await api.update(kind, {**body, "metadata": kept})
    written = {**status, "allocation": allocation, "reservedFor": [*reserved, consumer]}
    return await api.update(kind, {**body, "status": written}, "status")


def _allocation(claim: ClaimAllocation, status: Body, now: int) -> Body:
    """The allocation to write to a claim.

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
        raise _refused(f"resourceclaim {claim.claim} has different devices now")
    if any(each.get("bindingConditions") for each in decided["devices"].get("results") or ()):
        decided["allocationTimestamp"] = format_time(now // SECOND * SECOND)
    return stored or decided


def _devices(allocation: Body) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [tuple(str(each.get(name, "")) for name in ("request", "driver", "pool", "device")) for each in results]


def _refused(message: str) -> ApiError:
    return ApiError(409, "ClaimChanged", message)


async def deallocate(api: Api, kind: Resource, decided: Release, uid: str) -> None:
    """Release the devices of a claim, if it still has the same ones and no pod except `uid` may use it.

    Best effort: if it cannot be written, a later cycle decides again.
    """
    try:
        body = await api.get(kind, Key(*decided.claim.split("/", 1)))
        status = body.get("status") or {}
        users = [each.get("uid") for each in status.get("reservedFor") or ()]
        same = [each[1:] for each in _devices(status.get("allocation") or {})] == [tuple(d) for d in decided.devices]
        if body["metadata"].get("uid") != decided.uid or not same or any(each != uid for each in users):
            return
        if (body["metadata"].get("annotations") or {}).get(EXTENDED_CLAIM) == "true":
            await remove(api, kind, decided.claim, decided.pod, uid)
            return
        kept = {name: value for name, value in status.items() if name not in OF_ALLOCATION}
        await api.update(kind, {**body, "status": kept}, "status")
    except ApiError:
        return


async def release(
    api: Api, kind: Resource, claim: ClaimAllocation, consumer: dict[str, str], *, failed: bool = False
) -> None:
    """Undo `reserve` for a pod that could not be bound; devices that no other pod uses are released.

    A claim that had its devices before keeps them, unless it is their binding conditions that `failed`. Best effort: on
    failure, the controller of resource claims undoes it once the pod is gone.
    """
    try:
        body = await api.get(kind, Key(*claim.claim.split("/", 1)))
        status = body.get("status") or {}
        reserved = status.get("reservedFor") or []
        kept = [each for each in reserved if each.get("uid") != consumer["uid"]]
        if body["metadata"].get("uid") != (claim.uid or body["metadata"].get("uid")) or len(kept) == len(reserved):
            return
        if kept or (claim.allocation is None and not failed):
            status = {**status, "reservedFor": kept}
        else:
            status = {name: value for name, value in status.items() if name not in OF_ALLOCATION}
        await api.update(kind, {**body, "status": status}, "status")
    except ApiError:
        return


# --- until devices are prepared


def is_prepared(claim: ResourceClaim) -> bool:
    """Return True if the binding conditions of all devices of a claim are true.

    Raises:
        ApiError: one of its binding failure conditions is true, or it no longer has devices.
    """
    status = claim.status
    if status is None or status.allocation is None:
        raise _refused(f"resourceclaim {claim.key} lost its devices before the pod was bound")
    reported = {(each.driver, each.pool, each.device, each.share_id): each for each in status.devices or ()}
    prepared = True
    for result in status.allocation.devices.results or ():
        if not result.binding_conditions:
            continue
        found = reported.get((result.driver, result.pool, result.device, result.share_id))
        true = {each.type: each for each in (found.conditions if found else None) or () if each.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in true:
                why = f'reason={true[name].reason}, message="{true[name].message}"'
                raise ApiError(409, NOT_BOUND, f"claim {claim.name} binding failed: {why}")
        prepared = prepared and all(name in true for name in result.binding_conditions)
    return prepared


def deadline(claim: ResourceClaim, now: int, timeout: int) -> int:
    """The time until which the binding conditions of a claim must be true: `timeout` seconds after its allocation."""
    allocation = claim.status.allocation if claim.status else None
    start = now
    if allocation is not None and allocation.allocation_timestamp:
        try:
            start = parse_time(allocation.allocation_timestamp)
        except ValueError:
            start = now
    return start + timeout * SECOND


async def all_prepared(
    shown: Mapping[str, ResourceClaim],
    waiting: Mapping[str, ResourceClaim],
    timeout: int,
    now: Callable[[], int],
    more_time: Callable[[], Awaitable[bool]],
) -> None:
    """Return when the watch shows that the devices of claims are prepared.

    Args:
        shown: the claims that the watch shows.
        waiting: the claims as they were reserved, by key.
        timeout: seconds from the allocation until conditions must be true.
        now: the time.
        more_time: waits briefly; returns False if the pod should no longer be bound.

    Raises:
        ApiError: a device cannot be prepared, or it timed out.
    """
    ends = {key: deadline(claim, now(), timeout) for key, claim in waiting.items()}
    left = dict(waiting)
    while left:
        if not await more_time():
            raise _refused("the pod is no longer bound")
        left = {key: claim for key, claim in left.items() if not is_prepared(_newer(claim, shown.get(key)))}
        late = [f'"{claim.name}"' for key, claim in left.items() if now() >= ends[key]]
        if late:
            raise ApiError(409, NOT_BOUND, f"device binding timeout: conditions of resourceclaim {', '.join(late)}")


def _newer(reserved: ResourceClaim, shown: ResourceClaim | None) -> ResourceClaim:
    """A claim as the watch shows it, once it shows what was reserved."""
    if shown is None or shown.metadata.uid != reserved.metadata.uid:
        return reserved
    one, other = (each.metadata.resource_version or "" for each in (shown, reserved))
    return reserved if one.isdigit() and other.isdigit() and int(one) < int(other) else shown
