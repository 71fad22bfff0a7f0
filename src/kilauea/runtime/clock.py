"""The time of the machine."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """`kilauea.api.ports.Clock` as the machine has it."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
