"""One HTTP request over a connection to a container, and its streamed response (RFC 9112)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple

from kilauea.api.container_streams import Connection

LONGEST_HEAD = 64 * 1024
"""Maximum bytes of the status line and the headers of a response."""
CHUNKS_AT_ONCE = 100
"""Chunks after which other requests have their turn: thousands of small ones may be read at once."""
PART = 64 * 1024
"""Bytes of small chunks that are joined."""
_LONGEST_SIZE = 64
"""Bytes in which the size of a chunk is looked for."""
MOST_INTERIM = 5
"""The maximum number of responses that announce another one."""
SWITCHED = 101
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no header may have; a server that passes them on could be made to send another header."""
_WITHOUT_BODY = (204, 304)


class ExchangeError(Exception):
    """No valid HTTP response was received."""


class Answer(NamedTuple):
    """A response.

    Attributes:
        status: the status code.
        headers: lower-case names, and values, in order.
        body: the parts, decoded from chunks; ends the connection when it is exhausted or closed.
    """

    status: int
    headers: list[tuple[str, str]]
    body: AsyncGenerator[bytes, None]


class Switched(NamedTuple):
    """A connection after the server has switched protocols.

    Attributes:
        headers: lower-case names, and values, in order.
        first: bytes received after them.
    """

    headers: list[tuple[str, str]]
    first: bytes


async def exchange(
    connection: Connection,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    upgrade: str = "",
) -> Answer | Switched:
    """Send a request and return its response once the head has arrived; the connection ends with the body.

    Args:
        connection: the connection to the server.
        method: the method of the request.
        target: the path and query.
        headers: names and values, without those of the connection.
        body: the body, which may be empty.
        upgrade: a requested protocol. If the server switches to it, the connection stays open.

    Raises:
        ExchangeError: the server does not respond, or not with HTTP.
    """
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    reader = _Reader(connection)
    try:
        if any("\r" in line or "\n" in line for line in lines):
            raise ExchangeError("a header has a line break")
        about = ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
        await connection.write("\r\n".join([*lines, *about, "", ""]).encode() + body)
        for _ in range(MOST_INTERIM + 1):
            status, received = await reader.head()
            if status == SWITCHED and upgrade:
                return Switched(received, reader.left())
            if status >= 200:
                break
        else:
            raise ExchangeError("too many 1xx informational responses")
    except BaseException:
        await connection.close()
        raise
    length = None if method != "HEAD" and status not in _WITHOUT_BODY else 0
    return Answer(status, received, Body(_body(reader, connection, dict(received), length), connection))


class Body(AsyncGenerator[bytes, None]):
    """The parts of a response. The connection ends with them, even if no part was ever requested."""

    def __init__(self, parts: AsyncGenerator[bytes, None], connection: Connection) -> None:
        self._parts = parts
        self._connection = connection

    async def asend(self, value: None) -> bytes:
        """Return the next part."""
        return await anext(self._parts)

    async def athrow(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
        /,
    ) -> bytes:
        """End the response with an error."""
        await self.aclose()
        raise kind

    async def aclose(self) -> None:
        """End the response."""
        await self._parts.aclose()
        await self._connection.close()


async def _body(
    reader: _Reader, connection: Connection, headers: Mapping[str, str], length: int | None
) -> AsyncGenerator[bytes, None]:
    try:
        if length is None and "chunked" in headers.get("transfer-encoding", "").lower():
            chunks, pending = 0, bytearray()
            while size := await reader.chunk_size():
                async for part in reader.exactly(size):
                    pending += part
                    # Each part that is sent costs a hundred times as much as a chunk of a few bytes.
                    if len(pending) >= PART or not reader.has_next_chunk():
                        yield bytes(pending)
                        pending.clear()
                await reader.line()
                chunks += 1
                if chunks % CHUNKS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            if pending:
                yield bytes(pending)
            return
        text = headers.get("content-length", "")
        if length is None and text.isascii() and text.isdigit():
            length = int(text)
        async for part in reader.rest() if length is None else reader.exactly(length):
            yield part
    except ExchangeError as error:  # the client must see that the response is incomplete
        raise ConnectionResetError(str(error)) from error
    finally:
        await connection.close()


class _Reader:
    """Reads lines and parts from a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = bytearray()
        """Unconsumed bytes; a bytearray, whose beginning is removed without copying the rest."""

    def left(self) -> bytes:
        """The unconsumed bytes."""
        return bytes(self._left)

    async def line(self) -> bytes:
        """Return the next line, without its end."""
        while b"\n" not in self._left:
            if len(self._left) > LONGEST_HEAD:
                raise ExchangeError("the head of the answer is too long")
            more = await self._connection.read()
            if not more:
                raise ExchangeError("EOF")
            self._left += more
        line = self._taken(self._left.find(b"\n") + 1)
        return line[:-1].rstrip(b"\r")

    async def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Return the status code and headers."""
        first = (await self.line()).split(None, 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not re.fullmatch(rb"[1-9]\d\d", first[1]):
            raise ExchangeError("malformed HTTP response")
        headers, size = [], 0
        while line := await self.line():
            size += len(line)
            if size > LONGEST_HEAD:
                raise ExchangeError("the head of the answer is too long")
            name, colon, value = line.decode("latin-1").partition(":")
            value = value.strip()
            if not colon or not _NAME.fullmatch(name) or _CONTROL.search(value):
                raise ExchangeError("malformed HTTP response")
            headers.append((name.lower(), value))
        return int(first[1]), headers

    async def chunk_size(self) -> int:
        """Return the size of the next chunk in bytes; 0 at the end."""
        text = (await self.line()).partition(b";")[0].strip()
        try:
            size = int(text, 16) if len(text) < 16 else -1
        except ValueError:
            size = -1
        if size < 0:
            raise ExchangeError("malformed HTTP response")
        return size

    def has_next_chunk(self) -> bool:
        """Return True if the end of a chunk and the beginning of the next one have been read."""
        first = self._left.find(b"\n", 0, _LONGEST_SIZE)
        second = self._left.find(b"\n", first + 1, first + _LONGEST_SIZE)
        return 0 <= first < second < len(self._left) - 1

    async def exactly(self, count: int) -> AsyncGenerator[bytes, None]:
        """Yield this many bytes, or fewer if the connection ends."""
        while count > 0:
            if not self._left:
                more = await self._connection.read()
                if not more:
                    raise ExchangeError("unexpected EOF")
                self._left += more
            part = self._taken(min(count, len(self._left)))
            count -= len(part)
            yield part

    def _taken(self, count: int) -> bytes:
        """Consume this many bytes of those read."""
        taken = bytes(memoryview(self._left)[:count])
        del self._left[:count]
        return taken

    async def rest(self) -> AsyncGenerator[bytes, None]:
        """Yield everything until the end of the connection."""
        if self._left:
            yield self._taken(len(self._left))
        while part := await self._connection.read():
            yield part
