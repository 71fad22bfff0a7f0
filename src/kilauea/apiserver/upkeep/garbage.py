"""Dependents of what was deleted: they are deleted after it, before it, or let go, as the deletion asked.

An object depends on the owners in its metadata. It is deleted when none of them exists any more (with the same uid).
An owner with the finalizer `foregroundDeletion` waits until no dependent is left that blocks it; one with `orphan`
waits until its dependents have forgotten it. The graph of owners is kept from the events of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.deleting import FOREGROUND, ORPHAN
from kilauea.apiserver.storage import Event, Expired
from kilauea.apiserver.upkeep.client import NotStored, SelfClient, path_of
from kilauea.apiserver.upkeep.owners import Graph, Metadata, Owner, read

NEW_KINDS_SECONDS = 1.0
"""How soon kinds that a definition brought are looked after."""
RETRY_SECONDS = 1.0
"""How long to wait when nothing can be written."""
TURN = 500
"""Objects that are read before others have their turn."""


class Collector:
    """Follows the store and does what deletions left to be done."""

    def __init__(self, api: ApiServer) -> None:
        self._client = SelfClient(api, "generic-garbage-collector")
        self._store = api.backend.store
        self._registry = api.backend.registry
        self._graph = Graph()
        self._todo: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()

    def take(self, events: Iterable[Event]) -> None:
        """Take in what has happened, and note what is to be looked at."""
        for event in events:
            metadata = read(event.value).metadata
            if event.kind == "deleted":
                self._graph.forget(event.key)
                for key in self._graph.dependents.get(metadata.uid, ()):
                    self.note(key)
                self._note_owners(metadata)
                continue
            self.see(event.key, metadata)

    def see(self, key: str, metadata: Metadata) -> None:
        """Take in an object as it is."""
        before = self._graph.owners.get(key, ())
        now = tuple(each.uid for each in metadata.owner_references or ())
        if before != now:
            self._graph.put(key, metadata)
            self._note_owners(metadata)
        # An only owner that was there is known to go when it goes; of several, one may still have to be forgotten.
        if not metadata.deletion_timestamp:
            if now and (before != now or len(now) > 1):
                self.note(key)
        elif metadata.finalizers and not {FOREGROUND, ORPHAN}.isdisjoint(metadata.finalizers):
            self.note(key)

    def _note_owners(self, metadata: Metadata) -> None:
        """Owners may be waiting for a dependent that has changed or is gone."""
        for owner in metadata.owner_references or ():
            resource = self._registry.of_kind(owner.api_version, owner.kind)
            if resource is not None:
                self.note(resource.key(metadata.namespace, owner.name))

    def note(self, key: str) -> None:
        """Look at an object later, once."""
        if key not in self._waiting:
            self._waiting.add(key)
            self._todo.put_nowait(key)

    async def work(self) -> None:
        """Look at one object after another."""
        while True:
            key = await self._todo.get()
            self._waiting.discard(key)
            try:
                await self.look_at(key)
            except NotStored:
                self.note(key)
                await asyncio.sleep(RETRY_SECONDS)

    async def look_at(self, key: str) -> None:
        """Do for one object what is to be done now."""
        stored = self._store.get(key)
        if stored is None:
            return
        obj = read(stored.value)
        resource = self._registry.of_kind(obj.api_version, obj.kind)
        if resource is None:
            return
        finalizers = obj.metadata.finalizers or []
        if obj.metadata.deletion_timestamp:
            if ORPHAN in finalizers:
                await self._orphan(resource, obj.metadata)
            elif FOREGROUND in finalizers:
                await self._delete_dependents(resource, obj.metadata)
        elif obj.metadata.owner_references:
            await self._collect(resource, obj.metadata)

    async def _collect(self, resource: ResourceType, metadata: Metadata) -> None:
        """Delete an object if none of its owners exists; forget those that do not."""
        owners = metadata.owner_references or []
        there = [each for each in owners if self._exists(each, metadata.namespace)]
        path = path_of(resource, metadata.namespace, metadata.name)
        if not there:
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": metadata.uid}}
            await self._client.ask("DELETE", path, {**options, "propagationPolicy": self._policy(metadata)})
        elif len(there) < len(owners):
            await self._disown(path, metadata, {each.uid for each in owners} - {each.uid for each in there})

    def _policy(self, metadata: Metadata) -> str:
        """A dependent is deleted in the way that it asked for before."""
        if ORPHAN in (metadata.finalizers or ()):
            return "Orphan"
        return "Foreground" if FOREGROUND in (metadata.finalizers or ()) else "Background"

    def _exists(self, owner: Owner, namespace: str) -> bool:
        """Whether an owner is there; one of a kind that is not served is taken to be."""
        resource = self._registry.of_kind(owner.api_version, owner.kind)
        if resource is None:
            return True
        stored = self._store.get(resource.key(namespace, owner.name))
        return stored is not None and read(stored.value).metadata.uid == owner.uid

    async def _delete_dependents(self, resource: ResourceType, metadata: Metadata) -> None:
        """Delete what depends on an object, and let it go when nothing is left that blocks it."""
        blocking = 0
        for key in list(self._graph.dependents.get(metadata.uid, ())):
            stored = self._store.get(key)
            if stored is None:
                continue
            obj = read(stored.value)
            kind = self._registry.of_kind(obj.api_version, obj.kind)
            if kind is None:
                continue
            owners = obj.metadata.owner_references or []
            blocking += any(each.uid == metadata.uid and each.block_owner_deletion for each in owners)
            if not obj.metadata.deletion_timestamp:
                path = path_of(kind, obj.metadata.namespace, obj.metadata.name)
                await self._client.ask("DELETE", f"{path}?propagationPolicy=Foreground")
                blocking -= self._store.get(key) is None and bool(blocking)
        if not blocking:
            await self._drop_finalizer(resource, metadata, FOREGROUND)

    async def _orphan(self, resource: ResourceType, metadata: Metadata) -> None:
        """Let dependents forget an object, then let it go."""
        for key in list(self._graph.dependents.get(metadata.uid, ())):
            stored = self._store.get(key)
            if stored is None:
                continue
            obj = read(stored.value)
            kind = self._registry.of_kind(obj.api_version, obj.kind)
            if kind is not None:
                await self._disown(
                    path_of(kind, obj.metadata.namespace, obj.metadata.name), obj.metadata, {metadata.uid}
                )
        await self._drop_finalizer(resource, metadata, ORPHAN)

    async def _disown(self, path: str, metadata: Metadata, uids: set[str]) -> None:
        """Take owners out of an object."""
        code, obj = await self._client.ask("GET", path)
        if code != 200 or obj["metadata"]["uid"] != metadata.uid:
            return
        kept = [each for each in obj["metadata"].get("ownerReferences") or [] if each["uid"] not in uids]
        obj["metadata"]["ownerReferences"] = kept
        await self._put(path, obj)

    async def _drop_finalizer(self, resource: ResourceType, metadata: Metadata, finalizer: str) -> None:
        """Take a finalizer out of an object."""
        path = path_of(resource, metadata.namespace, metadata.name)
        code, obj = await self._client.ask("GET", path)
        if code != 200 or obj["metadata"]["uid"] != metadata.uid:
            return
        kept = [each for each in obj["metadata"].get("finalizers") or [] if each != finalizer]
        obj["metadata"]["finalizers"] = kept
        await self._put(path, obj)

    async def _put(self, path: str, obj: dict[str, Any]) -> None:
        """Write an object; one that has changed meanwhile is looked at again because of that change."""
        await self._client.ask("PUT", path, obj)


async def collect_garbage(api: ApiServer) -> None:
    """Collect for as long as the server runs."""
    collector = Collector(api)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(collector.work())
        followed: set[str] = set()
        generation = -1
        while True:
            if generation != api.backend.registry.generation:
                generation = api.backend.registry.generation
                for resource in api.backend.registry:
                    if "watch" in resource.verbs and resource.root not in followed:
                        followed.add(resource.root)
                        tasks.create_task(_follow(api, collector, resource.root))
            await asyncio.sleep(NEW_KINDS_SECONDS)


async def _follow(api: ApiServer, collector: Collector, root: str) -> None:
    """Tell the collector of all objects of a kind, as they are and as they change."""
    store = api.backend.store
    while True:
        page = store.list(root)
        for number, stored in enumerate(page.items):
            metadata = read(stored.value).metadata
            collector.see(stored.key, metadata)
            if metadata.owner_references:
                collector.note(stored.key)  # what happened since the last event that was heard is not known
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)
        watcher = store.watch(root, page.revision)
        try:
            async for batch in watcher:
                collector.take(batch)
            return
        except Expired:
            continue
        finally:
            watcher.close()
