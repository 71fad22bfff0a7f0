"""The connections of the server: only so many, and none of them waits for ever for a client.

A client that sends half a request holds a descriptor, of which a process has few. So the head of the first request must
come soon, a connection that waits for the next one is closed after a while, and where there are too many, the one that
has waited longest makes room. A request, from its head to the end of its answer, has its time too, as in Kubernetes:
however slowly its body comes, and whatever it waits for, it ends. One timer looks after all of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

HEAD_SECONDS = 10.0
"""Seconds for a new connection to encrypt itself, and again to send the head of its first request."""
IDLE_SECONDS = 90.0
"""Seconds that a connection may wait for its next request, as in Kubernetes."""
MOST = 20_000
RESERVED = 32
"""Descriptors for anything else than connections: the store, logs, worker processes."""
REQUEST_SECONDS = 60.0
"""Seconds for a request and its answer, as in Kubernetes; watches and logs that are followed last longer."""
SWEEP_SECONDS = 1.0


def raise_limit() -> int:
    """Allow this process as many descriptors as it may have; returns how many connections that makes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(min(soft - RESERVED, MOST), 1)


@dataclass(slots=True)
class Work:
    """A request that is being answered.

    Attributes:
        task: answers it.
        deadline: by the monotonic clock; the task is cancelled then.
        is_late: True once the task was cancelled here.
        answer: the answer, once its head has been sent.
        tenant: who asks (`User.tenant`); empty for a client that is not known.
    """

    task: asyncio.Task[Any] | None
    deadline: float
    is_late: bool = False
    answer: web.StreamResponse | None = None
    tenant: str = ""

    @property
    def lasts(self) -> bool:
        """True if it lasts as long as it is read."""
        return self.deadline == math.inf

    def end(self) -> None:
        """Cancel the task, once."""
        if not self.is_late and self.task is not None:
            self.is_late = True
            self.task.cancel()

    def take_time(self) -> None:
        """Let it last as long as it is read."""
        self.deadline = math.inf

    def was_ended(self) -> bool:
        """Return True for a cancellation that comes from here alone; the task may go on to answer."""
        return self.is_late and self.task is not None and self.task.uncancel() == 0


class Connections(web.Server):
    """All connections: since when those wait that have no request at work, and the requests of the others.

    Where there are too many, one makes room for each new one: that which has waited longest, or where all are at work,
    the oldest watch (or log) of the tenant who has most, and without watches, the oldest request of the tenant who has
    most. So no one with many watches, or many requests that do not end, locks out others.
    """

    def __init__(self, *arguments: Any, most: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most = most
        self._waiting: dict[Any, tuple[float, float]] = {}
        self._working: dict[Any, Work] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take in a connection; another one makes room for it if need be."""
        super().connection_made(handler, transport)
        self._waiting[handler] = (time.monotonic(), HEAD_SECONDS)
        if len(self._connections) > self._most:
            self._make_room(handler)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._look_around)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Forget a connection, and end what it was read for: a watch without events would not notice it for long."""
        super().connection_lost(handler, exc)
        self._waiting.pop(handler, None)
        work = self._working.get(handler)
        if work is not None and work.lasts:
            work.end()

    def begin(self, handler: Any, seconds: float) -> Work:
        """Note that a request is being answered, which may take so long; its connection does not wait meanwhile."""
        self._waiting.pop(handler, None)
        work = self._working[handler] = Work(asyncio.current_task(self._loop), time.monotonic() + seconds)
        return work

    def end(self, handler: Any) -> None:
        """Note that the request is answered."""
        del self._working[handler]
        if handler in self._connections:
            self._waiting[handler] = (time.monotonic(), IDLE_SECONDS)

    def _make_room(self, newcomer: Any) -> None:
        waiting = next((each for each in self._waiting if each is not newcomer), None)
        if waiting is not None:
            self._drop(waiting)
            return
        working = [(each, work) for each, work in self._working.items() if not work.is_late]
        working = [(each, work) for each, work in working if work.lasts] or working
        if not working:
            self._drop(newcomer)
            return
        ((tenant, _),) = Counter(work.tenant for _, work in working).most_common(1)
        handler, work = next((each, work) for each, work in working if work.tenant == tenant)
        work.end()
        self._drop(handler)

    def _drop(self, handler: Any) -> None:
        self._waiting.pop(handler, None)
        transport = self._connections.get(handler)
        if transport is not None:
            transport.abort()

    def _look_around(self) -> None:
        """End what has taken too long; look again later, as long as there are connections."""
        now = time.monotonic()
        for handler in [each for each, (since, most) in self._waiting.items() if now - since > most]:
            self._drop(handler)
        for work in self._working.values():
            if now > work.deadline:
                work.end()
        self._sweep = None
        if self._connections:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._look_around)

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
