"""Timers in chronological order: one task that sleeps until the next is due."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

Name = TypeVar("Name", bound=Hashable)


LOOK = 10.0
"""Longest time in seconds until a change of the system time is noticed."""
MOST_STALE = 64
"""Number of replaced and cancelled timers to keep until their time, in addition to the number of timers.

A deadline of a day that is reset at each change of an object would otherwise leave an entry for each of them.
"""


class Timers(Generic[Name]):
    """One timer for each name; a later call for the same name replaces the earlier one.

    Timers use the monotonic clock, so that no wait grows when the system time is set back. But a name may wait for a
    time of day (a cron job does): when the system time is set, all names are called at once, and wait again if it was
    too early.

    Args:
        clock: the time.
        due: called with each name whose timer expires.
    """

    def __init__(self, clock: Clock, due: Callable[[Name], None]) -> None:
        self._clock = clock
        self._due = due
        self._moments: dict[Name, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Name]] = []
        self._numbers = itertools.count()
        self._earlier = asyncio.Event()
        self._offset = self._ahead()

    def __len__(self) -> int:
        return len(self._moments)

    def set(self, name: Name, seconds: float, since: int | None = None) -> None:
        """Set the timer of a name, from now or from an earlier monotonic time."""
        start = self._clock.monotonic() if since is None else since
        moment = (start + _micros(seconds), next(self._numbers))
        self._moments[name] = moment
        if not self._heap or moment < self._heap[0][:2]:
            self._earlier.set()
        if len(self._heap) >= MOST_STALE + 2 * len(self._moments):
            self._heap = [(*each, known) for known, each in self._moments.items()]
            heapq.heapify(self._heap)
            return
        heapq.heappush(self._heap, (*moment, name))

    def bring_forward(self, name: Name, seconds: float) -> None:
        """Set the timer of a name, unless it expires sooner anyway."""
        known = self._moments.get(name)
        if known is None or known[0] > self._clock.monotonic() + _micros(seconds):
            self.set(name, seconds)

    def cancel(self, name: Name) -> None:
        """Cancel the timer of a name."""
        self._moments.pop(name, None)

    async def run(self) -> None:
        """Run the timers, until cancelled."""
        while True:
            self._earlier.clear()
            wait = self._call_due()
            if wait is None:
                await self._earlier.wait()
            else:
                await self._sleep(min(wait, LOOK))
                self._notice_time_of_day()

    def _ahead(self) -> int:
        """Offset of the system time from the monotonic clock."""
        return self._clock.now() - self._clock.monotonic()

    def _notice_time_of_day(self) -> None:
        """Make all timers expire if the system time was set since the last check; a slow drift is ignored."""
        before, self._offset = self._offset, self._ahead()
        if abs(self._offset - before) > SECOND:
            for name in sorted(self._moments, key=self._moments.__getitem__):
                self.set(name, 0)

    def _call_due(self) -> float | None:
        """Call all expired timers; return the seconds until the next one, None if there is none."""
        while self._heap:
            moment, number, name = self._heap[0]
            if self._moments.get(name) == (moment, number):
                left = moment - self._clock.monotonic()
                if left > 0:
                    return left / SECOND
                del self._moments[name]
                heapq.heappop(self._heap)
                self._due(name)
            else:
                heapq.heappop(self._heap)  # replaced or cancelled
        return None

    async def _sleep(self, seconds: float) -> None:
        """Wait until a timeout, or until an earlier timer is set."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        earlier = asyncio.ensure_future(self._earlier.wait())
        try:
            await asyncio.wait({sleeping, earlier}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            earlier.cancel()


def _micros(seconds: float) -> int:
    """Microseconds, rounded up: a controller that is called a fraction too early would wait repeatedly."""
    return math.ceil(seconds * SECOND)
