"""The pages by which a component is watched: `/healthz`, `/livez`, `/readyz`, `/metrics`, `/configz`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

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

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

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
        host: address to listen at; empty for all.
        port: port to listen at.
        application: the pages.

    Raises:
        OSError: it cannot listen there.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _indented(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
