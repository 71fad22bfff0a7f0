"""Namespaces that are being deleted: everything in them is deleted first, then they are let go."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.storage import Expired, Watcher
from kilauea.apiserver.upkeep.client import NotStored, SelfClient, path_of

ROOT = "/core/namespaces/"
RETRY_SECONDS = 1.0
"""How long to wait for what has finalizers or a grace period before looking again."""


async def empty_namespaces(api: ApiServer) -> None:
    """Bring the deletion of namespaces to its end, for as long as the server runs."""
    client = SelfClient(api, "namespace-controller")
    waiting: set[str] = set()
    store = api.backend.store
    while True:
        page = store.list(ROOT)
        waiting |= {each.key.removeprefix(ROOT) for each in page.items if _is_terminating(each.value)}
        watcher = store.watch(ROOT, page.revision)
        try:
            while True:
                with suppress(NotStored):  # those that wait are looked at again
                    waiting = {name for name in sorted(waiting) if not await _empty(client, name)}
                waiting |= await _next_terminating(watcher, RETRY_SECONDS if waiting else None)
        except StopAsyncIteration:
            return
        except Expired:
            continue
        finally:
            watcher.close()


def _is_terminating(value: bytes) -> bool:
    return bool(msgspec.json.decode(value)["metadata"].get("deletionTimestamp"))


async def _next_terminating(watcher: Watcher, seconds: float | None) -> set[str]:
    """The namespaces whose deletion has begun, once there is news or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            batch = await anext(watcher)
    except TimeoutError:
        return set()
    return {event.key.removeprefix(ROOT) for event in batch if event.kind != "deleted" and _is_terminating(event.value)}


async def _empty(client: SelfClient, name: str) -> bool:
    """Delete what is in a namespace; returns whether it is empty and has been let go."""
    code, namespace = await client.ask("GET", f"/api/v1/namespaces/{name}")
    if code == 404:
        return True
    store = client.api.backend.store
    left = False
    for resource in _contents(client.api):
        if store.list(resource.prefix(name), limit=1).items:
            await client.ask("DELETE", path_of(resource, name))
            left = left or bool(store.list(resource.prefix(name), limit=1).items)
    if left:
        return False
    finalizers = [each for each in namespace["spec"].get("finalizers") or [] if each != "kubernetes"]
    namespace["spec"]["finalizers"] = finalizers
    code, _ = await client.ask("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)
    return code in (200, 404)


def _contents(api: ApiServer) -> list[ResourceType]:
    """The kinds that a namespace can hold, each once."""
    found = {each.root: each for each in api.backend.registry if each.namespaced and "deletecollection" in each.verbs}
    return list(found.values())
