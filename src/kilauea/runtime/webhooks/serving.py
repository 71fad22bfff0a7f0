"""The HTTPS server of the webhooks, with its limits and its certificate."""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web

from kilauea.runtime.webhooks.credentials import Credentials

MAX_BODY = 3 * 1024 * 1024
READ_SECONDS = 30.0
"""Timeout for the body of a request, in seconds."""
CIPHERS = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"
"""Ciphers for TLS 1.2; later versions have only secure ones."""
JSON = "application/json"

Answer = Callable[[bytes], Awaitable[bytes]]
"""A function from the body of a request to the body of the answer."""
Page = Callable[[web.Request], Awaitable[web.Response]]

log = logging.getLogger(__name__)


class TooLarge(Exception):
    """A body exceeds the limit."""


class Tls:
    """The certificate of the server, which can be replaced while it serves: new connections get the new one.

    Args:
        authority: file with authorities; a client certificate must be issued by one of them.
    """

    def __init__(self, authority: Path | None = None) -> None:
        self.context = _context()
        if authority is not None:
            self.context.load_verify_locations(authority)
            self.context.verify_mode = ssl.CERT_OPTIONAL

    def use(self, credentials: Credentials) -> None:
        """Use other credentials, which have been checked."""
        _load(self.context, credentials)


def check(credentials: Credentials) -> None:
    """Check credentials.

    Raises:
        ValueError: certificate and key do not match.
    """
    try:
        _load(_context(), credentials)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"certificate and key cannot be used together: {error}") from error


def _load(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Load credentials through files, because Python reads certificates only from files."""
    with tempfile.NamedTemporaryFile(prefix="kilauea-webhooks-") as file:
        file.write(credentials.key.rstrip() + b"\n" + credentials.certificate)
        file.flush()
        context.load_cert_chain(file.name)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    return context


def application(answers: Mapping[str, Answer], not_ready: Callable[[], str]) -> web.Application:
    """The routes: one for each hook, by its path, and the health endpoints."""
    made = web.Application()
    for path, answer in answers.items():
        made.router.add_post(path, _handler(answer))
    for path in ("/healthz", "/livez"):
        made.router.add_get(path, _alive)
    made.router.add_get("/readyz", _readiness(not_ready))
    return made


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _readiness(not_ready: Callable[[], str]) -> Page:
    async def ready(_request: web.Request) -> web.Response:
        why = not_ready()
        return web.Response(text=f"not ready: {why}", status=503) if why else web.Response(text="ok")

    return ready


def _handler(answer: Answer) -> Page:
    async def handle(request: web.Request) -> web.Response:
        if request.content_type != JSON:
            # Volcano's server answers other content types with an empty 200.
            return web.Response()
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _body(request)
        except TooLarge:
            return web.Response(text="request body too large", status=413)
        try:
            return web.Response(body=await answer(body), content_type=JSON)
        except Exception:
            # The API server then applies the failure policy.
            log.exception("%s", request.path)
            return web.Response(text="internal error: check the log of the webhooks", status=500)

    return handle


async def _body(request: web.Request) -> bytes:
    """The whole body.

    Raises:
        TooLarge: it exceeds 3 MiB.
    """
    if (request.content_length or 0) > MAX_BODY:
        raise TooLarge
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge
    return bytes(body)
