"""A webhook server over HTTPS, with a certificate of its own, that answers as a test says."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trustme
from aiohttp import web

from kilauea.apiserver.http.webhook_client import WebhookClient
from support.api_core import Api
from support.ending import cancel_rest, stop_accepting

GOODBYE = 0.05
"""Seconds that a client has to answer the end of TLS, before its connection is closed."""

Review = dict[str, Any]
Responder = Callable[[Review], Any]
"""From the `request` of a review to its `response`, or an awaitable of it; the uid is filled in."""


def allow(**more: Any) -> Responder:
    """Allows everything."""
    return lambda request: {"allowed": True, **more}


def deny(message: str = "", **more: Any) -> Responder:
    """Denies everything."""
    return lambda request: {"allowed": False, **({"status": {"message": message, **more}} if message else {})}


def patching(*operations: dict[str, Any]) -> Responder:
    """Allows with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return allow(patchType="JSONPatch", patch=patch)


class WebhookServer:
    """Serves in a thread; `requests` are all that it was asked, by path."""

    def __init__(self, **responders: Responder) -> None:
        self.responders: dict[str, Responder] = dict(responders)
        self.requests: dict[str, list[Review]] = {}
        self.queries: list[str] = []
        self._authority = trustme.CA()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    @property
    def bundle(self) -> str:
        """The authority as a configuration names it."""
        return base64.b64encode(self._authority.cert_pem.bytes()).decode()

    def url(self, path: str) -> str:
        """The address of a webhook."""
        return f"https://127.0.0.1:{self.port}/{path}"

    def client(self, path: str) -> dict[str, Any]:
        """A `clientConfig`."""
        return {"url": self.url(path), "caBundle": self.bundle}

    def close(self) -> None:
        """End it."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        await stop_accepting(self._listening)
        await self._runner.cleanup()
        await asyncio.sleep(2 * GOODBYE)
        await cancel_rest()

    async def _start(self) -> int:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert("127.0.0.1", "localhost", "hooks.default.svc").configure_cert(context)
        assert self._runner.server is not None
        self._listening = await self._loop.create_server(
            self._runner.server, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=GOODBYE
        )
        return int(self._listening.sockets[0].getsockname()[1])

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        review = await request.json()
        self.requests.setdefault(path, []).append(review)
        self.queries.append(request.query_string)
        response = self.responders[path](review["request"])
        if isinstance(response, Awaitable):
            response = await response
        if isinstance(response, web.Response):
            return response
        body = {"kind": review["kind"], "apiVersion": review["apiVersion"]}
        return web.json_response({**body, "response": {"uid": review["request"]["uid"], **response}})


@contextmanager
def api_with_webhooks() -> Iterator[Api]:
    """An API in memory that calls webhooks."""
    client = WebhookClient()
    api = Api(remote=client)
    yield api
    api.run(client.close())
    api.run(asyncio.sleep(0.02))  # TLS says goodbye
    api.close()
