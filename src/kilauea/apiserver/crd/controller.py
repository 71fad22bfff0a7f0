"""Keeps the served kinds in step with the definitions: names, conditions, and the clean-up when one is deleted.

It follows the definitions in the store, so it does not matter how they came there. Each is looked at again whenever
one changes, since names that one gives up may be what another waits for.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.crd.custom import custom_types
from kilauea.apiserver.crd.definition_strategy import CLEANUP
from kilauea.apiserver.crd.names import (
    ESTABLISHED,
    TERMINATING,
    accept_names,
    condition,
    conditions_of,
    holds,
    set_conditions,
    taken_by,
)
from kilauea.apiserver.patch import track_update
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, User
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.objects import decode, encode
from kilauea.apiserver.schema import builtin_schema
from kilauea.apiserver.storage import Conflict, Expired, Missing, StorageError, Stored

log = logging.getLogger(__name__)

Object = dict[str, Any]

PREFIX = "/apiextensions.k8s.io/customresourcedefinitions/"
API_VERSION = "apiextensions.k8s.io/v1"
SELF = User("system:apiserver", groups=(GROUP_MASTERS,))
RETRY_SECONDS = 1.0


class DefinitionController:
    """Follows the definitions of one server."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._backend: Backend = api.backend
        self._served: dict[str, tuple[bytes, list[ResourceType]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._cleanups: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Serve all definitions that are there, and follow from now on."""
        revision = self._backend.store.revision
        await self.settle()
        self._task = asyncio.create_task(self._follow(revision))

    async def stop(self) -> None:
        """Follow no longer; what is served stays."""
        tasks = [*self._cleanups.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, revision: int) -> None:
        while True:
            try:
                watcher = self._backend.store.watch(PREFIX, revision)
                async for events in watcher:
                    await self.settle()
                    revision = events[-1].revision
                return
            except Expired:
                revision = self._backend.store.revision
                await self.settle()
            except StorageError as error:
                log.error("definitions of custom resources: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def settle(self) -> None:
        """Bring names, conditions and served kinds up to date with the definitions as they are now."""
        definitions = {each.key: each for each in self._backend.store.list(PREFIX).items}
        for key in [key for key in self._served if key not in definitions]:
            self._withdraw(key)
        for key, stored in definitions.items():
            kept = self._served.get(key)
            if kept is not None and kept[0] == stored.value and kept[1]:
                continue  # one that serves nothing may have got its names now
            await self._settle(stored)

    async def _settle(self, stored: Stored) -> None:
        """Bring one definition up to date."""
        definition = decode(stored.value)
        if definition["metadata"].get("deletionTimestamp"):
            await self._remove_instances(stored)
            return
        group = definition["spec"]["group"]
        page = self._backend.store.list(PREFIX)  # a definition is named PLURAL.GROUP
        others = [each for each in page.items if each.key != stored.key and each.key.endswith(f".{group}")]
        rivals = [each for each in (decode(other.value) for other in others) if each["spec"]["group"] == group]
        verdict = accept_names(definition, taken_by(rivals))
        status = definition["status"]
        changed = set_conditions(status, conditions_of(definition, verdict), self._backend.timestamp())
        if changed or status.get("acceptedNames") != verdict.names:
            status["acceptedNames"] = verdict.names
            definition["metadata"]["managedFields"] = track_update(
                decode(stored.value), definition, "kube-apiserver",
                builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), API_VERSION,
                self._backend.timestamp(), subresource="status",
            )  # fmt: skip
            written = await self._write(stored, definition)
            if written is None:
                return  # it has changed meanwhile, and comes again
            stored = written
        self._serve(stored.key, stored.value, definition)

    def _serve(self, key: str, value: bytes, definition: Object) -> None:
        """Serve the kinds of a definition as it is now."""
        types = custom_types(definition) if holds(definition, ESTABLISHED) else []
        new = {each.version for each in types}
        for old in self._served.get(key, (b"", []))[1]:
            if old.version not in new:
                self._backend.registry.remove(old.group, old.version, old.plural)
        for each in types:
            self._backend.registry.add(each)
        self._served[key] = (value, types)
        self._put_in_order()

    def _put_in_order(self) -> None:
        """Custom groups stand after the built-in ones, by name, whatever the order of their definitions."""
        custom = [each for each in self._backend.registry if each.is_custom]
        ordered = sorted(custom, key=lambda each: (each.group, each.version, each.plural))
        if custom != ordered:
            for each in ordered:
                self._backend.registry.remove(each.group, each.version, each.plural)
                self._backend.registry.add(each)

    def _withdraw(self, key: str) -> None:
        for each in self._served.pop(key)[1]:
            self._backend.registry.remove(each.group, each.version, each.plural)

    async def _write(self, stored: Stored, definition: Object) -> Stored | None:
        """Write a changed status; None if the definition has changed meanwhile."""
        try:
            return await self._backend.store.write(stored.key, stored.revision, partial(encode, definition))
        except (Conflict, Missing):
            return None

    # --- deletion

    async def _remove_instances(self, stored: Stored) -> None:
        """Delete the instances of a definition that is being deleted; when they are gone, let it go."""
        definition = decode(stored.value)
        if CLEANUP not in (definition["metadata"].get("finalizers") or []):
            return
        status = definition["status"]
        going = condition(TERMINATING, True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        if set_conditions(status, [going], self._backend.timestamp()):
            written = await self._write(stored, definition)
            if written is None:
                return
            stored = written
        self._serve(stored.key, stored.value, definition)
        if stored.key not in self._cleanups:
            task = self._cleanups[stored.key] = asyncio.create_task(self._clean_up(stored.key, definition))
            task.add_done_callback(partial(self._cleaned, stored.key))

    async def _clean_up(self, key: str, definition: Object) -> None:
        spec = definition["spec"]
        prefix = f"/{spec['group']}/{spec['names']['plural']}/"
        while True:
            left = self._backend.store.list(prefix).items
            if not left:
                break
            revision = self._backend.store.revision
            for each in left:
                await self._delete_instance(spec, decode(each.value))
            if not self._backend.store.list(prefix, limit=1).items:
                break
            watcher = self._backend.store.watch(prefix, revision)
            await anext(watcher)
            watcher.close()
        await self._release(key)

    def _cleaned(self, key: str, task: asyncio.Task[None]) -> None:
        """Say in the log why a clean-up ended early."""
        self._cleanups.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: clean-up of custom resources: %s", key, error)

    async def _delete_instance(self, spec: Object, obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        space = f"/namespaces/{metadata['namespace']}" if spec["scope"] == "Namespaced" else ""
        path = f"/apis/{spec['group']}/{version}{space}/{spec['names']['plural']}/{metadata['name']}"
        await self._api.handle(ApiRequest("DELETE", path, user=SELF))

    async def _release(self, key: str) -> None:
        """Take the finalizer off, and the definition away if nothing else holds it up."""
        while (stored := self._backend.store.get(key)) is not None:
            definition = decode(stored.value)
            rest = [each for each in definition["metadata"].get("finalizers") or [] if each != CLEANUP]
            definition["metadata"]["finalizers"] = rest
            try:
                await self._backend.store.write(key, stored.revision, partial(encode, definition) if rest else None)
                return
            except (Conflict, Missing):
                continue
