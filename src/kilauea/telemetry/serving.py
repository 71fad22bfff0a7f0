"""The pages by which a component is watched: `/healthz`, `/livez`, `/readyz`, `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


@asynccontextmanager
async def serve_pages(
    host: str, port: int, not_ready: Callable[[], str], registry: CollectorRegistry
) -> AsyncIterator[int]:
    """Serve the pages as long as the context lasts; gives the port, which is a free one for 0.

    Args:
        host: address to listen at; empty for all.
        port: port to listen at.
        not_ready: why the component is not ready; empty if it is.
        registry: the metrics.

    Raises:
        OSError: it cannot listen there.
    """

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        why = not_ready()
        return web.Response(text=f"not ready: {why}", status=503) if why else web.Response(text="ok")

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    pages = {"/healthz": alive, "/livez": alive, "/readyz": ready, "/metrics": metrics}
    app.add_routes([web.get(path, page) for path, page in pages.items()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
