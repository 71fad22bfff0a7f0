"""The API over HTTPS with aiohttp: requests in, responses and watches out."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import zlib
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, closing
from functools import partial
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError

from kilauea.api.times import SECOND, parse_duration
from kilauea.apiserver import status
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.core import ApiServer, fault_response
from kilauea.apiserver.http.tunnels import Tunnels
from kilauea.apiserver.http.upgrade import Conversations
from kilauea.apiserver.request import JSON, ApiRequest, ApiResponse, TextStream, Tunnel, Upgrade, User, WatchStream
from kilauea.apiserver.status import ApiFault, wrong_method
from kilauea.apiserver.turns import TimeSlice, Turns
from kilauea.connections import (
    REQUEST_SECONDS,
    Connections,
    Listening,
    Work,
    raise_limit,
)
from kilauea.tcp import forget_frames

LARGEST_BODY = 3 * 1024 * 1024
SMALL_BODY = 64 * 1024
"""Bytes up to which bodies are not limited in number."""
MOST_BODIES, MOST_BODIES_OF_TENANT = 128, 16
"""Maximum number of larger bodies in memory, in total and per tenant."""
LARGEST_LINE = 1024 * 1024
"""Maximum bytes of a request line; selectors can be long."""
LARGEST_HEADER, MOST_HEADERS = 32 * 1024, 128
"""Maximum bytes of a header, of which tokens are the largest; and of their number. All are kept until the last one."""
READ_BYTES = 64 * 1024
"""Size of the read buffer of an encrypted connection on asyncio's own loop, in bytes; on uvloop, it has 256 KiB."""
COMPRESSED_FROM = 128 * 1024
"""Bytes from which a response is compressed, if the client accepts that."""
PIECE, PIECE_OF_STREAM = 256 * 1024, 64 * 1024
"""Bytes to write to a connection at once; an encrypted connection keeps a buffer of that size until it is closed.

Smaller pieces make lists slower. Watches are many, and open for long.
"""
TURN = 0.01
"""Seconds of CPU time for which parts of a response are sent before other requests have their turn."""
PATIENCE = 30.0
"""Seconds after which a client that does not read a response is disconnected."""
LINGER_SECONDS = 10.0
"""Seconds for which the rest of a body is read after the response, which the client may not see otherwise."""
_TIMEOUT = re.compile("(?:^|&)timeout=([^&]*)")
_IS_PLAIN = re.compile("/[^#]*").fullmatch
"""Matches a request target in origin form: a path and a query, without server or fragment."""
_IS_REQUEST_LINE = re.compile(r"""[^']*'[!-~]+ /[!-~]* HTTP/1\.[01]'""").match
"""Matches the parser's message about a request line that is valid except for its method."""
_GZIP = 16 + zlib.MAX_WBITS
_SHARED = {"Cache-Control": "no-cache, private"}
_JSON_HEAD = web.Response(headers={**_SHARED, "Content-Type": JSON}).headers
"""The headers of most responses, in a form that aiohttp copies quickly."""


log = logging.getLogger(__name__)


def _is_ours(record: logging.LogRecord) -> bool:
    """Return True if a record is about a fault of the server, and not about a client that does not speak HTTP."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


log.addFilter(_is_ours)


class _Protocol(web.RequestHandler):
    """Responds to unknown HTTP methods with 405."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be parsed, or whose handler has failed; the connection is closed."""
        if isinstance(exc, BadHttpMethod) and _IS_REQUEST_LINE(exc.message):
            response = _plain(fault_response(wrong_method()))
            response.force_close()
            return response
        return super().handle_error(request, status, exc, message)


class _ApiConnections(Connections):
    """Connections with this protocol."""

    def __call__(self) -> _Protocol:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class Transport:
    """Serves an `ApiServer` at one address."""

    def __init__(self, api: ApiServer, authenticator: Authenticator, tls: ssl.SSLContext) -> None:
        self._api = api
        self._authenticator = authenticator
        self._tls = tls
        self._connections = _ApiConnections(
            self._answer,
            most=raise_limit(),
            access_log=None,
            lingering_time=LINGER_SECONDS,
            logger=log,
            max_line_size=LARGEST_LINE,
            max_field_size=LARGEST_HEADER,
            max_headers=MOST_HEADERS,
            auto_decompress=False,
        )
        self._conversations = Conversations()
        self._tunnels = Tunnels()
        self._bodies = Turns(MOST_BODIES, MOST_BODIES_OF_TENANT)
        self._runner = web.ServerRunner(self._connections, shutdown_timeout=2.0)
        self._listening: Listening | None = None

    async def listen(self, host: str, port: int) -> int:
        """Start listening; return the port, which the system chooses if it is 0.

        Raises:
            OSError: the address is not available.
        """
        await self._runner.setup()
        SSLProtocol.max_size = READ_BYTES  # asyncio uses 256 KiB, without an option
        self._listening = await self._connections.listen(host, port, self._tls)
        return self._listening.port

    async def close(self) -> None:
        """End all connections."""
        if self._listening is not None:
            await self._listening.close()
        await self._conversations.close()
        await self._tunnels.close()
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Process one request, with a timeout."""
        target = request.raw_path
        path, _, query = (target if _IS_PLAIN(target) else request.path_qs).partition("?")
        work = self._connections.begin(request.protocol, _seconds(query) if "timeout=" in query else REQUEST_SECONDS)
        try:
            return await self._answer_in_time(request, path, query, work)
        except asyncio.CancelledError:
            if not work.was_ended():
                raise
            return _too_late(request, work)
        finally:
            self._connections.end(request.protocol)

    async def _answer_in_time(self, request: web.BaseRequest, path: str, query: str, work: Work) -> web.StreamResponse:
        try:
            user = self._user_of(request)
            work.tenant = "" if user is None else user.tenant
            body, incoming = b"", None
            if request.body_exists:
                if user is None:  # nothing is kept for an unauthenticated client
                    raise status.unauthorized()
                if request.content.is_eof():  # a small body arrives with the head: no need to wait
                    body = _checked(request.content.read_nowait())
                else:
                    incoming = _Incoming(request, user.tenant, self._bodies)
        except ApiFault as fault:
            return _plain(fault_response(fault))
        pairs = list(request.rel_url.query.items()) if query else []
        headers: dict[str, str] = {}
        for key, value in request.headers.items():
            key = key.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        path = unquote(path) if "%" in path else path
        asked = ApiRequest(request.method, path, pairs, headers, body, user)
        if incoming is None:
            answer = await self._api.handle(asked)
        else:
            asked.incoming = incoming.read
            try:
                answer = await self._api.handle(asked)
            finally:
                incoming.end()
        flow = self._api.flow_of(asked)
        if flow is not None:
            answer.headers += flow.headers
        if isinstance(answer, Upgrade):
            work.take_time()
            return await self._conversations.hold(request, answer)
        if isinstance(answer, Tunnel):
            work.take_time()
            return await self._tunnels.hold(request, answer)
        if isinstance(answer, ApiResponse) and isinstance(answer.body, bytes) and len(answer.body) < COMPRESSED_FROM:
            return _plain(answer)
        response = work.answer = _begin(answer)
        if request.method == "HEAD":  # a body would be read as the response to the next request
            if isinstance(answer, WatchStream | TextStream):
                await answer.chunks.aclose()
            return response
        try:
            if isinstance(answer, WatchStream | TextStream):
                work.take_time()
                await _stream(request, response, answer)
            else:
                await _large(request, response, answer, partial(self._api.backend.reading_turns.pause, work.tenant))
        except ConnectionError:  # the client has disconnected
            response.force_close()
        return response

    def _user_of(self, request: web.BaseRequest) -> User | None:
        """Return the caller."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return self._authenticator.user_of(certificate, request.headers.get("Authorization", ""))


def _seconds(query: str) -> float:
    """Return the timeout of a request: its own, up to the limit; 0 means none requested."""
    found = _TIMEOUT.search(query)
    try:
        asked = parse_duration(unquote(found[1])) / SECOND if found else 0
    except ValueError:  # the request is rejected
        return REQUEST_SECONDS
    return asked if 0 < asked < REQUEST_SECONDS else REQUEST_SECONDS


def _too_late(request: web.BaseRequest, work: Work) -> web.StreamResponse:
    """Return the response to a request that has timed out; one whose head has been sent is cut off."""
    if work.answer is not None:
        if request.transport is not None:
            request.transport.abort()
        work.answer.force_close()
        return work.answer
    response = _plain(fault_response(status.timeout("request did not complete within the allotted timeout")))
    response.force_close()
    return response


class _Incoming:
    """The body of a request while it arrives.

    It is kept until it is complete and the request is answered. So the number of large bodies is limited, in total and
    per tenant, and others wait.
    """

    def __init__(self, request: web.BaseRequest, tenant: str, turns: Turns) -> None:
        self._request = request
        self._tenant = tenant
        self._turns = turns
        self._has_turn = False

    async def read(self) -> bytes:
        """Return the body; send `100 Continue` to a client that waits for it.

        Raises:
            ApiFault: the body is too large (413), or the client has disconnected (400).
        """
        size = self._request.content_length
        if (size or 0) > LARGEST_BODY:
            raise status.too_large(LARGEST_BODY)
        if size is None or size > SMALL_BODY:
            await self._turns.take(self._tenant)
            self._has_turn = True
        try:
            return await _body_of(self._request)
        except ConnectionError as error:  # the client has disconnected
            forget_frames(error)
            raise status.bad_request("the body is incomplete") from None

    def end(self) -> None:
        """Record that the body is released."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back(self._tenant)


async def _body_of(request: web.BaseRequest) -> bytes:
    """Return the body, up to the limit.

    Raises:
        ApiFault: it is larger (413).
    """
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    while size <= LARGEST_BODY:
        part = await request.content.read(LARGEST_BODY + 1 - size)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise status.too_large(LARGEST_BODY)


def _checked(body: bytes) -> bytes:
    """Return a body within the limit.

    Raises:
        ApiFault: it is larger (413).
    """
    if len(body) > LARGEST_BODY:
        raise status.too_large(LARGEST_BODY)
    return body


def _plain(answer: ApiResponse) -> web.Response:
    """Return a response of moderate size."""
    if answer.content_type == JSON:
        head: Mapping[str, str] = _JSON_HEAD
    else:
        head = {**_SHARED, "Content-Type": answer.content_type} if answer.content_type else _SHARED
    response = web.Response(body=answer.body, status=answer.status, headers=head)
    for key, value in answer.headers:
        response.headers.add(key, value)
    return response


def _begin(answer: ApiResponse | WatchStream | TextStream) -> web.StreamResponse:
    """Return the head of a streamed response."""
    response = web.StreamResponse(status=200 if isinstance(answer, WatchStream) else answer.status, headers=_SHARED)
    response.headers["Content-Type"] = answer.content_type
    for key, value in answer.headers:
        response.headers.add(key, value)
    return response


async def _large(
    request: web.BaseRequest,
    response: web.StreamResponse,
    answer: ApiResponse,
    pause: Callable[[], Awaitable[None]],
) -> None:
    """Send a large response in pieces, compressed if the client accepts that, with a pause after each turn."""
    chunks: Iterable[bytes] = [answer.body] if isinstance(answer.body, bytes) else answer.body
    packs = "gzip" in request.headers.get("Accept-Encoding", "")
    packer = zlib.compressobj(1, wbits=_GZIP) if packs else None
    if packer is not None:
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    await response.prepare(request)
    time_slice = TimeSlice(pause, TURN)
    with closing(_Writer(request, response)) as writer:
        for chunk in chunks:
            data = await asyncio.to_thread(packer.compress, chunk) if packer is not None else chunk
            if data:
                await writer.write(data)
            if time_slice.is_over(len(chunk)):
                await time_slice.renew()
        if packer is not None:
            await writer.write(packer.flush())
    await response.write_eof()


async def _stream(request: web.BaseRequest, response: web.StreamResponse, answer: WatchStream | TextStream) -> None:
    """Send a watch or a followed log until it ends or the client disconnects."""
    async with aclosing(answer.chunks) as chunks:
        await response.prepare(request)
        with closing(_Writer(request, response, PIECE_OF_STREAM)) as writer:
            async for chunk in chunks:
                await writer.write(chunk)
                del chunk  # it can be large, and the next event can be hours away
    await response.write_eof()


class _Writer:
    """Writes the parts of a response, and disconnects a client that reads nothing for too long.

    One timer is used for many writes: a timeout of each would cost as much as the write.
    """

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse, piece: int = PIECE) -> None:
        self._piece = piece
        self._request = request
        self._response = response
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        """The time when the current write began; None if there is none."""
        self._timer: asyncio.TimerHandle | None = None
        self._gave_up = False

    async def write(self, data: bytes) -> None:
        """Send some bytes. A connection keeps an encrypted copy of unsent data, so large parts are written in pieces.

        Raises:
            ConnectionError: the client has disconnected, or reads nothing.
        """
        for start in range(0, len(data), self._piece):
            self._since = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_at(self._since + PATIENCE, self._check)
            whole = len(data) <= self._piece
            await self._response.write(data if whole else data[start : start + self._piece])
            self._since = None
            if self._gave_up:
                raise ConnectionResetError("the client reads nothing")

    def close(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """Disconnect a client for which the current write has waited too long."""
        self._timer = None
        if self._since is None:
            return
        end = self._since + PATIENCE
        if self._loop.time() < end:
            self._timer = self._loop.call_at(end, self._check)
        elif self._request.transport is not None:
            self._gave_up = True
            self._request.transport.abort()
