"""Stalls of this process: times when it was stopped, starved or asleep, and therefore received nothing.

Controllers need the end of the last stall: only afterwards is the silence of a node meaningful.
"""

from __future__ import annotations

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

LOOK_SECONDS = 1.0
"""Seconds between two checks of the time."""
LONGEST_PAUSE = 5 * SECOND
"""Microseconds between two checks beyond which the process stalled; a long cycle of the scheduler is shorter."""


class Stalls:
    """The time since which this process has run without a stall.

    In a stall, the process did not run although it had something to do, or the time of day was set. Messages sent
    meanwhile may not have been received, or have times that are not comparable with now.

    Args:
        clock: the time of day, and pauses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._looked = clock.now()

    def running_since(self, now: int) -> int:
        """The end of the last stall, or the start, given the current time; both in microseconds since 1970."""
        if not -SECOND <= now - self._looked <= LONGEST_PAUSE:
            self._since = now
        self._looked = now
        return self._since

    async def run(self) -> None:
        """Check the time periodically, until cancelled."""
        while True:
            self.running_since(self._clock.now())
            await self._clock.sleep(LOOK_SECONDS)
