"""The standard input of a container through the API: attach over a WebSocket.

The input of a container with `stdinOnce` ends with the attachment. Version 5 of the protocol can close only the input;
with version 4, the client disconnects instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from kilauea.api.ports import Key

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

    from kilauea.client.http import HttpTransport

_V4, _V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
_STDIN, _CLOSE = b"\x00", b"\xff"
"""Prefixes of messages: for input, and for the close of the channel named next."""
_HEADERS = {"user-agent": "kilauea-run"}


class Attachment:
    """The input of a running container."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket

    async def write(self, data: bytes) -> None:
        """Send input as fast as the container reads; it is dropped once the container has ended."""
        with suppress(ConnectionError):
            await self._socket.send_bytes(_STDIN + data)

    async def end(self) -> None:
        """Close the input."""
        if self._socket.protocol == _V5:
            with suppress(ConnectionError):
                await self._socket.send_bytes(_CLOSE + _STDIN)
        else:
            await self._socket.close()

    async def closed(self) -> None:
        """Wait until the container or the connection has ended."""
        async for _ in self._socket:
            pass


class ContainerInput:
    """Inputs of containers through one transport."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    @asynccontextmanager
    async def attached(self, pod: Key, container: str) -> AsyncIterator[Attachment]:
        """Attach to a running container for the duration of a block.

        Raises:
            ApiError: the container does not run, or the user may not attach to it (403).
        """
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/attach"
        query = urlencode({"container": container, "stdin": "true"})
        async with self._transport.socket(f"{path}?{query}", _HEADERS, (_V5, _V4)) as socket:
            yield Attachment(socket)
