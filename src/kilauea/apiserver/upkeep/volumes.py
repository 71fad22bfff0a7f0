"""Claims and volumes that are being deleted: they are held by a finalizer while they are in use, and then let go.

A claim is in use by the pods on nodes that mount it, a volume while it is bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.storage import Expired, Store, Stored, Watcher
from kilauea.apiserver.upkeep.client import NotStored, SelfClient

CLAIMS, VOLUMES = "/core/persistentvolumeclaims/", "/core/persistentvolumes/"
RETRY_SECONDS = 1.0
"""How long to wait before looking again at what is in use."""
_InUse = Callable[[Store, Stored], bool]


async def release_volumes(api: ApiServer) -> None:
    """Let claims and volumes go, for as long as the server runs."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_release(api, CLAIMS, "kubernetes.io/pvc-protection", claim_in_use))
        tasks.create_task(_release(api, VOLUMES, "kubernetes.io/pv-protection", volume_in_use))


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class _State(msgspec.Struct):
    phase: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _State | None = None


class _Claim(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: _Claim | None = None
    ephemeral: msgspec.Raw | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volumes: list[_Volume] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec


_read, _read_pod = msgspec.json.Decoder(_Object).decode, msgspec.json.Decoder(_Pod).decode


async def _release(api: ApiServer, root: str, finalizer: str, in_use: _InUse) -> None:
    """Take the finalizer from the objects of a kind that are being deleted, once they are not in use."""
    client = SelfClient(api, finalizer.removeprefix("kubernetes.io/") + "-controller")
    store = api.backend.store
    while True:
        page = store.list(root)
        waiting = {each.key for each in page.items if _is_held(each.value, finalizer)}
        watcher = store.watch(root, page.revision)
        try:
            while True:
                for key in sorted(waiting):
                    stored = store.get(key)
                    if stored is not None and not in_use(store, stored):
                        with suppress(NotStored):  # it is held still, and looked at again
                            await _let_go(client, stored, finalizer)
                waiting = {key for key in waiting if _is_held_now(store, key, finalizer)}
                waiting |= await _news(watcher, finalizer, RETRY_SECONDS if waiting else None)
        except StopAsyncIteration:
            return
        except Expired:
            continue
        finally:
            watcher.close()


def _is_held(value: bytes, finalizer: str) -> bool:
    metadata = _read(value).metadata
    return bool(metadata.deletion_timestamp) and finalizer in (metadata.finalizers or ())


def _is_held_now(store: Store, key: str, finalizer: str) -> bool:
    stored = store.get(key)
    return stored is not None and _is_held(stored.value, finalizer)


async def _news(watcher: Watcher, finalizer: str, seconds: float | None) -> set[str]:
    """The keys of objects whose deletion has begun, once there is news or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            batch = await anext(watcher)
    except TimeoutError:
        return set()
    return {event.key for event in batch if event.kind != "deleted" and _is_held(event.value, finalizer)}


def claim_in_use(store: Store, stored: Stored) -> bool:
    """Whether a pod on a node mounts a claim, by name or as the ephemeral volume that the claim was made for."""
    metadata = _read(stored.value).metadata
    for each in store.list(f"/core/pods/{metadata.namespace}/").items:
        if b'"persistentVolumeClaim"' in each.value or b'"ephemeral"' in each.value:
            pod = _read_pod(each.value)
            if pod.spec.node_name and metadata.name in map(partial(_claim_of, pod), pod.spec.volumes or ()):
                return True
    return False


def _claim_of(pod: _Pod, volume: _Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def volume_in_use(_: Store, stored: Stored) -> bool:
    """Whether a volume is bound to a claim."""
    state = _read(stored.value).status
    return state is not None and state.phase == "Bound"


async def _let_go(client: SelfClient, stored: Stored, finalizer: str) -> None:
    """Take the finalizer out; an object that has changed meanwhile is looked at again because of that change."""
    metadata = _read(stored.value).metadata
    within = f"/namespaces/{metadata.namespace}/persistentvolumeclaims" if metadata.namespace else "/persistentvolumes"
    path = f"/api/v1{within}/{metadata.name}"
    obj = msgspec.json.decode(stored.value)
    obj["metadata"]["finalizers"] = [each for each in metadata.finalizers or () if each != finalizer]
    await client.ask("PUT", path, obj)
