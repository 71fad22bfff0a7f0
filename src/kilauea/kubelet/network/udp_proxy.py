"""`UdpProxy`: forwards datagrams to endpoints of a service, and the replies back."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from typing import Any

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND
from kilauea.kubelet.network.balancing import Balancer
from kilauea.kubelet.network.routes import Listen

IDLE_SECONDS = 60
"""Seconds without a datagram after which a client is dropped."""
MOST_SESSIONS = 256
"""Maximum number of clients; the one that was idle for longest is dropped for a new one."""
Address = tuple[Any, ...]


class UdpProxy(asyncio.DatagramProtocol):
    """One socket for clients, and one to an endpoint for each client, which keeps the endpoint as long as it sends."""

    def __init__(self, listen: Listen, balancer: Balancer, clock: Clock) -> None:
        """Initialize a proxy, which listens once it is opened."""
        self.balancer = balancer
        self._listen = listen
        self._clock = clock
        self._transport: asyncio.DatagramTransport | None = None
        self._sessions: OrderedDict[Address, _Session] = OrderedDict()

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: it cannot.
        """
        at = (self._listen.address, self._listen.port)
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, local_addr=at)

    async def close(self, *, cut: bool) -> None:
        """Stop; there are no connections that could continue."""
        del cut
        while self._sessions:
            self._drop()
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Forward a datagram of a client."""
        now = self._clock.monotonic()
        session = self._sessions.get(addr)
        while self._sessions and next(iter(self._sessions.values())).used < now - IDLE_SECONDS * SECOND:
            self._drop()
        if session is None or session.closed:
            session = self._begin(addr, now)
        if session is not None:
            session.used = now
            self._sessions.move_to_end(addr)
            session.send(data)

    def error_received(self, exc: Exception) -> None:
        """Ignore that a client does not receive its replies."""

    def _begin(self, client: Address, now: int) -> _Session | None:
        if client not in self._sessions and len(self._sessions) >= MOST_SESSIONS:
            self._drop()
        target = self.balancer.order(client[0], now)[0]
        transport = self._transport
        assert transport is not None
        try:
            session = _Session(target, lambda data: transport.sendto(data, client))
        except OSError:  # as if the datagram had been lost
            return None
        self.balancer.used(client[0], target, now)
        self._sessions[client] = session
        return session

    def _drop(self) -> None:
        _, session = self._sessions.popitem(last=False)
        session.close()


class _Session:
    """The socket through which datagrams of one client go to its endpoint.

    Attributes:
        used: monotonic time in microseconds at which the client last sent something.
        closed: True if the endpoint no longer exists.
    """

    def __init__(self, target: tuple[str, int], answer: Any) -> None:
        self.used = 0
        self.closed = False
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.connect(target)
            self._loop.add_reader(self._socket, self._readable)
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        """Send to the endpoint; datagrams that it cannot accept are lost."""
        try:
            self._socket.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the socket."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _readable(self) -> None:
        try:
            self._answer(self._socket.recv(65536))
        except BlockingIOError:
            pass
        except OSError:  # the endpoint refuses: the next datagram is sent to another
            self.close()
