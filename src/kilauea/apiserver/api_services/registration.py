"""Maintains the APIServices of this server: for built-in group versions, and those of definitions.

Resource metrics have none: an installed metrics server brings its own and takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from kilauea.apiserver.aggregator.priorities import group_priority, version_priority
from kilauea.apiserver.aggregator.services import PREFIX
from kilauea.apiserver.bootstrap import SELF, check_own, own_server
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.serving import PREFIX as DEFINITIONS
from kilauea.apiserver.request import ApiRequest
from kilauea.apiserver.rest.objects import decode

log = logging.getLogger(__name__)
GROUP = "apiregistration.k8s.io"
"""The only group without APIServices, as in Kubernetes."""
LABEL = "kube-aggregator.kubernetes.io/automanaged"
GATHER_SECONDS = 0.1
"""Seconds for which changes are collected."""
_PATH = f"/apis/{GROUP}/v1/apiservices"
_AGENT = {"user-agent": "kube-apiserver/kilauea"}

Object = dict[str, Any]


class Registration:
    """The APIServices of one server."""

    def __init__(self, api: ApiServer) -> None:
        self._own = own_server(api)
        self._store = api.backend.store
        self._registry = api.backend.registry
        self._changed = asyncio.Event()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Listen for changes of definitions and APIServices, which `run` handles."""

        def heard(_: object) -> None:
            self._changed.set()

        with self._store.listening(DEFINITIONS, heard), self._store.listening(PREFIX, heard):
            yield

    async def run(self) -> None:
        """Handle changes until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._changed.clear()
            try:
                await self.write()
            except RuntimeError as error:
                log.warning("%s", error)

    async def write(self) -> None:
        """Create missing APIServices, restore changed ones, and delete those no longer served.

        Raises:
            RuntimeError: one cannot be stored.
        """
        wanted = self._wanted()
        found = {each.key.removeprefix(PREFIX): decode(each.value) for each in self._store.list(PREFIX).items}
        await asyncio.gather(*(self._put(name, obj) for name, obj in wanted.items() if name not in found))
        for name, obj in found.items():
            if not _is_managed(obj) or obj["metadata"].get("deletionTimestamp"):
                continue
            if name not in wanted:
                await self._ask("DELETE", name, 200, 404)
            elif obj.get("spec") != wanted[name]["spec"]:
                await self._ask("PUT", name, 200, 404, 409, body={**obj, **wanted[name], "metadata": obj["metadata"]})

    def _wanted(self) -> dict[str, Object]:
        """Return the desired APIServices by name."""
        types = [each for each in self._registry if each.told_schema is None and each.group != GROUP]
        versions = dict.fromkeys((each.group, each.version, each.is_custom) for each in types)
        return {f"{version}.{group}": _local(group, version, custom) for group, version, custom in versions}

    async def _put(self, name: str, obj: Object) -> None:
        """Create an APIService, unless it was created meanwhile."""
        body = msgspec.json.encode(obj)
        answer = await self._own.handle(ApiRequest("POST", _PATH, headers=_AGENT, body=body, user=SELF))
        check_own(answer, f"{_PATH}/{name}", 201, 409)

    async def _ask(self, method: str, name: str, *good: int, body: Mapping[str, Any] | None = None) -> None:
        content = msgspec.json.encode(body) if body is not None else b""
        request = ApiRequest(method, f"{_PATH}/{name}", headers=_AGENT, body=content, user=SELF)
        check_own(await self._own.handle(request), f"{_PATH}/{name}", *good)


def _is_managed(obj: Mapping[str, Any]) -> bool:
    return LABEL in (obj["metadata"].get("labels") or {})


def _local(group: str, version: str, custom: bool) -> Object:
    """Return an APIService of this server, with the labels of Kubernetes."""
    spec: Object = {
        "groupPriorityMinimum": group_priority(group),
        "version": version,
        "versionPriority": version_priority(group, version),
    }
    if group:
        spec["group"] = group
    metadata = {"name": f"{version}.{group}", "labels": {LABEL: "true" if custom else "onstart"}}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec}
