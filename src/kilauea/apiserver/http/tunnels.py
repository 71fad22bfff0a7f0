"""Tunnels: after a container has accepted an upgrade, bytes are forwarded in both directions.

If one side does not read, the other waits, and about 100 KiB are buffered in each direction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from aiohttp import web
from aiohttp.streams import StreamReader

from kilauea.apiserver.request import Tunnel

_KEPT = 64 * 1024


class _FromClient:
    """Bytes from a client, in place of aiohttp's WebSocket parser."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._stream = StreamReader(request.protocol, _KEPT, loop=asyncio.get_running_loop())
        self.read = self._stream.readany

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._stream.feed_eof()


class _Opened(web.StreamResponse):
    """The response of a tunnel, which has been sent, and with which its connection ends."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send nothing more."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing more."""


class Tunnels:
    """The tunnels of a server."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(self, request: web.BaseRequest, answer: Tunnel) -> web.StreamResponse:
        """Send the container's response to the client, and forward bytes until one of them ends."""
        tasks: list[asyncio.Task[None]] = []
        try:
            heard = _FromClient(request)
            request.protocol.set_parser(cast("Any", heard))
            lines = [f"{name}: {value}" for name, value in (*answer.head, *answer.headers)]
            head = "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode("latin-1")
            await request.writer.write(head + answer.first)
            tasks = [self._begin(_inwards(heard, answer)), self._begin(_outwards(request, answer))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except ConnectionError:  # the client has disconnected
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await answer.connection.close()
            answer.end()
        response = _Opened(status=101)
        response.force_close()
        return response

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all tunnels."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _inwards(heard: _FromClient, answer: Tunnel) -> None:
    while part := await heard.read():
        await answer.connection.write(part)


async def _outwards(request: web.BaseRequest, answer: Tunnel) -> None:
    while part := await answer.connection.read():
        await request.writer.write(part)
        await request.writer.drain()
