"""The connection to an API server over HTTP and TLS, with aiohttp.

    async with HttpTransport(access) as transport:
        client = Client(transport, "kilauea-scheduler")

A connection is used for one request at a time; there are as many as concurrent requests.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from types import TracebackType
from urllib.parse import urlsplit

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from kilauea.api.ports import ApiError
from kilauea.client.access import Access, AccessError, Credentials, tls_context
from kilauea.client.transport import Answer, header_map, refusal, unreachable
from kilauea.tcp import forget_frames

ANSWER_SECONDS = 60.0
"""Seconds within which a request must be answered."""
SILENT_SECONDS = 150.0
"""Seconds after which a silent stream is closed: servers send a bookmark every minute."""
CONNECT_SECONDS = 10.0
PIECE = 256 * 1024
"""Bytes of a stream to read at a time."""


def _send_all(method: str) -> None:
    """Allow all requests."""


class HttpTransport:
    """Sends requests to one server. Used as an asynchronous context manager, which closes it.

    Args:
        access: the server and how to reach it.
        check: called with the method of each request right before it is sent; can raise an `ApiError` to prevent it.
    """

    def __init__(self, access: Access, check: Callable[[str], None] = _send_all) -> None:
        self._access = access
        self._check = check
        self._base = access.server.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._credentials = Credentials()
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request; retry with new credentials if the current ones are rejected."""
        answer = await self._request(method, target, headers, body, renew=False)
        if answer.status == 401:
            answer = await self._request(method, target, headers, body, renew=True)
        return answer

    async def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, renew: bool
    ) -> Answer:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
        async with self._asked(method, target, headers, body, timeout, renew) as response:
            return await _complete(response)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the response as it arrives, split at line ends."""
        async with aclosing(self.pieces(target, headers)) as pieces:
            async for piece in _whole_lines(pieces):
                yield piece

    async def pieces(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the response as it arrives: the output of a container may not contain line ends."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
        for renew in (False, True):
            async with self._asked("GET", target, headers, b"", timeout, renew) as response:
                if response.status == 401 and not renew:
                    continue
                if response.status != 200:
                    raise refusal(await _complete(response))
                while piece := await response.content.read(PIECE):
                    yield piece
                return

    @asynccontextmanager
    async def socket(
        self, target: str, headers: Mapping[str, str], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket for the duration of a block, with one of several protocols.

        Raises:
            ApiError: the server rejects it, or cannot be reached.
        """
        with self._worded("GET", target):
            credentials = await self._access.credentials(False)
            try:
                opened = await self._opened().ws_connect(
                    self._url(target),
                    headers=self._sent(headers, credentials),
                    protocols=protocols,
                    ssl=self._context(credentials),
                    server_hostname=self._access.server_name or None,
                    proxy=self._access.proxy or None,
                    max_msg_size=0,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise refusal(Answer(error.status, {}, error.message.encode())) from error
            try:
                yield opened
            finally:
                await opened.close()

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout: aiohttp.ClientTimeout,
        renew: bool,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request with its credentials, and return the start of its response."""
        with self._worded(method, target):
            credentials = await self._access.credentials(renew)
            async with self._opened().request(
                method,
                self._url(target),
                headers=self._sent(headers, credentials),
                data=body or None,
                timeout=timeout,
                ssl=self._context(credentials),
                server_hostname=self._access.server_name or None,
                proxy=self._access.proxy or None,
                allow_redirects=False,
            ) as response:
                try:
                    yield response
                finally:
                    _leave(response)

    def _sent(self, headers: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
        """Return the headers of a request, including those of the credentials."""
        sent = {**headers, **dict(self._access.impersonate)}
        if not self._access.compression:
            sent["accept-encoding"] = "identity"
        if credentials.authorization:
            sent["authorization"] = credentials.authorization
        return sent

    @contextmanager
    def _worded(self, method: str, target: str) -> Iterator[None]:
        """Convert errors of a connection to an `ApiError`."""
        try:
            yield
        except AccessError as error:
            raise unreachable(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            forget_frames(error)
            if isinstance(error, aiohttp.ClientSSLError):
                self._tls = None  # the authority may have been replaced: its file is read for the next request
            words = "no answer in time" if isinstance(error, TimeoutError) else _words(error)
            raise unreachable(f"{self._base}: {method} {target}: {words}") from error

    def _url(self, target: str) -> URL:
        url = URL(self._base + target, encoded=True)
        try:
            url.port  # noqa: B018 - the library finds an invalid one when it is first read
            return url
        except ValueError as error:
            raise AccessError(f"{self._base}: invalid address of a server: {error}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = _Connector(self._check)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _context(self, credentials: Credentials) -> ssl.SSLContext | bool:
        """Return the TLS context with the client certificate; connections with an earlier one are not reused."""
        if urlsplit(self._base).scheme != "https":
            return True
        if self._tls is None or credentials[1:] != self._credentials[1:]:
            self._tls, self._credentials = tls_context(self._access, credentials), credentials
        return self._tls

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # lets the sockets close before the loop may end


class _Connector(aiohttp.TCPConnector):
    """Connections that call `check` before a request is sent, because connecting takes time."""

    def __init__(self, check: Callable[[str], None]) -> None:
        super().__init__(limit=0, ttl_dns_cache=30)
        self._check = check

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Return a connection for a request, which is written to it at once."""
        connection = await super().connect(req, traces, timeout)
        try:
            self._check(req.method)
        except ApiError:
            connection.release()
            raise
        return connection


def _leave(response: aiohttp.ClientResponse) -> None:
    """End the connection of an incomplete response: TLS would wait for the server, beyond the end of the loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _words(error: Exception) -> str:
    """Return the message of an error, or else its name."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        # The original message repeats the address and the TLS settings.
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"certificate verify failed: {reason}"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        # The original message shows the object with the TLS settings.
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error)
    return str(error) or type(error).__name__


async def _complete(response: aiohttp.ClientResponse) -> Answer:
    return Answer(response.status, header_map(response.headers.items()), await response.read())


async def _whole_lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield pieces of a stream, each up to a line end; an incomplete last line is dropped."""
    pending: list[bytes] = []
    async for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield b"".join([*pending, piece[:end]])
            pending = []
        if end < len(piece):
            pending.append(piece[end:])
