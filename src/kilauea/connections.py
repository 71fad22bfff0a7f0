"""The connections of a server: limited in number, and none of them waits forever for a client.

A client that sends half a request holds a descriptor, of which a process has few. So the head of the first request must
come soon, a connection that waits for the next one is closed after a while, and where there are too many, the one that
has waited longest makes room. A request, from its head to the end of its answer, has its time too, as in Kubernetes:
however slowly its body comes, and whatever it waits for, it ends. One timer looks after all of them.

`Connections` is such a server, `Bounded` an application behind one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

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
RETRY_SECONDS = 0.2
"""Seconds after which accepting is tried again when it failed."""
QUIET_SECONDS = 60.0
"""Seconds for which that failure is not logged again."""
BACKLOG = 1024
"""Connections that may wait to be accepted; a client beyond them tries again after a second."""
ACCEPTED = 8
"""Connections to accept in an iteration of the loop: each needs milliseconds of CPU time to begin TLS.

With one, a client waits for as many iterations as others connect before it, which takes seconds in a busy server.
"""

log = logging.getLogger(__name__)


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
        self._beginning: dict[Any, asyncio.Task[None]] = {}
        self._waiting: dict[Any, tuple[float, float]] = {}
        self._working: dict[Any, Work] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take in a connection; another one makes room for it if need be."""
        super().connection_made(handler, transport)
        self._beginning.pop(handler, None)
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

    async def listen(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> Listening:
        """Begin to listen on an address; None as host means all addresses.

        Raises:
            OSError: the address cannot be had.
        """
        return Listening(await listening_sockets(host, port), partial(self._take_in, tls=tls))

    def _take_in(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Make a connection of a new client; until it is encrypted, it is the first to make room for others."""
        handler = self()
        task = self._beginning[handler] = asyncio.ensure_future(self._begin(handler, client, tls))
        task.add_done_callback(partial(self._started, handler, client))
        if len(self._connections) + len(self._beginning) > self._most:
            self._make_room(handler)

    async def _begin(self, handler: Any, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        loop, seconds = asyncio.get_running_loop(), None if tls is None else HEAD_SECONDS
        with suppress(OSError):  # of which errors of TLS and timeouts are
            await loop.connect_accepted_socket(lambda: handler, client, ssl=tls, ssl_handshake_timeout=seconds)
            return
        client.close()

    def _started(self, handler: Any, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._beginning.pop(handler, None)
        if task.cancelled():
            client.close()

    def _make_room(self, newcomer: Any) -> None:
        beginning = next((each for each in self._beginning if each is not newcomer), None)
        if beginning is not None:
            self._beginning.pop(beginning).cancel()
            return
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
        for task in list(self._beginning.values()):
            task.cancel()
        await super().shutdown(timeout)


class Listening:
    """Listens on an address until it is closed.

    Args:
        sockets: which listen already.
        take_in: is given the socket of each new client.
    """

    def __init__(self, sockets: Sequence[socket.socket], take_in: Callable[[socket.socket], None]) -> None:
        self._sockets = sockets
        self._take_in = take_in
        self._tasks = [asyncio.ensure_future(self._accept(each)) for each in sockets]

    @property
    def port(self) -> int:
        """The port."""
        found: int = self._sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop, said = asyncio.get_running_loop(), -math.inf
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except ConnectionError:  # the client has gone already
                continue
            except OSError as error:
                if (now := loop.time()) >= said + QUIET_SECONDS:
                    log.error("cannot accept connections: %s; trying again", error.strerror)
                    said = now
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._hand_over(client)
            with suppress(OSError):  # no more clients; what else is wrong, the next one shows
                for _ in range(ACCEPTED - 1):
                    self._hand_over(listening.accept()[0])
            await asyncio.sleep(0)  # `sock_accept` may not wait while there are clients

    def _hand_over(self, client: socket.socket) -> None:
        client.setblocking(False)
        self._take_in(client)


async def listening_sockets(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host.

    Raises:
        OSError: an address cannot be had.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    with ExitStack() as stack:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                each = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            except OSError:  # the system lacks the family, as far as it lists it for all addresses
                continue
            made.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.setblocking(False)
            each.bind(address)
            each.listen(BACKLOG)
        if not made:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        stack.pop_all()
    return made


class Bounded:
    """An application whose connections are bounded, at any number of addresses, for the length of a block.

    Args:
        application: what it serves.
        most: connections at a time; where all are at work, the oldest request makes room for a new one.
        seconds: for a request and its answer.
        grace: seconds that requests have to end when the block ends.
    """

    def __init__(self, application: web.Application, most: int, seconds: float, grace: float) -> None:
        self._runner = web.AppRunner(application, access_log=None)
        self._most = min(most, raise_limit())
        self._seconds = seconds
        self._grace = grace
        self._listening: list[Listening] = []

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        made = self._runner.server
        assert made is not None
        self._handler = made.request_handler
        self._connections = Connections(
            self._answer,
            most=self._most,
            request_factory=made.request_factory,
            access_log=None,
            handler_cancellation=self._seconds == math.inf,
        )
        return self

    async def listen(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin to listen; returns the port, which the system picks if 0 was given.

        Raises:
            OSError: the address cannot be had.
        """
        server = await self._connections.listen(host, port, tls)
        self._listening.append(server)
        return server.port

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._listening:
            await server.close()
        self._connections.pre_shutdown()
        await self._connections.shutdown(self._grace)
        await self._runner.cleanup()

    async def _answer(self, request: Any) -> web.StreamResponse:
        work = self._connections.begin(request.protocol, self._seconds)
        try:
            return await self._handler(request)
        except asyncio.CancelledError:
            if not work.was_ended():
                raise
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=408)
        finally:
            self._connections.end(request.protocol)
