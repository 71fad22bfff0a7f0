"""Writes the decisions of a plan about volume claims before their pod is bound, like kube-scheduler.

An existing volume is reserved for its claim (`spec.claimRef`); a claim whose volume will be provisioned gets the node
(`volume.kubernetes.io/selected-node`). The volume controllers and the provisioner do the rest, and the pod is bound
when all its claims are. Each write requires the version that was read, so a volume never gets two claims.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kilauea.api import wellknown
from kilauea.api.kinds import CLAIMS, VOLUMES
from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.api.selectors import node_term_matches
from kilauea.api.storage import PersistentVolume, PersistentVolumeClaim
from kilauea.engine.model.volumes import ClaimVolume, claim_of
from kilauea.runtime.scheduler.feed import Feed

TRIES = 5
"""Attempts to write an object that other clients write at the same time."""
NOT_BOUND = "VolumeNotBound"
"""Reason of an error: claims were not bound on the node."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

Body = dict[str, Any]
Change = Callable[[Body], Body | None]
"""Returns the desired object; None to leave it unchanged."""


async def reserve(api: Api, given: ClaimVolume, node: str) -> str:
    """Reserve a volume for a claim, or set the node that the claim's volume is provisioned for.

    Returns:
        The version of the volume or claim that shows it; empty if it was so before.

    Raises:
        ApiError: it cannot be written, or the claim or the volume is no longer as it was.
    """
    claim = await api.get(CLAIMS, _key(given))
    metadata = claim["metadata"]
    if given.uid and metadata.get("uid") != given.uid:
        raise _refused(f"persistentvolumeclaim {given.claim} was replaced by another one with the same name")
    if metadata.get("deletionTimestamp"):
        raise _refused(f"persistentvolumeclaim {given.claim} is being deleted")
    if (claim.get("spec") or {}).get("volumeName"):
        return ""
    if given.volume:
        return await _write(api, VOLUMES, Key("", given.volume), lambda body: _reserved(body, claim))
    return await _write(api, CLAIMS, _key(given), lambda body: _placed(body, node))


async def release(api: Api, given: ClaimVolume, node: str) -> None:
    """Undo `reserve` for a claim that was not bound, so that its pod can be placed elsewhere.

    Best effort: a claim that is bound meanwhile stays bound, and the pod follows it.
    """
    try:
        claim = await api.get(CLAIMS, _key(given))
        if claim["metadata"].get("uid") != (given.uid or claim["metadata"].get("uid")):
            return
        if (claim.get("spec") or {}).get("volumeName"):
            return
        if given.volume:
            await _write(api, VOLUMES, Key("", given.volume), lambda body: _freed(body, claim["metadata"]["uid"]))
        else:
            await _write(api, CLAIMS, _key(given), lambda body: _displaced(body, node))
    except ApiError:
        return


def _key(given: ClaimVolume) -> Key:
    return Key(*given.claim.split("/", 1))


async def _write(api: Api, resource: Resource, key: Key, change: Change) -> str:
    """Change an object; returns its new version, or empty text if it is unchanged."""
    for attempt in range(TRIES):
        body = change(await api.get(resource, key))
        if body is None:
            return ""
        try:
            return str((await api.update(resource, body))["metadata"].get("resourceVersion", ""))
        except ApiError as error:
            if error.code != 409 or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _reserved(volume: Body, claim: Body) -> Body | None:
    """A volume with the reference to its claim."""
    spec, wanted = volume.get("spec") or {}, claim["metadata"]
    ref = spec.get("claimRef") or {}
    if ref.get("uid") == wanted["uid"]:
        return None
    kept = (ref.get("namespace"), ref.get("name")) == (wanted["namespace"], wanted["name"]) and not ref.get("uid")
    if (ref and not kept) or volume["metadata"].get("deletionTimestamp"):
        raise _refused(f"persistentvolume {volume['metadata']['name']} is no longer available")
    names = {name: wanted[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in wanted}
    body = {**volume, "spec": {**spec, "claimRef": {"apiVersion": "v1", "kind": CLAIMS.kind, **names}}}
    return body if kept else _annotated(body, BOUND_BY_CONTROLLER, "yes")


def _freed(volume: Body, uid: str) -> Body | None:
    """A volume without the reference that the scheduler wrote."""
    spec = volume.get("spec") or {}
    if (spec.get("claimRef") or {}).get("uid") != uid or BOUND_BY_CONTROLLER not in _annotations(volume):
        return None
    spec = {name: value for name, value in spec.items() if name != "claimRef"}
    return _annotated({**volume, "spec": spec}, BOUND_BY_CONTROLLER, None)


def _placed(claim: Body, node: str) -> Body | None:
    """A claim with the node that its volume is provisioned for."""
    chosen = _annotations(claim).get(wellknown.SELECTED_NODE)
    if chosen and chosen != node:
        raise _refused(f"persistentvolumeclaim {claim['metadata']['name']} was assigned to node {chosen}")
    return None if chosen else _annotated(claim, wellknown.SELECTED_NODE, node)


def _displaced(claim: Body, node: str) -> Body | None:
    if _annotations(claim).get(wellknown.SELECTED_NODE) != node:
        return None
    return _annotated(claim, wellknown.SELECTED_NODE, None)


def _annotations(body: Body) -> dict[str, str]:
    return body["metadata"].get("annotations") or {}


def _annotated(body: Body, name: str, value: str | None) -> Body:
    kept = {key: known for key, known in _annotations(body).items() if key != name}
    if value is not None:
        kept[name] = value
    return {**body, "metadata": {**body["metadata"], "annotations": kept}}


def _refused(message: str, reason: str = "VolumeChanged") -> ApiError:
    return ApiError(409, reason, message)


# --- waiting for binding


async def all_bound(
    feed: Feed, written: Mapping[ClaimVolume, str], node: str, more_time: Callable[[], Awaitable[bool]]
) -> None:
    """Return when the watch shows that claims are bound.

    Args:
        feed: the state from watches.
        written: the claims, each with the version that `reserve` returned.
        node: node of their pod.
        more_time: waits briefly; returns False on timeout.

    Raises:
        ApiError: a claim cannot be bound there, or it timed out.
    """
    waiting = list(written)
    while waiting := [one for one in waiting if not _is_bound(feed, one, node, written[one])]:
        if not await more_time():
            names = ", ".join(f'"{one.claim.partition("/")[2]}"' for one in waiting)
            raise _refused(f"binding volumes: timed out waiting for persistentvolumeclaim {names}", NOT_BOUND)


def _is_bound(feed: Feed, given: ClaimVolume, node: str, version: str) -> bool:
    """Return True if a claim is bound.

    Raises:
        ApiError: it can no longer be bound on the node.
    """
    name = given.claim.partition("/")[2]
    found = feed.storage.get(("PersistentVolumeClaim", given.claim))
    if not isinstance(found, PersistentVolumeClaim) or (given.uid and found.metadata.uid != given.uid):
        raise _refused(f'persistentvolumeclaim "{name}" not found')
    claim = claim_of(found)
    if not claim.volume:
        _check_progress(feed, given, node, version)
        return False
    volume = feed.state.storage.volumes.get(claim.volume)
    # The driver of a migrated plugin has separate labels, and ensures that its volumes are reachable.
    if volume is not None and volume.terms is not None and not volume.plugin:
        row = feed.state.nodes.row_of.get(node, -1)
        labels = feed.state.nodes.facts[row].labels if row >= 0 else {}
        if not any(node_term_matches(term, labels, "") for term in volume.terms):
            raise _refused(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"', NOT_BOUND)
    return claim.bound


def _check_progress(feed: Feed, given: ClaimVolume, node: str, version: str) -> None:
    """Check a claim without a volume.

    Raises:
        ApiError: the scheduler's write was undone.
    """
    place = ("PersistentVolume", given.volume) if given.volume else ("PersistentVolumeClaim", given.claim)
    found = feed.storage.get(place)
    shown = (found.metadata.resource_version or "") if found is not None else ""
    if found is None or not (version.isdigit() and shown.isdigit() and int(shown) >= int(version)):
        return
    if isinstance(found, PersistentVolume) and found.spec.claim_ref is None:
        raise _refused(f'ClaimRef got reset for pv "{given.volume}"', NOT_BOUND)
    if not given.volume and found.annotations.get(wellknown.SELECTED_NODE) != node:
        # The provisioner removes the node from a claim whose volume it cannot provision there.
        raise _refused(f'provisioning failed for PVC "{given.claim.partition("/")[2]}"', NOT_BOUND)
