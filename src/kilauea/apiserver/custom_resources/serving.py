"""Keeps the kinds that are served in step with the definitions in the store.

This is part of the server, not a controller: it writes nothing. The controllers of definitions decide which are
established; what is established is served.
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
        """Serve what is established, from now on.

        A client may use a kind as soon as it sees its definition established, so what is served changes with the
        store and not, as a watch would, a moment later.
        """
        with self._store.listening(PREFIX, lambda _: self.sync()):
            self.sync()
            yield

    async def decided(self) -> None:
        """Wait until it is decided of every definition whether its names are accepted, and what is so is served."""
        while self._undecided:
            self._changed.clear()
            await self._changed.wait()

    def sync(self) -> None:
        """Serve the definitions as they are now."""
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
        """Serve a definition that is new or has changed."""
        definition = decode(value)
        self._serve(key, value, self._types(definition) if holds(definition, ESTABLISHED) else [])
        if has_condition(definition, NAMES_ACCEPTED) or definition["metadata"].get("deletionTimestamp"):
            self._undecided.discard(key)
        else:
            self._undecided.add(key)

    def _types(self, definition: Object) -> list[ResourceType]:
        """The types of a definition; none, and a log entry, if it was stored in a form that cannot be served."""
        try:
            return custom_types(definition, self._backend)
        except Exception:
            log.exception("CustomResourceDefinition %s cannot be served", definition["metadata"]["name"])
            return []

    def _serve(self, key: str, value: bytes, types: list[ResourceType]) -> None:
        """Serve these types of a definition, and no others."""
        new = {each.version for each in types}
        for old in self._served.get(key, (b"", []))[1]:
            if old.version not in new:
                self._registry.remove(old.group, old.version, old.plural)
        for each in types:
            self._registry.add(each)
        self._served[key] = (value, types)

    def _put_in_order(self) -> None:
        """Custom groups stand after the built-in ones, by name, whatever the order of their definitions."""
        custom = [each for each in self._registry if each.is_custom]
        ordered = sorted(custom, key=lambda each: (each.group, version_order(each.version), each.plural))
        if custom != ordered:
            for each in ordered:
                self._registry.remove(each.group, each.version, each.plural)
                self._registry.add(each)
