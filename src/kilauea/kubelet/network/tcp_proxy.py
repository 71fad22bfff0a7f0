"""`TcpProxy`: accepts connections on an address and forwards each to an endpoint of a service."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Iterable

from kilauea.api.ports import Clock
from kilauea.kubelet.network.balancing import Balancer, Target
from kilauea.kubelet.network.routes import Listen

BUFFER = 64 * 1024
BACKLOG = 1024
CONNECT_SECONDS = 5.0
"""Seconds after which an endpoint that does not answer is skipped."""
PAUSE_SECONDS = 0.2
"""Seconds to wait after a connection could not be accepted because of too many open files."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for a connection that should be reset when closed."""
log = logging.getLogger(__name__)


class TcpProxy:
    """One listening socket, and its accepted connections."""

    def __init__(self, listen: Listen, balancer: Balancer, clock: Clock, slots: asyncio.Semaphore) -> None:
        """Start to listen.

        Args:
            listen: the address.
            balancer: selects the endpoints.
            clock: the time.
            slots: one for each connection of all proxies.

        Raises:
            OSError: it cannot listen there.
        """
        self.balancer = balancer
        self._clock = clock
        self._slots = slots
        self._socket = _listening(listen)
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name=f"proxy at {listen}")

    async def close(self, *, cut: bool) -> None:
        """Stop listening; connections continue unless `cut`."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._socket.close()
        if cut:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, (address, *_) = await loop.sock_accept(self._socket)
            except OSError as error:
                log.warning("a connection to service %s was not accepted: %s", self.balancer.route.service, error)
                await self._clock.sleep(PAUSE_SECONDS)
                continue
            try:
                await self._slots.acquire()
            except asyncio.CancelledError:
                client.close()
                raise
            task = asyncio.create_task(self._serve(client, address))
            self._connections.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._slots.release()

    async def _serve(self, client: socket.socket, address: str) -> None:
        """Connect a client to the first endpoint that answers; without one, reset the connection like a closed port."""
        with client:
            client.setblocking(False)
            endpoint = await self._reach(address)
            if endpoint is None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            with endpoint:
                await _join(client, endpoint)

    async def _reach(self, client: str) -> socket.socket | None:
        for target in self.balancer.order(client, self._clock.monotonic()):
            found = await _connected(target)
            if found is not None:
                self.balancer.used(client, target, self._clock.monotonic())
                return found
        return None


def _listening(listen: Listen) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setblocking(False)
        found.bind((listen.address, listen.port))
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


async def accepts(targets: Iterable[Target]) -> bool:
    """Return True if any of the endpoints accepts connections."""
    for target in targets:
        found = await _connected(target)
        if found is not None:
            found.close()
            return True
    return False


async def _connected(target: Target) -> socket.socket | None:
    """Connect to an endpoint; None if it refuses, or does not answer in time."""
    found = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM)
    found.setblocking(False)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(found, target)
    except (OSError, TimeoutError):
        found.close()
        return None
    except BaseException:
        found.close()
        raise
    return found


async def _join(client: socket.socket, endpoint: socket.socket) -> None:
    """Copy in both directions until both have ended, or one of them fails; the end of each direction is passed on."""
    for each in (client, endpoint):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ways = [asyncio.create_task(_copy(client, endpoint)), asyncio.create_task(_copy(endpoint, client))]
    try:
        await asyncio.gather(*ways)
    except OSError:
        for each in (client, endpoint):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(source: socket.socket, sink: socket.socket) -> None:
    loop, buffer = asyncio.get_running_loop(), memoryview(bytearray(BUFFER))
    while count := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(sink, buffer[:count])
        await asyncio.sleep(0)  # neither call waits while data flows; lets other tasks run
    sink.shutdown(socket.SHUT_WR)
