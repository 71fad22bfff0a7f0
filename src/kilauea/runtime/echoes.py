"""Waits until a cache shows what was written, so that nobody decides by a picture older than their own doing."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from functools import partial

from kilauea.api.ports import Key, Obj, Resource, key_of
from kilauea.client.indexer import Indexer
from kilauea.client.view import Cache
from kilauea.runtime.operations import Deleted, Trace, Written

_Then = Callable[[], None]


class Echoes:
    """What is to be done once a cache shows certain traces."""

    def __init__(self, cache: Cache) -> None:
        self._shelves: dict[Resource, Indexer] = {}
        self._written: dict[Resource, list[tuple[int, int, _Then]]] = {}
        self._deleted: dict[tuple[Resource, Key], list[_Then]] = {}
        self._numbers = itertools.count()
        for shelf in cache:
            self.follow(shelf)

    def follow(self, shelf: Indexer) -> None:
        """Wait for what this shelf shows, too."""
        if shelf.resource not in self._shelves:
            self._shelves[shelf.resource] = shelf
            self._written[shelf.resource] = []
            shelf.progress.append(self._heard)
            shelf.listeners.append(partial(self._changed, shelf.resource))

    def after(self, traces: Sequence[Trace], then: _Then) -> None:
        """Call once the cache shows all traces in kinds that it has; at once if it does."""
        for number, trace in enumerate(traces):
            shelf = self._shelves.get(trace.resource)
            if shelf is not None and not _shows(shelf, trace):
                self._wait(trace, partial(self.after, traces[number:], then))
                return
        then()

    def _wait(self, trace: Trace, then: _Then) -> None:
        """Call when this trace may be there."""
        if isinstance(trace, Written):
            heapq.heappush(self._written[trace.resource], (trace.version, next(self._numbers), then))
        else:
            self._deleted.setdefault((trace.resource, trace.key), []).append(then)

    def _heard(self, shelf: Indexer) -> None:
        """A kind has come to a newer version."""
        waiting = self._written[shelf.resource]
        while waiting and waiting[0][0] <= shelf.version:
            heapq.heappop(waiting)[2]()

    def _changed(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        """An object has changed."""
        if old is not None and self._deleted:
            for then in self._deleted.pop((resource, key_of(old)), ()):
                then()


def _shows(shelf: Indexer, trace: Trace) -> bool:
    """Whether a shelf shows a trace."""
    if isinstance(trace, Deleted):
        obj = shelf.get(trace.key)
        return obj is None or obj["metadata"]["uid"] != trace.uid or "deletionTimestamp" in obj["metadata"]
    return shelf.version >= trace.version
