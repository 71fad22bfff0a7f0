"""The way to an API server for short commands: one request after another, with what comes with Python.

It is there within a few milliseconds, where `kilauea.client.http` takes a fifth of a second to be imported. A request
blocks the event loop; streams, proxies and certificates of another name are left to the other transport, which is
imported when it is needed.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kilauea.client.access import Access, AccessError, Credentials, tls_context
from kilauea.client.transport import Answer, unreachable

if TYPE_CHECKING:
    from kilauea.client.http import HttpTransport

ANSWER_SECONDS = 60.0
"""Within which a server must say something."""
IDLE_SECONDS = 5.0
"""After which a connection is not used again: the server may have closed it."""


class PlainTransport:
    """Carries requests to one server. Used as an asynchronous context manager, which closes it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._base = access.server.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None
        self._credentials = Credentials()
        self._used = 0.0
        self._other: HttpTransport | None = None

    async def __aenter__(self) -> PlainTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask; with new credentials once more if those at hand are refused."""
        if self._access.proxy or self._access.server_name:
            return await self._streaming().request(method, target, headers, body)
        try:
            answer = self._ask(method, target, headers, body, await self._access.credentials(False))
            if answer.status == 401:
                answer = self._ask(method, target, headers, body, await self._access.credentials(True))
        except AccessError as error:
            raise unreachable(str(error)) from error
        except TimeoutError as error:
            raise unreachable(f"{self._base}: {method} {target}: no answer in time") from error
        except (http.client.HTTPException, OSError) as error:
            raise unreachable(f"{self._base}: {method} {target}: {str(error) or type(error).__name__}") from error
        return answer

    def _ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, credentials: Credentials
    ) -> Answer:
        sent = {**headers, **dict(self._access.impersonate)}
        if credentials.authorization:
            sent["authorization"] = credentials.authorization
        connection = self._connected(credentials)
        connection.request(method, urlsplit(self._base).path + target, body or None, sent)
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        self._used = time.monotonic()
        return answer

    def _connected(self, credentials: Credentials) -> http.client.HTTPConnection:
        """The connection; a new one for another certificate, or when the last was idle for long."""
        stale = time.monotonic() - self._used > IDLE_SECONDS or credentials[1:] != self._credentials[1:]
        if self._connection is not None and stale:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection, self._credentials = self._opened(credentials), credentials
        return self._connection

    def _opened(self, credentials: Credentials) -> http.client.HTTPConnection:
        at = urlsplit(self._base)
        if at.scheme == "https":
            context = tls_context(self._access, credentials)
            return http.client.HTTPSConnection(at.hostname or "", at.port, timeout=ANSWER_SECONDS, context=context)
        return http.client.HTTPConnection(at.hostname or "", at.port, timeout=ANSWER_SECONDS)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The answer as it comes, cut at ends of lines."""
        async with aclosing(self._streaming().stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    def _streaming(self) -> HttpTransport:
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
