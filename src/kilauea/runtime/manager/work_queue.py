"""A queue of keys: each key once, in order of arrival, and never two workers on one key."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable

from kilauea.api.ports import Key


class WorkQueue:
    """A work queue.

    A key that is added while it is being processed is processed again afterwards, unless the work itself is the cause.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._busy: set[Key] = set()
        self._again: dict[Key, Hashable] = {}
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def add(self, key: Key, cause: Hashable = None) -> None:
        """Add a key; `done` recognizes its cause."""
        if key in self._busy:
            self._again[key] = cause if self._again.get(key, cause) == cause else None
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake()

    async def take(self) -> Key:
        """The key that has waited longest; it is busy until `done`."""
        while not self._waiting:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        key, _ = self._waiting.popitem(last=False)
        self._busy.add(key)
        return key

    def done(self, key: Key, own: Hashable = None) -> None:
        """Finish a key; it is not processed again if this was the only cause for which it was added meanwhile."""
        self._busy.discard(key)
        if key in self._again:
            cause = self._again.pop(key)
            if cause is None or cause != own:
                self.add(key)

    def _wake(self) -> None:
        """Wake one worker."""
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
