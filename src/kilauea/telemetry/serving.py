"""The pages for monitoring a component: `/healthz`, `/livez`, `/readyz`, `/metrics`, `/configz`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from kilauea.connections import REQUEST_SECONDS, Bounded

MOST_CONNECTIONS = 64
"""Connections to the pages at a time: probes and collectors of metrics need few, and the process its descriptors."""
GRACE_SECONDS = 1.0
Settings = Callable[[], Mapping[str, Any]]
"""Returns the settings of a component that are in use, without secrets."""


def pages(not_ready: Callable[[], str], registry: CollectorRegistry, settings: Settings) -> web.Application:
    """Return the pages of a component.

    Args:
        not_ready: why the component is not ready; empty if it is.
        registry: the metrics.
        settings: the settings in use.
    """

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        why = not_ready()
        return web.Response(text=f"not ready: {why}", status=503) if why else web.Response(text="ok")

    made_metrics = _Metrics(registry)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=made_metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def configz(request: web.Request) -> web.Response:
        return web.json_response(settings(), dumps=_indented)

    made = web.Application()
    by_path = {"/healthz": alive, "/livez": alive, "/readyz": ready, "/metrics": metrics, "/configz": configz}
    made.add_routes([web.get(path, page) for path, page in by_path.items()])
    return made


@asynccontextmanager
async def serve_pages(host: str, port: int, application: web.Application) -> AsyncIterator[int]:
    """Serve the pages as long as the context lasts; gives the port, which is a free one for 0.

    Args:
        host: address to listen on; empty for all.
        port: port to listen on.
        application: the pages.

    Raises:
        OSError: it cannot listen there.
    """
    async with Bounded(application, MOST_CONNECTIONS, REQUEST_SECONDS, GRACE_SECONDS) as server:
        yield await server.listen(host or None, port)


class _Metrics:
    """The text of the metrics, which is kept for nine times as long as it took: clients get a tenth of the time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._text = b""
        self._fresh_until = -math.inf

    def text(self) -> bytes:
        """Return the metrics of now, or of a moment ago if many ask."""
        if time.monotonic() >= self._fresh_until:
            start = time.thread_time()
            self._text = generate_latest(self._registry)
            self._fresh_until = time.monotonic() + 9 * (time.thread_time() - start)
        return self._text


def _indented(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
