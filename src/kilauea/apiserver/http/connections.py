"""The connections of the server: only so many, and none of them waits for ever for a client.

A client that sends half a request holds a descriptor, of which a process has few. So the head of the first request must
come soon, a connection that waits for the next one is closed after a while, and where there are too many, the one that
has waited longest makes room.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD_SECONDS = 10.0
"""Seconds for a new connection to encrypt itself, and again to send the head of its first request."""
IDLE_SECONDS = 90.0
"""Seconds that a connection may wait for its next request, as in Kubernetes."""
MOST = 20_000
RESERVED = 32
"""Descriptors for anything else than connections: the store, logs, worker processes."""
SWEEP_SECONDS = 2.0


def raise_limit() -> int:
    """Allow this process as many descriptors as it may have; returns how many connections that makes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(min(soft - RESERVED, MOST), 1)


class Connections(web.Server):
    """All connections, and since when those wait that have no request at work."""

    def __init__(self, *arguments: Any, most: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most = most
        self._waiting: dict[Any, tuple[float, float]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take in a connection; the one that has waited longest makes room for it if need be."""
        super().connection_made(handler, transport)
        self._waiting[handler] = (time.monotonic(), HEAD_SECONDS)
        if len(self._connections) > self._most:
            self._drop(next(iter(self._waiting)))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._drop_idle)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        self._waiting.pop(handler, None)

    @contextmanager
    def at_work(self, handler: Any) -> Iterator[None]:
        """While a request is answered its connection does not wait."""
        self._waiting.pop(handler, None)
        try:
            yield
        finally:
            if handler in self._connections:
                self._waiting[handler] = (time.monotonic(), IDLE_SECONDS)

    def _drop(self, handler: Any) -> None:
        self._waiting.pop(handler, None)
        transport = self._connections.get(handler)
        if transport is not None:
            transport.abort()

    def _drop_idle(self) -> None:
        """Close the connections that have waited too long; look again later, as long as there are any."""
        now = time.monotonic()
        for handler in [each for each, (since, most) in self._waiting.items() if now - since > most]:
            self._drop(handler)
        self._sweep = None
        if self._connections:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._drop_idle)

    async def shutdown(self, timeout: float | None = None) -> None:
        """End all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        await super().shutdown(timeout)


class SeldomOutOfDescriptors(logging.Filter):
    """Lets asyncio say once a minute that there are no descriptors left; it says so hundreds of times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -60.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a record may be written."""
        if "out of system resource" not in record.getMessage():
            return True
        now = time.monotonic()
        if now - self._last < 60.0:
            return False
        self._last = now
        return True
