"""`Cache`: copies of objects of many kinds that watches keep fresh, found by key, namespace, owner, label and index.

It implements `kilauea.api.ports.View`. One process has one, however many controllers look at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from kilauea.api.ports import Api, Clock, Key, Obj, Resource
from kilauea.client.indexer import Indexer
from kilauea.client.reflector import Reflector

_NO_INDEXES: Mapping[str, Callable[[Obj], str]] = {}


class Cache:
    """An indexer for each declared kind."""

    def __init__(self) -> None:
        self._indexers: dict[Resource, Indexer] = {}
        self._complete: dict[Resource, asyncio.Event] = {}

    def __iter__(self) -> Iterator[Indexer]:
        return iter(self._indexers.values())

    def declare(
        self,
        resource: Resource,
        labels: Iterable[str] = (),
        indexes: Mapping[str, Callable[[Obj], str]] = _NO_INDEXES,
    ) -> Indexer:
        """The indexer of a kind, which is followed from the next `run` on.

        Args:
            resource: the kind.
            labels: by which objects shall be found.
            indexes: by what else, as functions of an object.
        """
        indexer = self._indexers.get(resource)
        if indexer is None:
            indexer = self._indexers[resource] = Indexer(resource)
            self._complete[resource] = asyncio.Event()
        indexer.add_indexes(labels, indexes)
        return indexer

    async def run(self, api: Api, clock: Clock, rng: Random) -> None:
        """Keep everything that is declared fresh, until cancelled.

        A kind that the server does not have (yet) is empty: who needs it has nothing to do, and the others go on.
        """
        async with asyncio.TaskGroup() as tasks:
            for resource, indexer in self._indexers.items():
                complete = self._complete[resource]
                reflector = Reflector(api, resource, indexer, clock, rng, complete=complete, may_lack=True)
                tasks.create_task(reflector.run(), name=f"reflector of {resource.plural}")

    async def complete(self) -> None:
        """Wait until every kind that is declared has been listed."""
        for event in list(self._complete.values()):
            await event.wait()

    def missing(self) -> Sequence[Resource]:
        """Kinds that have not been listed yet."""
        return [resource for resource, event in self._complete.items() if not event.is_set()]

    # --- kilauea.api.ports.View

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object."""
        return self._indexers[resource].get(key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All objects of a kind, or those of a namespace, in order of their keys."""
        return self._indexers[resource].all(namespace)

    def owned(self, resource: Resource, uid: str) -> Sequence[Obj]:
        """Objects of a kind of which the one with this uid is an owner, in order of their keys."""
        return self._indexers[resource].owned(uid)

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with a label that is indexed, in order of their keys."""
        return self._indexers[resource].labelled(label, value)

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Objects of a kind for which an index says this value, in order of their keys."""
        return self._indexers[resource].indexed(index, value)
