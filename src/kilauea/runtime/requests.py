"""Requests of the engine's plugins to servers, such as scheduler extenders.

Cycles are synchronous and the HTTP client is not, so requests run in an event loop in a separate thread, which starts
with the first request. Connections are kept across cycles. Requests of one call run concurrently.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
import weakref
from collections.abc import Sequence
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kilauea.engine.extension.outside import Endpoint, Line, Reply
from kilauea.tcp import forget_frames

MOST_BYTES = 10 << 20
"""Maximum size of a response in bytes."""
AT_ONCE = 16
"""Number of concurrent requests."""
MICROSECONDS = 1_000_000
CLOSING_SECONDS = 5.0


class HttpRequests:
    """Sends requests over HTTP and TLS; its thread and connections end with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def open(self, endpoint: Endpoint) -> Line:
        """Return a line to a server."""
        return HttpLine(self, endpoint)

    def carry(self, endpoint: Endpoint, verb: str, bodies: Sequence[object], until: float, read: bool) -> list[Reply]:
        """Return the responses to requests; fails after `until`, a monotonic time."""
        with self._lock:
            if self._worker is None:
                self._worker = Worker()
                weakref.finalize(self, self._worker.close)
        return self._worker.run(endpoint, verb, bodies, until, read)


class Worker:
    """The thread with the event loop, and the connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[Endpoint, aiohttp.ClientSession] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="requests", daemon=True)
        self._thread.start()

    def run(self, endpoint: Endpoint, verb: str, bodies: Sequence[object], until: float, read: bool) -> list[Reply]:
        """Return the answers to requests."""
        work = self._carry(endpoint, verb, bodies, until, read)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Close all connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_SECONDS)
        self._loop.close()

    async def _close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        # Pending TLS messages are sent in tasks of the loop; then nothing is left of the sockets.
        await asyncio.sleep(0)

    async def _carry(
        self, endpoint: Endpoint, verb: str, bodies: Sequence[object], until: float, read: bool
    ) -> list[Reply]:
        try:
            session = self._session(endpoint)
        except (OSError, ValueError) as error:
            failed = f"failed {verb} with extender at URL {endpoint.url}: {_tls_problem(error)}"
            return [Reply(error=failed)] * len(bodies)
        gate = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(_post(session, gate, endpoint, verb, body, until, read) for body in bodies))

    def _session(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        session = self._sessions.get(endpoint)
        if session is None:
            tls = _tls_context(endpoint) if urlsplit(endpoint.url).scheme == "https" else False
            connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=tls)
            session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            self._sessions[endpoint] = session
        return session


class HttpLine:
    """A line for one session, with its remaining time."""

    def __init__(self, requests: HttpRequests, endpoint: Endpoint) -> None:
        self._requests = requests
        self._endpoint = endpoint
        self._left = endpoint.budget / MICROSECONDS

    def ask(self, verb: str, bodies: Sequence[object], *, read: bool = True) -> list[Reply]:
        """Post each body and return the answers in the same order."""
        started = time.monotonic()
        try:
            return self._requests.carry(self._endpoint, verb, bodies, started + self._left, read)
        finally:
            self._left -= time.monotonic() - started


async def _post(
    session: aiohttp.ClientSession,
    gate: asyncio.Semaphore,
    endpoint: Endpoint,
    verb: str,
    body: object,
    until: float,
    read: bool,
) -> Reply:
    """The answer to one request."""
    url = f"{endpoint.url.rstrip('/')}/{verb.lstrip('/')}"
    failed = f"failed {verb} with extender at URL {url}"
    async with gate:
        left, seconds = until - time.monotonic(), endpoint.timeout / MICROSECONDS
        if left <= 0:
            return Reply(error=f"{failed}: no time is left in this cycle")
        try:
            async with asyncio.timeout(min(seconds, left)):
                data = msgspec.json.encode(body)
                headers = {"Content-Type": "application/json"}
                async with session.post(url, data=data, headers=headers, allow_redirects=False) as answer:
                    if answer.status != 200:
                        return Reply(error=f"{failed}, code {answer.status}")
                    return await _read(answer, failed) if read else Reply()
        except TimeoutError as error:
            forget_frames(error)
            why = f"no answer within {seconds:g} s" if seconds <= left else "no time is left in this cycle"
            return Reply(error=f"{failed}: {why}")
        except (aiohttp.ClientError, OSError, ValueError, msgspec.MsgspecError) as error:
            forget_frames(error)
            return Reply(error=f"{failed}: {type(error).__name__ if not str(error) else error}")


async def _read(answer: aiohttp.ClientResponse, failed: str) -> Reply:
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > MOST_BYTES:
            return Reply(error=f"{failed}: the response is larger than {MOST_BYTES >> 20} MiB")
    try:
        return Reply(msgspec.json.decode(bytes(content)))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Reply(error=f"{failed}: the response is not JSON: {error}")


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """TLS as a client.

    Raises:
        OSError: a file cannot be read.
    """
    context = ssl.create_default_context(cafile=endpoint.authority or None)
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if endpoint.certificate:
        context.load_cert_chain(endpoint.certificate, endpoint.key or None, password=_no_password)
    return context


def _no_password() -> str:
    """Never wait at a terminal for the password of a key."""
    raise ValueError("the key has a password: use one without a password")


def _tls_problem(error: Exception) -> str:
    return f"TLS cannot be set up: {error}: use PEM files for extender.tls.caFile, certFile and keyFile"
