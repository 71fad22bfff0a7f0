"""A client of an API server for short commands: sequential requests, using only Python's standard library.

It is imported within a few milliseconds, while `kilauea.client.http` takes 0.2 seconds. A request blocks the event
loop; a stream does not. Proxies and certificates with another name are left to the other transport, which is imported
when needed.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from kilauea.client.access import Access, AccessError, Credentials, tls_context
from kilauea.client.transport import Answer, header_map, refusal, unreachable

if TYPE_CHECKING:
    from kilauea.client.http import HttpTransport

T = TypeVar("T")
ANSWER_SECONDS = 60.0
"""Seconds within which a server must respond."""
SILENT_SECONDS = 150.0
"""Seconds after which a silent stream is closed: servers send a bookmark every minute."""
PIECE = 256 * 1024
"""Bytes of a stream to read at a time."""
IDLE_SECONDS = 5.0
"""Seconds after which an idle connection is not reused, as the server may have closed it."""


class BlockingTransport:
    """Sends requests to one server. Used as an asynchronous context manager, which closes it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._base = access.server.rstrip("/")
        self._connection: HTTPConnection | None = None
        self._credentials = Credentials()
        self._used = 0.0
        self._other: HttpTransport | None = None

    async def __aenter__(self) -> BlockingTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request; retry with new credentials if the current ones are rejected."""
        if self._is_special():
            return await self._special().request(method, target, headers, body)
        with self._told(method, target):
            answer = self._ask(method, target, headers, body, await self._access.credentials(False))
            if answer.status == 401:
                answer = self._ask(method, target, headers, body, await self._access.credentials(True))
            return answer

    @contextmanager
    def _told(self, method: str, target: str) -> Iterator[None]:
        """Convert errors of a connection to an `ApiError`."""
        try:
            yield
        except AccessError as error:
            raise unreachable(str(error)) from error
        except TimeoutError as error:
            raise unreachable(f"{self._base}: {method} {target}: no answer in time") from error
        except (HTTPException, OSError) as error:
            words = getattr(error, "strerror", None) or str(error) or type(error).__name__  # without [Errno N]
            raise unreachable(f"{self._base}: {method} {target}: {words}") from error

    def _ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, credentials: Credentials
    ) -> Answer:
        connection = self._connected(credentials)
        answer = _complete(self._start_request(connection, method, target, headers, body, credentials))
        self._used = time.monotonic()
        return answer

    def _start_request(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        credentials: Credentials,
    ) -> HTTPResponse:
        """Send a request with its credentials, and return the start of its response."""
        sent = {**headers, **dict(self._access.impersonate)}
        if credentials.authorization:
            sent["authorization"] = credentials.authorization
        connection.request(method, urlsplit(self._base).path + target, body or None, sent)
        return connection.getresponse()

    def _connected(self, credentials: Credentials) -> HTTPConnection:
        """Return the connection; a new one for another certificate, or if the last was idle for too long."""
        stale = time.monotonic() - self._used > IDLE_SECONDS or credentials[1:] != self._credentials[1:]
        if self._connection is not None and stale:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection, self._credentials = self._opened(credentials, ANSWER_SECONDS), credentials
        return self._connection

    def _opened(self, credentials: Credentials, timeout: float) -> HTTPConnection:
        at = urlsplit(self._base)
        if at.scheme == "https":
            context = tls_context(self._access, credentials)
            return HTTPSConnection(at.hostname or "", at.port, timeout=timeout, context=context)
        return HTTPConnection(at.hostname or "", at.port, timeout=timeout)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the response as it arrives, split at line ends; over a separate connection, read in a thread."""
        if self._is_special():
            async with aclosing(self._special().stream(target, headers)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        with self._told("GET", target):
            for renew in (False, True):
                credentials = await self._access.credentials(renew)
                connection = self._opened(credentials, SILENT_SECONDS)
                async with _in_thread(connection.connect, connection.close):
                    begin = partial(self._start_request, connection, "GET", target, headers, b"", credentials)
                    async with _in_thread(begin, partial(_cut_off, connection.sock)) as response:
                        if response.status == 401 and not renew:
                            continue
                        if response.status != 200:
                            raise refusal(_complete(response))
                        async with aclosing(_whole_lines(response)) as pieces:
                            async for piece in pieces:
                                yield piece
                        return

    def _is_special(self) -> bool:
        return bool(self._access.proxy or self._access.server_name)

    def _special(self) -> HttpTransport:
        from kilauea.client.http import HttpTransport  # noqa: PLC0415  # for few commands, and takes long

        if self._other is None:
            self._other = HttpTransport(self._access)
        return self._other

    async def close(self) -> None:
        """End all connections."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._other is not None:
            await self._other.close()


def _complete(response: HTTPResponse) -> Answer:
    return Answer(response.status, header_map(response.getheaders()), response.read())


async def _whole_lines(response: HTTPResponse) -> AsyncGenerator[bytes, None]:
    """Yield pieces of a stream, each up to a line end; an incomplete last line is dropped."""
    pending = b""
    while piece := await asyncio.to_thread(response.read1, PIECE):
        whole, end, pending = (pending + piece).rpartition(b"\n")
        if end:
            yield whole + end


@asynccontextmanager
async def _in_thread(work: Callable[[], T], end: Callable[[], None]) -> AsyncIterator[T]:
    """Create a value in a thread for the duration of a block; the thread has always ended afterwards.

    Args:
        work: a blocking function; its result is closed after the block, if possible.
        end: ends the work, and the use of its result.
    """
    made = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        yield await asyncio.shield(made)
    finally:
        end()
        with suppress(Exception):
            close = getattr(await made, "close", None)
            if close is not None:
                close()
        end()  # again: the connection may exist only now


def _cut_off(sock: socket.socket) -> None:
    """Shut down a connection, also for a thread that reads from it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
