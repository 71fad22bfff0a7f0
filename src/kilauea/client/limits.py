"""Rate limits: for requests to a server that others share, and for events about one object.

transport = Limited(HttpTransport(access), RateLimit(qps=50, burst=100, clock=clock))
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND
from kilauea.client.transport import Answer, Transport


class RateLimit:
    """This many at once, and then so many a second. Who waits is served in the order of asking.

    Args:
        qps: a second, above 0.
        burst: at once after a time without any, at least 1.
        clock: says when it is.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a limit of {qps} a second and {burst} at once lets nothing through: raise it")
        self._clock = clock
        self._each = SECOND / qps
        self._saved = (burst - 1) * self._each
        self._next: float = clock.monotonic() - self._saved
        """The time at which the next request may start."""

    async def wait(self) -> None:
        """Wait for one's turn."""
        now = self._clock.monotonic()
        turn = max(self._next, now - self._saved)
        self._next = turn + self._each
        if turn > now:
            await self._clock.sleep((turn - now) / SECOND)

    def take(self) -> bool:
        """Take a token if there is one; return False if the caller must wait."""
        now = self._clock.monotonic()
        turn = max(self._next, now - self._saved)
        if turn > now:
            return False
        self._next = turn + self._each
        return True


class Limited:
    """A transport that asks no more often than a limit allows; watches count when they begin."""

    def __init__(self, transport: Transport, limit: RateLimit) -> None:
        self._transport = transport
        self._limit = limit

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask in one's turn."""
        await self._limit.wait()
        return await self._transport.request(method, target, headers, body)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Begin a stream in one's turn."""
        await self._limit.wait()
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()
