"""Port-forward: connections to ports of a pod, over channels or SPDY streams.

With channels (the Python client), the request names the ports, and each has one connection. With SPDY (kubectl), the
client opens two streams for each connection, one for data and one for an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from kilauea.api.container_streams import Connection
from kilauea.api.ports import ApiError
from kilauea.apiserver.request import Socket
from kilauea.apiserver.streams.channels import PORTS, Message, pack, unpack
from kilauea.apiserver.streams.spdy.connection import SpdyConnection, SpdyStream

TUNNEL = "SPDY/3.1+portforward.k8s.io"
PROTOCOLS = (TUNNEL, *PORTS)
LONGEST_REQUEST = 256
"""Maximum characters of the ID with which a client pairs two streams; kubectl uses numbers."""
Connect = Callable[[int], Awaitable[Connection]]


class Target:
    """The pod, its name in errors, and the connections to its ports."""

    def __init__(self, pod: str, uid: str, connect: Connect) -> None:
        self._pod = pod
        self._uid = uid
        self.connect = connect

    def failure(self, port: int, error: ApiError) -> bytes:
        """Return the message about a failed connection, worded as by kubelets."""
        return f"error forwarding port {port} to pod {self._pod}, uid {self._uid}: {error.message}".encode()


async def forward(socket: Socket, ports: Sequence[int], target: Target) -> None:
    """Connect a client to ports, until all connections end or the client disconnects."""
    if socket.protocol == TUNNEL:
        await _Tunnel(socket, target).run()
    else:
        await _Channels(socket, ports, target).run()


class _Channels:
    """Two channels for each port: one for data and one for an error."""

    def __init__(self, socket: Socket, ports: Sequence[int], target: Target) -> None:
        self._socket = socket
        self._ports = ports
        self._target = target
        self._connected = [asyncio.get_running_loop().create_future() for _ in ports]

    async def run(self) -> None:
        """Send the number of each port on both of its channels, then forward data."""
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        tasks = [asyncio.ensure_future(self._from_pod(number, port)) for number, port in enumerate(self._ports)]
        whole, listening = asyncio.gather(*tasks), asyncio.ensure_future(self._to_pod())
        try:
            await asyncio.wait((whole, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (whole, listening):
                task.cancel()
            await asyncio.gather(whole, listening, return_exceptions=True)

    async def _from_pod(self, number: int, port: int) -> None:
        """Connect to a port, and send its data."""
        try:
            connection = await self._target.connect(port)
        except ApiError as error:
            self._connected[number].set_result(None)
            return await self._send(2 * number + 1, self._target.failure(port, error))
        self._connected[number].set_result(connection)
        try:
            while data := await connection.read():
                await self._send(2 * number, data)
        finally:
            await connection.close()

    async def _to_pod(self) -> None:
        """Forward the client's data until it disconnects."""
        while (content := await self._socket.receive()) is not None:
            message = unpack(self._socket.protocol, content)
            if message is None or message.channel % 2 or not 0 <= message.channel < 2 * len(self._ports):
                continue
            connection = await self._connected[message.channel // 2]
            if connection is not None and message.data:
                await connection.write(message.data)

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send(pack(self._socket.protocol, Message(channel, data)))


class _Tunnel:
    """Pairs of SPDY streams."""

    def __init__(self, socket: Socket, target: Target) -> None:
        self._connection = SpdyConnection(socket, self._accept)
        self._target = target
        self._waiting: dict[tuple[str, str], SpdyStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Connect pairs of streams until the client disconnects."""
        try:
            await self._connection.run()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, stream: SpdyStream, headers: Mapping[str, str]) -> bool:
        """Accept a stream, and connect it when its other half arrives."""
        kind, port = headers.get("streamtype", ""), _port(headers.get("port", ""))
        if kind not in ("data", "error") or port is None:
            return False
        request = headers.get("requestid", "")
        if len(request) > LONGEST_REQUEST:
            return False
        if len(self._waiting) > 2 * len(self._connection.streams) + 16:  # most of them were reset
            self._waiting = {key: each for key, each in self._waiting.items() if not each.was_reset}
        same = self._waiting.get((request, kind))
        if same is not None and not same.was_reset:
            return False
        other = self._waiting.pop((request, "error" if kind == "data" else "data"), None)
        if other is None or other.was_reset:
            self._waiting[request, kind] = stream
            return True
        data, error = (stream, other) if kind == "data" else (other, stream)
        task = asyncio.ensure_future(self._forward(port, data, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        """Connect to a port, and forward data in both directions until the port's data ends or the client resets it."""
        with suppress(ConnectionError):
            try:
                connection = await self._target.connect(port)
            except ApiError as fault:
                await error.write(self._target.failure(port, fault))
                await error.end()
                return await data.reset()
            try:
                await _both_ways(data, connection)
            finally:
                await connection.close()
            await data.end()
            await error.end()


async def _both_ways(stream: SpdyStream, connection: Connection) -> None:
    """Forward data in both directions until the port's data ends or the client resets the stream."""
    there = asyncio.ensure_future(_to_port(stream, connection))
    back = asyncio.ensure_future(_from_port(stream, connection))
    try:
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        if not stream.was_reset:
            await back
    finally:
        for task in (there, back):
            task.cancel()
        await asyncio.gather(there, back, return_exceptions=True)


async def _to_port(stream: SpdyStream, connection: Connection) -> None:
    while data := await stream.read():
        await connection.write(data)
    if not stream.was_reset:
        await connection.end_input()


async def _from_port(stream: SpdyStream, connection: Connection) -> None:
    while data := await connection.read():
        await stream.write(data)


def _port(text: str) -> int | None:
    """Parse a port; return None if invalid."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65536 else None


def ports_of(values: Sequence[str]) -> list[int]:
    """Return the ports that a request names.

    Raises:
        ValueError: none is given, or one is invalid; worded as by kubelets.
    """
    if not values:
        raise ValueError('query parameter "ports" is required')
    found = []
    for value in values:
        if not value:
            raise ValueError('query parameter "ports" cannot be empty')
        for text in value.split(","):
            port = _port(text)
            if port is None:
                raise ValueError(f'unable to parse "{value}" as a port: use numbers from 1 to 65535')
            found.append(port)
    return found
