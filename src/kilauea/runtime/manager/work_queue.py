"""A queue of keys: each key once, never two workers on one key, and namespaces take turns."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from kilauea.api.ports import Key

TIMES_FREE = 3
"""Multiple of the free places that one namespace may have, so that some are left for others: of 32 places one
namespace gets 24, and a second one 6 of the rest."""


class Lane(NamedTuple):
    """Keys that wait for the same turn, in order of arrival."""

    namespace: str
    heavy: bool
    """True for keys that took long the last time."""


class WorkQueue:
    """A work queue.

    A key that is added while it is being processed is processed again afterwards, unless the work itself is the cause.

    Args:
        places: workers that take keys.
        rests: returns True for lanes from which no key may be taken now; `wake` must follow when this changes.
    """

    def __init__(self, places: int = 1, rests: Callable[[Lane], bool] = lambda lane: False) -> None:
        self._free = places
        self._rests = rests
        self._lanes: OrderedDict[Lane, OrderedDict[Key, None]] = OrderedDict()
        """Waiting keys; the lane whose turn is next is first."""
        self._busy: set[Key] = set()
        self._taken: Counter[str] = Counter()
        """Places by namespace."""
        self._again: dict[Key, Hashable] = {}
        self._heavy: set[Key] = set()
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values())) + len(self._busy)

    def add(self, key: Key, cause: Hashable = None) -> None:
        """Add a key; `done` recognizes its cause."""
        if key in self._busy:
            self._again[key] = cause if self._again.get(key, cause) == cause else None
            return
        waiting = self._lanes.setdefault(Lane(key.namespace, key in self._heavy), OrderedDict())
        if key not in waiting:
            waiting[key] = None
            self.wake()

    async def take(self) -> Key:
        """Take the key that has waited longest in the namespace whose turn it is.

        It has a place until `leave`, and is busy until `done`.
        """
        while (lane := self._next()) is None:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        waiting = self._lanes.pop(lane)
        key, _ = waiting.popitem(last=False)
        if waiting:
            self._lanes[lane] = waiting
        self._busy.add(key)
        self._taken[key.namespace] += 1
        self._free -= 1
        self.wake()
        return key

    def found(self, key: Key, heavy: bool) -> None:
        """Record if work on a busy key took long."""
        (self._heavy.add if heavy else self._heavy.discard)(key)

    def leave(self, key: Key) -> None:
        """Release the place of a key; its worker must take the next one."""
        self._free += 1
        self._taken[key.namespace] -= 1
        if not self._taken[key.namespace]:
            del self._taken[key.namespace]

    def done(self, key: Key, own: Hashable = None) -> None:
        """Finish a key; it is not processed again if `own` is the only cause for which it was added meanwhile."""
        self._busy.discard(key)
        if key in self._again:
            cause = self._again.pop(key)
            if cause is None or cause != own:
                self.add(key)

    def wake(self) -> None:
        """Wake one worker if there is a key for it, which then wakes the next."""
        if not self._idle or self._next() is None:
            return
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    def _next(self) -> Lane | None:
        """The lane whose turn it is; None if no key may be taken now."""
        for lane in self._lanes:
            if self._taken[lane.namespace] < TIMES_FREE * self._free and not self._rests(lane):
                return lane
        return None
