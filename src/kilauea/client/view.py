"""`Cache`: copies of objects of many kinds, updated by watches and found by key, namespace, owner, label and index.

It implements `kilauea.api.ports.View`. All controllers of a process share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from kilauea.api.kinds import BUILT_IN, DEFINITIONS, defined_kind
from kilauea.api.ports import (
    Aggregate,
    Aggregation,
    Api,
    Clock,
    Key,
    Obj,
    Resource,
    Texts,
    key_of,
)
from kilauea.client.fields import LABELS
from kilauea.client.indexer import Indexer
from kilauea.client.reflector import Reflector

_NO_INDEXES: Mapping[str, Texts] = {}
_NO_AGGREGATES: Mapping[str, Aggregation] = {}


class Cache:
    """An indexer for each declared kind."""

    def __init__(self) -> None:
        self._indexers: dict[Resource, Indexer] = {}
        self._complete: dict[Resource, asyncio.Event] = {}
        self._defined: dict[str, Resource] = {}
        """Kinds that definitions add, by name of the definition."""
        self._every_kind: list[Callable[[Resource], None]] = []
        self._start: Callable[[Indexer], None] | None = None
        """Starts following an indexer, while the cache runs."""
        self._reflectors: dict[Resource, asyncio.Task[None]] = {}
        """The task that updates each kind, while the cache runs."""

    def __iter__(self) -> Iterator[Indexer]:
        return iter(self._indexers.values())

    def declare(
        self,
        resource: Resource,
        labels: Iterable[str] = (),
        indexes: Mapping[str, Texts] = _NO_INDEXES,
        *,
        fields: Iterable[str] | None = None,
        signs: Iterable[str] | None = None,
        aggregates: Mapping[str, Aggregation] = _NO_AGGREGATES,
    ) -> Indexer:
        """Return the indexer of a kind, which is updated as long as the cache runs.

        Args:
            resource: the kind.
            labels: labels to index.
            indexes: other indexes, as functions of an object.
            fields: paths of fields to keep, as in `kilauea.api.ports.Interest`; None for all. Objects keep the fields
                of all callers.
            signs: paths of fields, as in `kilauea.api.ports.Interest`: of objects without any of them, listeners may be
                notified only of deletions. None for all objects.
            aggregates: facts about all objects with the same value, by name.

        Raises:
            ValueError: the kind is already being read with fewer fields.
        """
        if fields is not None and labels:
            fields = (*fields, LABELS)
        indexer = self._indexers.get(resource)
        if indexer is None:
            indexer = self._indexers[resource] = Indexer(resource, fields)
            indexer.read_if(signs)
            self._complete[resource] = asyncio.Event()
            indexer.add_indexes(labels, indexes)
            indexer.add_aggregates(aggregates)
            if resource == DEFINITIONS:
                indexer.listeners.append(self._definition_changed)
            if self._start is not None:
                self._start(indexer)
            return indexer
        if not indexer.keeps(fields):
            if self._start is not None:
                raise ValueError(f"{resource.plural}: only some fields are read; declare the kind before the start")
            indexer.keep(fields)
        indexer.read_if(signs)
        indexer.add_indexes(labels, indexes)
        indexer.add_aggregates(aggregates)
        return indexer

    def on_every_kind(self, told: Callable[[Resource], None]) -> None:
        """Call a function with every kind that the server stores, now or later."""
        self.declare(DEFINITIONS)
        self._every_kind.append(told)
        for resource in (*BUILT_IN, *self._defined.values()):
            told(resource)

    def _definition_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Update the kinds from the definitions; a deleted kind has no objects."""
        name = key_of(new or old or {}).name
        resource = defined_kind(new) if new is not None else None
        before = self._defined.pop(name, None)
        if resource is not None:
            self._defined[name] = resource
        if before == resource:
            return
        if before is not None and before in self._indexers:
            indexer = self._indexers[before]
            indexer.on_relist([], str(indexer.version))
            if before in self._reflectors:
                self._reflectors.pop(before).cancel()
                self._complete[before].set()
        if resource is not None:
            if self._start is not None and resource in self._indexers and resource not in self._reflectors:
                self._start(self._indexers[resource])
            for told in self._every_kind:
                told(resource)

    async def run(self, api: Api, clock: Clock, rng: Random) -> None:
        """Update all declared kinds, until cancelled.

        A kind that the server does not serve (yet) is empty, so that other kinds are not affected.
        """
        async with asyncio.TaskGroup() as tasks:

            def start(indexer: Indexer) -> None:
                complete = self._complete[indexer.resource]
                reflector = Reflector(api, indexer.resource, indexer, clock, rng, complete=complete, may_lack=True)
                name = f"reflector of {indexer.resource.plural}"
                self._reflectors[indexer.resource] = tasks.create_task(reflector.run(), name=name)

            for indexer in self._indexers.values():
                start(indexer)
            self._start = start
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._start = None
                self._reflectors.clear()

    async def complete(self) -> None:
        """Wait until all declared kinds have been listed."""
        while missing := self.missing():
            await self._complete[missing[0]].wait()

    def missing(self) -> Sequence[Resource]:
        """Kinds that have not been listed yet."""
        return [resource for resource, event in self._complete.items() if not event.is_set()]

    # --- kilauea.api.ports.View

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """Return one object."""
        return self._indexers[resource].get(key)

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """Return an object with only the part of its metadata in `kilauea.api.ports.HEAD`."""
        return self._indexers[resource].head(key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """Return all objects of a kind, or those in a namespace, ordered by key."""
        return self._indexers[resource].all(namespace)

    def count(self, resource: Resource) -> int:
        """Return the number of objects of a kind, without decoding them."""
        return len(self._indexers[resource])

    def owned(self, resource: Resource, uid: str, namespace: str = "", most: int | None = None) -> Sequence[Obj]:
        """Return objects of a kind with this UID as an owner, ordered by key."""
        return self._indexers[resource].owned(uid, namespace, most)

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Return objects of a kind with an indexed label, ordered by key."""
        return self._indexers[resource].labelled(label, value)

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Return objects of a kind with this value in an index, ordered by key."""
        return self._indexers[resource].indexed(index, value)

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects, without decoding them."""
        return self._indexers[resource].count_indexed(index, value)

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        """Return the aggregate of the objects of a kind with a value; None without objects."""
        return self._indexers[resource].aggregate(name, value)
