"""Streams in one SPDY connection, on the side of the server.

Flow control does not use windows: the implementation of Kubernetes neither waits for a window nor enlarges one, so a
side that waited would stall after 64 KiB. Instead, the connection slows down senders: unread data of a stream is
buffered up to a limit, then the connection is not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from kilauea.apiserver.request import Socket
from kilauea.apiserver.streams.spdy.frames import (
    CANCEL,
    GOAWAY,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    Control,
    Data,
    FrameReader,
    FrameWriter,
    Opened,
    SpdyError,
)

MOST_STREAMS = 2000
MOST_KEPT, MOST_KEPT_OF_ALL = 256 * 1024, 1024 * 1024
"""Maximum bytes buffered for readers: per stream, and for all streams of a connection."""
FRAMES_AT_ONCE = 100
"""Frames of a message to process before other requests have their turn: the smallest have eight bytes."""
LARGEST_WRITE = 32 * 1024


class SpdyStream:
    """A stream that the client has opened."""

    def __init__(self, connection: SpdyConnection, opened: Opened) -> None:
        self.id = opened.stream
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._kept = 0
        self._ended = opened.fin
        self._changed = asyncio.Condition()
        self.is_closed = False
        """True once the server's side is closed."""
        self.was_reset = False
        """True once the client has reset it."""

    async def read(self) -> bytes:
        """Return the next data of the client; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._parts) or self._ended)
            part = self._parts.popleft() if self._parts else b""
            self._kept -= len(part)
            self._connection.free(len(part))
            self._changed.notify_all()
            return part

    async def write(self, data: bytes) -> None:
        """Send data, which is dropped once the stream is closed."""
        for start in range(0, len(data), LARGEST_WRITE):
            if self.is_closed:
                return
            await self._connection.send_data(self.id, data[start : start + LARGEST_WRITE])

    async def end(self) -> None:
        """Close the server's side."""
        if not self.is_closed:
            self.is_closed = True
            await self._connection.send_data(self.id, b"", fin=True)
            self._connection.forget(self)

    async def reset(self) -> None:
        """End both directions."""
        is_new = not self.is_closed
        await self.take_end(was_reset=True)
        self.is_closed = True
        if is_new:
            await self._connection.send_reset(self.id, CANCEL)
        self._connection.forget(self)

    @property
    def has_ended(self) -> bool:
        """True once the client's side is closed."""
        return self._ended

    async def take(self, data: bytes) -> None:
        """Buffer data for the reader; wait while there is too much, in this stream or in all."""
        await self._connection.has_room()
        async with self._changed:
            await self._changed.wait_for(lambda: self._kept < MOST_KEPT or self._ended)
            if not self._ended:
                self._parts.append(data)
                self._kept += len(data)
                self._connection.keep(len(data))
                self._changed.notify_all()

    async def take_end(self, *, was_reset: bool = False) -> None:
        """Close the client's side; after a reset, also the server's."""
        async with self._changed:
            self._ended = True
            if was_reset:
                self.was_reset = self.is_closed = True
                self._parts.clear()
                self._connection.free(self._kept)
                self._kept = 0
            self._changed.notify_all()


Accept = Callable[[SpdyStream, Mapping[str, str]], bool]
"""Receives a new stream and its headers, which can be large and are not kept; returns False to reject it."""


class SpdyConnection:
    """A connection and its streams.

    Args:
        socket: transports the bytes, in messages of any size.
        accept: called with each new stream.
    """

    def __init__(self, socket: Socket, accept: Accept) -> None:
        self._socket = socket
        self._accept = accept
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._leaves = False
        self._kept = 0
        self._freed = asyncio.Event()

    @property
    def streams(self) -> Mapping[int, SpdyStream]:
        """The open streams."""
        return self._streams

    async def run(self) -> None:
        """Process frames until the client disconnects or sends something else."""
        try:
            while (content := await self._socket.receive()) is not None:
                for number, frame in enumerate(self._reader.feed(content), 1):
                    await self._take(frame)
                    if number % FRAMES_AT_ONCE == 0:
                        await asyncio.sleep(0)
                if self._leaves and not self._streams:
                    return
        except SpdyError:
            await self._socket.send(self._writer.go_away(self._last))
        finally:
            for stream in list(self._streams.values()):
                await stream.take_end(was_reset=True)

    async def has_room(self) -> None:
        """Wait while too much is buffered for the readers of all streams."""
        while self._kept >= MOST_KEPT_OF_ALL:
            self._freed.clear()
            await self._freed.wait()

    def keep(self, size: int) -> None:
        """Count bytes buffered for a reader."""
        self._kept += size

    def free(self, size: int) -> None:
        """Uncount bytes that are no longer buffered."""
        self._kept -= size
        self._freed.set()

    async def send_data(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        """Send data of a stream."""
        await self._socket.send(self._writer.data(stream, data, fin=fin))

    async def send_reset(self, stream: int, reason: int) -> None:
        """End a stream in both directions."""
        await self._socket.send(self._writer.reset(stream, reason))

    def forget(self, stream: SpdyStream) -> None:
        """Remove a stream that is closed in both directions."""
        if stream.is_closed and stream.has_ended:
            self._streams.pop(stream.id, None)

    async def _take(self, frame: Data | Opened | Control) -> None:
        if isinstance(frame, Data):
            await self._take_data(frame)
        elif isinstance(frame, Opened):
            await self._open(frame)
        elif frame.kind == PING and frame.numbers[0] % 2:  # even numbers are replies
            await self._socket.send(self._writer.ping(frame.numbers[0]))
        elif frame.kind == RST_STREAM:
            stream = self._streams.pop(frame.numbers[0], None)
            if stream is not None:
                await stream.take_end(was_reset=True)
        elif frame.kind == GOAWAY:
            self._leaves = True

    async def _take_data(self, frame: Data) -> None:
        """Process data; drop it if the stream is not open, as the client could not know yet."""
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        if frame.data:
            await stream.take(frame.data)
        if frame.fin:
            await stream.take_end()
            self.forget(stream)

    async def _open(self, opened: Opened) -> None:
        if opened.stream % 2 == 0 or opened.stream <= self._last:
            return await self.send_reset(opened.stream, PROTOCOL_ERROR)
        self._last = opened.stream
        stream = SpdyStream(self, opened)
        if self._leaves or len(self._streams) >= MOST_STREAMS or not self._accept(stream, opened.headers):
            return await self.send_reset(opened.stream, REFUSED_STREAM)
        self._streams[stream.id] = stream
        await self._socket.send(self._writer.reply(stream.id))
