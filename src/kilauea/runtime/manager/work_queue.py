"""Keys that wait for work: each once, in the order in which they came, and never two workers at one key."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable

from kilauea.api.ports import Key


class WorkQueue:
    """Keys to be worked on.

    A key that comes again while it is worked on is worked on once more afterwards, unless the work itself is the cause.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._busy: set[Key] = set()
        self._again: dict[Key, Hashable] = {}
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def add(self, key: Key, cause: Hashable = None) -> None:
        """Have a key worked on; the cause is anything by which `done` may know it."""
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
        """The work on a key is over; it is not done once more if the key has come for no other cause than this."""
        self._busy.discard(key)
        if key in self._again:
            cause = self._again.pop(key)
            if cause is None or cause != own:
                self.add(key)

    def _wake(self) -> None:
        """Let one worker go on."""
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
