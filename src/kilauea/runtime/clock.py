"""The time of the machine."""

from __future__ import annotations

import asyncio
import time

STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where there is one, the clock that goes on while the machine sleeps: a lease runs out meanwhile, too."""


class SystemClock:
    """`kilauea.api.ports.Clock` as the machine has it."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Microseconds since the machine was started."""
        return time.clock_gettime_ns(STEADY) // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
