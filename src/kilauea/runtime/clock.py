"""The system's clock."""

from __future__ import annotations

import asyncio
import time

STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock; if possible one that advances during sleep, because a lease expires meanwhile, too."""


class SystemClock:
    """The system's clock; implements `kilauea.api.ports.Clock`."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Microseconds since the machine was started."""
        return time.clock_gettime_ns(STEADY) // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
