"""A proxy between a process and an API server, which loses, delays and refuses requests, or cuts the process off.

with running_proxy(server) as proxy:
    proxy.kubeconfig(path)      # for the process
    proxy.cut()                 # nothing passes, and nothing is answered
    proxy.heal()
    proxy.rate = 0.1            # a tenth of the requests goes wrong

It takes requests without TLS, so that it can read them, and sends them on with the credentials that they have.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import aiohttp
from aiohttp import web

from cluster.api_process import Endpoint

READS = ("GET", "HEAD")
REFUSALS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
FAULTS = ("refused", "late", "lost", "unanswered", "outdated")
OWN = frozenset(("host", "connection", "transfer-encoding", "content-length"))
"""Headers that belong to one connection."""
QUIET = logging.getLogger("faulty proxy")
QUIET.disabled = True


class FaultyProxy:
    """The proxy.

    Attributes:
        url: its address.
        rate: the part of requests that goes wrong.
        writes: requests that change something else than leases and were sent on, in order.
        traces: path and `traceparent` of the requests that have one.
        seen: what went wrong.
    """

    def __init__(self, server: Endpoint, seed: int = 1) -> None:
        self._server = server
        self._rng = Random(seed)
        self._open = asyncio.Event()
        self._open.set()
        self._running: set[asyncio.Task[None]] = set()
        self.url = ""
        self.rate = 0.0
        self.writes: list[str] = []
        self.traces: list[tuple[str, str]] = []
        self.seen: set[str] = set()

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig of the administrator that leads through the proxy."""
        document = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": self._server.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(document))
        return path

    def cut(self) -> None:
        """Let nothing through; what is under way is not answered any more."""
        self.loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Let requests through again; those that waited are lost."""
        self.loop.call_soon_threadsafe(self._open.set)

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Serve until told to stop."""
        self.loop = asyncio.get_running_loop()
        trust = ssl.create_default_context(cafile=str(self._server.authority))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            app = web.Application(client_max_size=1 << 26)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, logger=QUIET, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            started.set()
            await stop.wait()
            await runner.cleanup()
        await asyncio.sleep(0.2)  # lets the sockets of requests under way close before the loop ends

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = self._rng.choice(FAULTS) if self._rng.random() < self.rate else ""
        await self._pass(request)
        self.seen |= {fault} - {""}
        if fault == "refused":
            return _status(self._rng.choice(list(REFUSALS)))
        if fault == "lost":
            _drop(request)
        if fault == "outdated":
            return _status(410 if request.method in READS else 409)
        if fault == "late":
            await asyncio.sleep(1.5)
        return await self._forward(request, body, fault)

    async def _pass(self, request: web.Request) -> None:
        """Wait while the process is cut off; a request that had to wait is lost."""
        if not self._open.is_set():
            await self._open.wait()
            _drop(request)

    async def _forward(self, request: web.Request, body: bytes, fault: str) -> web.StreamResponse:
        """Send a request on, and its answer back piece by piece."""
        if request.method not in READS and "/leases" not in request.path:
            self.writes.append(f"{request.method} {request.path}")
        if "traceparent" in request.headers:
            self.traces.append((request.path, request.headers["traceparent"]))
        try:
            url = self._server.url + request.path_qs
            async with self._session.request(request.method, url, headers=_kept(request.headers), data=body) as answer:
                await self._pass(request)
                if fault == "unanswered":
                    _drop(request)
                response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await self._pass(request)
                    await response.write(piece)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, OSError):
            _drop(request)
            raise


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that go on."""
    return {name: value for name, value in headers.items() if name.lower() not in OWN}


def _drop(request: web.Request) -> None:
    """Close the connection without an answer.

    Raises:
        ConnectionResetError: always; it ends the request.
    """
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


def _status(code: int) -> web.Response:
    """A refusal as an API server writes it."""
    reasons = {409: "Conflict", 410: "Expired", **REFUSALS}
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reasons[code]}
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response({**status, "message": "the proxy says no"}, status=code, headers=headers)


@contextmanager
def running_proxy(server: Endpoint, seed: int = 1) -> Iterator[FaultyProxy]:
    """A proxy in a thread for the length of a block."""
    started, stops = threading.Event(), []
    proxies = []

    async def main() -> None:
        stop = asyncio.Event()
        stops.append(stop)
        proxies.append(FaultyProxy(server, seed))
        await proxies[0].serve(started, stop)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(30), "the proxy does not start"
    try:
        yield proxies[0]
    finally:
        proxies[0].loop.call_soon_threadsafe(stops[0].set)
        thread.join(30)
