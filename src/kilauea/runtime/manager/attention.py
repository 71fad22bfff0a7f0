"""Gaps in which this process did not run, and so heard nothing: it was stopped, starved or asleep.

Asked since when it has listened, it tells controllers from when on silence means something.
"""

from __future__ import annotations

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

LOOK_SECONDS = 1.0
"""Between two looks at the time."""
LONGEST_GAP = 5 * SECOND
"""Microseconds between two looks beyond which a process has not listened; a long cycle of the scheduler takes less."""


class Attention:
    """Since when this process has listened without a gap.

    A gap is a time for which the process did not run, although it had something to do, or by which the time of day was
    set. What others should have said meanwhile may not have been heard, or bear a time that does not compare with now.

    Args:
        clock: the time of day, and pauses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._looked = clock.now()

    def since(self, now: int) -> int:
        """Since when it has listened, at a time; both in microseconds since 1970."""
        if not -SECOND <= now - self._looked <= LONGEST_GAP:
            self._since = now
        self._looked = now
        return self._since

    async def run(self) -> None:
        """Look at the time again and again, until cancelled."""
        while True:
            self.since(self._clock.now())
            await self._clock.sleep(LOOK_SECONDS)
