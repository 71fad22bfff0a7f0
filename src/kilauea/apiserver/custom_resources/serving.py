"""Synchronizes the served kinds with the definitions in the store.

This is part of the server, not a controller: it writes nothing. The controllers of definitions decide which ones are
established, and those are served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kilauea.apiserver.backend import Backend
from kilauea.apiserver.crd.names import ESTABLISHED, NAMES_ACCEPTED, has_condition, holds
from kilauea.apiserver.crd.version_order import version_order
from kilauea.apiserver.custom_resources.custom import custom_types
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.strategies.base import Object

log = logging.getLogger(__name__)
PREFIX = "/apiextensions.k8s.io/customresourcedefinitions/"


class ServedDefinitions:
    """The custom kinds of one server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._store = backend.store
        self._registry = backend.registry
        self._served: dict[str, tuple[bytes, list[ResourceType]]] = {}
        self._undecided: set[str] = set()
        self._changed = asyncio.Event()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Serve established definitions while this context is active.

        A client may use a kind as soon as it sees its definition established, so the served kinds change together with
        the store and not, as with a watch, a moment later.
        """
        with self._store.listening(PREFIX, lambda _: self.sync()):
            self.sync()
            yield

    async def decided(self) -> None:
        """Wait until the names of every definition are accepted or rejected, and the accepted ones are served."""
        while self._undecided:
            self._changed.clear()
            await self._changed.wait()

    def sync(self) -> None:
        """Serve the current definitions."""
        definitions = {each.key: each.value for each in self._store.list(PREFIX).items}
        for key in [key for key in self._served if key not in definitions]:
            self._serve(key, b"", [])
            del self._served[key]
            self._undecided.discard(key)
        for key, value in definitions.items():
            if key not in self._served or self._served[key][0] != value:
                self._take(key, value)
        self._put_in_order()
        self._changed.set()

    def _take(self, key: str, value: bytes) -> None:
        """Serve a new or changed definition."""
        definition = decode(value)
        self._serve(key, value, self._types(definition) if holds(definition, ESTABLISHED) else [])
        if has_condition(definition, NAMES_ACCEPTED) or definition["metadata"].get("deletionTimestamp"):
            self._undecided.discard(key)
        else:
            self._undecided.add(key)

    def _types(self, definition: Object) -> list[ResourceType]:
        """Return the types of a definition; none, with a log entry, if its stored form cannot be served."""
        try:
            return custom_types(definition, self._backend)
        except Exception:
            log.exception("CustomResourceDefinition %s cannot be served", definition["metadata"]["name"])
            return []

    def _serve(self, key: str, value: bytes, types: list[ResourceType]) -> None:
        """Serve exactly these types of a definition."""
        new = {each.version for each in types}
        for old in self._served.get(key, (b"", []))[1]:
            if old.version not in new:
                self._registry.remove(old.group, old.version, old.plural)
        for each in types:
            self._registry.add(each)
        self._served[key] = (value, types)

    def _put_in_order(self) -> None:
        """Sort custom groups by name, after the built-in ones."""
        custom = [each for each in self._registry if each.is_custom]
        ordered = sorted(custom, key=lambda each: (each.group, version_order(each.version), each.plural))
        if custom != ordered:
            for each in ordered:
                self._registry.remove(each.group, each.version, each.plural)
                self._registry.add(each)
