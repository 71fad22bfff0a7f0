"""Watchers: cursors over the history, woken only by relevant events.

A watcher that has seen everything is idle and costs nothing: events look up the watchers waiting for their key,
namespace and resource. It has no buffer. If it is too slow and its position is dropped from the history, it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from kilauea.apiserver.storage.history import History
from kilauea.apiserver.storage.records import Event, covers, resource_of, scopes_of

BATCH = 1000  # events at most; others follow in the next batch
BATCH_BYTES = 1 << 20  # of values, from which others follow in the next batch


class Watchers:
    """All watchers of a store, and the waiting ones by prefix."""

    def __init__(self) -> None:
        self.all: WeakKeyDictionary[Watcher, None] = WeakKeyDictionary()
        self._idle: dict[str, dict[Watcher, None]] = {}

    def wait(self, watcher: Watcher) -> None:
        """Wake this watcher at the next event under its prefix."""
        self._idle.setdefault(watcher.prefix, {})[watcher] = None

    def leave(self, watcher: Watcher) -> None:
        """Stop waking this watcher, if it waits."""
        group = self._idle.get(watcher.prefix)
        if group is not None:
            group.pop(watcher, None)
            if not group:
                del self._idle[watcher.prefix]

    def wake(self, events: Sequence[Event]) -> None:
        """Wake the watchers that wait for one of these events, which are already in the history."""
        for event in events:
            if not self._idle:
                return
            now = event.now
            for scope in scopes_of(now.key):
                for watcher in self._idle.pop(scope, ()):
                    watcher.wake(now.revision)


class Watcher:
    """The events under a prefix after a revision, as an asynchronous iterator of batches.

    A batch is empty only after `interrupt`. Cancelling a wait loses nothing: the next one continues at
    the same position. Iteration ends when the watcher or the store is closed.

    Raises (on creation and while iterating):
        Expired: the next events are no longer in the history.
    """

    def __init__(self, prefix: str, after: int, history: History, watchers: Watchers) -> None:
        self.prefix = prefix
        self._seen = after
        self._history = history
        self._ring = history.ring(prefix)
        self._ring.check(after)
        self._whole_resource = prefix == resource_of(prefix)
        self._more = False
        self._watchers = watchers
        self._waiting: asyncio.Future[None] | None = None
        self._closed = self._interrupted = False
        watchers.all[self] = None

    @property
    def revision(self) -> int:
        """The revision up to which all events have been returned, for bookmarks."""
        return self._seen if self._waiting is None else max(self._seen, self._history.revision)

    @property
    def is_behind(self) -> bool:
        """True if more events follow those returned last."""
        return self._more

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> list[Event]:
        while not self._closed:
            if self._more:
                await asyncio.sleep(0)  # a long history must not block the loop
            if self._interrupted:
                self._interrupted = False
                return []
            batch = self._take()
            if batch:
                return batch
            if not self._more:
                await self._rest()
        raise StopAsyncIteration

    def wake(self, revision: int) -> None:
        """Continue: this is the first event for this watcher since it began to wait."""
        # No earlier event concerns this watcher, so the search through the history begins here.
        self._seen = max(self._seen, revision - 1)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def interrupt(self) -> None:
        """Return an empty batch next, without further waiting."""
        self._interrupted = True
        if self._waiting is not None:
            self._watchers.leave(self)
            self.wake(self.revision + 1)

    def close(self) -> None:
        """End the iteration; may be called more than once."""
        self._closed = True
        self._watchers.all.pop(self, None)
        self._watchers.leave(self)
        self.wake(0)

    def _take(self) -> list[Event]:
        events = self._ring.after(self._seen, BATCH)
        self._more = len(events) == BATCH
        if len(events) > 1:
            self._limit(events)
        if events:
            self._seen = events[-1].revision
        if self._whole_resource:
            return events
        return [event for event in events if covers(self.prefix, event.key)]

    def _limit(self, events: list[Event]) -> None:
        """Leave out what comes after a batch's share of bytes: who does not go on holds on to the batch."""
        size = 0
        for count, event in enumerate(events, 1):
            size += event.now.length
            if size >= BATCH_BYTES and count < len(events):
                del events[count:]
                self._more = True
                return

    async def _rest(self) -> None:
        self._waiting = waiting = asyncio.get_running_loop().create_future()
        self._watchers.wait(self)
        try:
            await waiting
        finally:
            if self._waiting is not None:  # cancelled: nothing came for this watcher so far
                # It would have been woken by anything for it up to now, so that need not be searched again.
                self._seen = self.revision
                self._waiting = None
                self._watchers.leave(self)
