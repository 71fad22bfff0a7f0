"""Rate limits, for requests to a shared server and for events about one object.

transport = Limited(HttpTransport(access), RateLimit(qps=50, burst=100, clock=clock))
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND
from kilauea.client.transport import Answer, Transport


class RateLimit:
    """A token bucket. Waiting callers are served in order.

    Args:
        qps: tokens per second, above 0.
        burst: maximum number of tokens, at least 1.
        clock: the clock.
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
        """Wait for a token and take it."""
        now = self._clock.monotonic()
        turn = max(self._next, now - self._saved)
        self._next = turn + self._each
        if turn > now:
            await self._clock.sleep((turn - now) / SECOND)

    def take(self) -> bool:
        """Take a token if available; return False if the caller must wait."""
        now = self._clock.monotonic()
        turn = max(self._next, now - self._saved)
        if turn > now:
            return False
        self._next = turn + self._each
        return True


class Limited:
    """A transport with a rate limit; watches count when they begin."""

    def __init__(self, transport: Transport, limit: RateLimit) -> None:
        self._transport = transport
        self._limit = limit

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request when the limit allows it."""
        await self._limit.wait()
        return await self._transport.request(method, target, headers, body)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Begin a stream when the limit allows it."""
        await self._limit.wait()
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()
