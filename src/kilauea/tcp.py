"""TCP connections that this process opens, with or without TLS: to an API server, or to a port of a container."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

LARGEST_READ = 64 * 1024


class TcpConnection:
    """Implements `Connection` of `api/container_streams.py`; made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, host: str, port: int, **options: Any) -> TcpConnection:
        """Open a connection, with options of `asyncio.open_connection`; raises OSError and UnicodeError."""
        return cls(*await asyncio.open_connection(host, port, limit=LARGEST_READ, **options))

    async def read(self) -> bytes:
        """Return what has arrived next, at most 64 KiB; nothing when no more comes."""
        try:
            return await self._reader.read(LARGEST_READ)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send some bytes; they are dropped once the other side has gone."""
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def end_input(self) -> None:
        """Say that no more is sent."""
        if self._writer.can_write_eof():
            with suppress(OSError):
                self._writer.write_eof()

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


def forget_frames(error: BaseException) -> None:
    """Drop the frames of an error of a connection, and of the errors that led to it.

    Frames of asyncio and of libraries refer to such errors, and with them keep all that a request sent, until garbage
    collection, which is seldom in a server with many objects.
    """
    following: BaseException | None = error
    while following is not None:
        following.__traceback__ = None
        following = following.__cause__ or following.__context__
