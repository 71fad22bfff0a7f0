"""A connection as it begins: each request is read and answered in one go, for as long as all are plain.

At the first bytes that are anything else, and at the first answer that is large or has no end, the connection is given
away for good, to a protocol that knows all of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any, Protocol

from kilauea.apiserver.core import Answer
from kilauea.apiserver.http.plain import plain_answer, read_request
from kilauea.apiserver.request import ApiRequest

IDLE_SECONDS = 3630.0
"""After which a connection without requests ends; longer than proxies keep one."""

log = logging.getLogger(__name__)


class Desk(Protocol):
    """What connections belong to."""

    connections: set[Connection]
    """Those that are open, or whose request is still being answered."""

    async def answer(self, request: ApiRequest, certificate: Mapping[str, Any] | None) -> Answer:
        """The answer to a request that does not have its user yet, from a client with this certificate."""
        ...

    def successor(self, transport: asyncio.Transport, answer: Answer | None) -> asyncio.Protocol:
        """What a connection is given to; if there is an answer, it is that to the request which comes next."""
        ...


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    _transport: asyncio.Transport
    _idle: asyncio.TimerHandle

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._used = self._loop.time()
        self._later = b""
        self._untaken = False
        self.task: asyncio.Task[None] | None = None
        """The request that is being answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._certificate = transport.get_extra_info("peercert")
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._desk.connections.add(self)
        self._end_if_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """End; a request that is being answered is carried out all the same."""
        self._idle.cancel()
        if self.task is None:
            self._desk.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Take in a request."""
        if self._transport.is_closing():
            return
        if self.task is not None:  # the client does not wait for its answer
            self._later += data
            self._transport.pause_reading()
            return
        request = read_request(data)
        if request is None:
            self._give_away(data)
        else:
            self.task = self._loop.create_task(self._handle(request, data))

    def pause_writing(self) -> None:
        """The client does not take its answers."""
        self._untaken = True

    def close(self) -> None:
        """End the connection, and the request that is being answered."""
        self._transport.close()
        if self.task is not None:
            self.task.cancel()

    async def _handle(self, request: ApiRequest, data: bytes) -> None:
        """Answer a request, which is these bytes."""
        try:
            answer = await self._desk.answer(request, self._certificate)
            if not self._transport.is_closing():
                self._send(answer, data)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            self._transport.close()
        finally:
            self.task = None
            self._used = self._loop.time()
            if self._transport.is_closing():
                self._desk.connections.discard(self)

    def _send(self, answer: Answer, data: bytes) -> None:
        """Send an answer, or leave that to the successor."""
        plain = plain_answer(answer)
        if plain is None:
            self._give_away(data + self._later, answer)
            return
        self._transport.write(plain)
        if self._later or self._untaken:
            self._give_away(self._later)

    def _give_away(self, data: bytes, answer: Answer | None = None) -> None:
        """Have this and everything to come handled by the successor."""
        self._idle.cancel()
        self._desk.connections.discard(self)
        successor = self._desk.successor(self._transport, answer)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        if self._untaken:
            successor.pause_writing()
        if data:
            successor.data_received(data)
        self._transport.resume_reading()

    def _end_if_idle(self) -> None:
        """End the connection if there was no request for long; otherwise look again when there may be none."""
        left = self._used + IDLE_SECONDS - self._loop.time()
        if left > 0 or self.task is not None:
            self._idle = self._loop.call_later(left if left > 0 else IDLE_SECONDS, self._end_if_idle)
        else:
            self.close()
