"""Time that passes at once: an event loop that, when all wait, goes to the next moment for which a task waits.

with virtual_loop() as loop:
    loop.run_until_complete(main(LoopClock(loop)))      # an hour of sleep takes no time
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

START = 1_700_000_000_000_000
"""Microseconds since 1970 at which each loop begins."""


class Deadlock(Exception):
    """Everything waits, and for nothing that will come."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for time to pass, makes it pass."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Deadlock
            self.loop.seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own; nothing may wait for threads or sockets."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.seconds


class LoopClock:
    """`kilauea.api.ports.Clock` by the time of a loop; `step` sets the time of day as an operator or NTP does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._start = START

    def now(self) -> int:
        """Microseconds since 1970."""
        return self._start + self.monotonic()

    def monotonic(self) -> int:
        """Microseconds since the loop was made."""
        return round(self._loop.time() * 1_000_000)

    def step(self, seconds: float) -> None:
        """Set the time of day forward, or backward."""
        self._start += round(seconds * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def virtual_loop() -> Iterator[VirtualLoop]:
    """A loop for the length of a block; what still runs at its end is cancelled."""
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        left: set[asyncio.Task[Any]] = asyncio.all_tasks(loop)
        loop.run_until_complete(_end(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
