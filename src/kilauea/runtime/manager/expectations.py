"""Waits until a cache shows the writes of a controller, so that it never decides on an older state."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from functools import partial

from kilauea.api.ports import Key, Obj, Resource, key_of
from kilauea.client.indexer import Indexer
from kilauea.client.view import Cache
from kilauea.runtime.manager.operations import Deleted, Trace, Written

_Then = Callable[[], None]


class Expectations:
    """Calls functions once a cache shows the expected changes."""

    def __init__(self, cache: Cache) -> None:
        self._indexers: dict[Resource, Indexer] = {}
        self._written: dict[Resource, list[tuple[int, int, _Then]]] = {}
        self._deleted: dict[tuple[Resource, Key], list[_Then]] = {}
        self._numbers = itertools.count()
        for indexer in cache:
            self.follow(indexer)

    def follow(self, indexer: Indexer) -> None:
        """Follow another kind, too."""
        if indexer.resource not in self._indexers:
            self._indexers[indexer.resource] = indexer
            self._written[indexer.resource] = []
            indexer.progress.append(self._heard)
            indexer.listeners.append(partial(self._changed, indexer.resource))

    def after(self, traces: Sequence[Trace], then: _Then) -> None:
        """Call a function once the cache shows all traces in kinds that it has; at once if it already does."""
        for number, trace in enumerate(traces):
            indexer = self._indexers.get(trace.resource)
            if indexer is not None and not _shows(indexer, trace):
                self._wait(trace, partial(self.after, traces[number:], then))
                return
        then()

    def _wait(self, trace: Trace, then: _Then) -> None:
        """Call the function when the cache may show this trace."""
        if isinstance(trace, Written):
            heapq.heappush(self._written[trace.resource], (trace.version, next(self._numbers), then))
        else:
            self._deleted.setdefault((trace.resource, trace.key), []).append(then)

    def _heard(self, indexer: Indexer) -> None:
        """Handle a newer version of a kind."""
        waiting = self._written[indexer.resource]
        while waiting and waiting[0][0] <= indexer.version:
            heapq.heappop(waiting)[2]()

    def _changed(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        """Handle a changed object."""
        if old is not None and self._deleted:
            for then in self._deleted.pop((resource, key_of(old)), ()):
                then()


def _shows(indexer: Indexer, trace: Trace) -> bool:
    """Return True if an indexer shows a change."""
    if isinstance(trace, Deleted):
        obj = indexer.get(trace.key)
        return obj is None or obj["metadata"]["uid"] != trace.uid or "deletionTimestamp" in obj["metadata"]
    return indexer.version >= trace.version
