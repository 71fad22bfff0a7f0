"""A client that calls webhooks over HTTPS and keeps connections open."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import msgspec

from kilauea.apiserver.dynamic.remote import CallError, Target
from kilauea.apiserver.http.trust import Trust
from kilauea.tcp import forget_frames

LARGEST_ANSWER = 8 * 1024 * 1024
"""Maximum bytes of a response."""
MOST_CONNECTIONS = 512
"""Connections per webhook, without a total limit: one that never responds must not block calls of others."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}


class WebhookClient:
    """Implements `Remote`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._trust = Trust()

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """Send a body and return that of the response; raises CallError."""
        shown = f'failed to call webhook: Post "{target.url}?timeout={seconds:.0f}s"'
        try:
            async with asyncio.timeout(seconds):
                return await self._post(target, body, seconds)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            forget_frames(error)
            raise CallError(_failure(error, target, shown)) from error

    async def _post(self, target: Target, body: bytes, seconds: float) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=MOST_CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True, trust_env=False)
        path = target.url.removeprefix("https://").partition("/")[2]
        host = f"[{target.host}]" if ":" in target.host else target.host
        url = f"https://{host}:{target.port}/{path}"
        async with self._session.post(
            url,
            params={"timeout": f"{seconds:.0f}s"},
            data=body,
            headers={**_HEADERS, "Host": target.url.removeprefix("https://").partition("/")[0]},
            ssl=await self._trust.context(target.authority),
            server_hostname=target.name,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            content = await _limited(answer)
            if not 200 <= answer.status < 300:
                raise CallError(f"failed to call webhook: {_words(answer.status, content)}")
            return content


def _failure(error: Exception, target: Target, shown: str) -> str:
    """Return the reason why a webhook could not be called, worded as by the real server.

    Args:
        error: the error.
        target: the webhook.
        shown: the request, as the error shows it.
    """
    if isinstance(error, TimeoutError):
        return f"{shown}: context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{shown}: tls: failed to verify certificate: x509: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"{shown}: tls: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        words = (error.os_error.strerror or str(error.os_error)).lower()
        return f"{shown}: dial tcp {target.host}:{target.port}: connect: {words}"
    if isinstance(error, ssl.SSLError):
        return f"could not get REST client: unable to load root certificates: {error.reason or error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"{shown}: EOF"
    return f"{shown}: {error}"


async def _limited(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response, up to the limit."""
    chunks, size = [], 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > LARGEST_ANSWER:
            raise CallError(f"failed to call webhook: the answer is larger than {LARGEST_ANSWER} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _words(code: int, content: bytes) -> str:
    """Return the error in a response, worded as by the real server's client."""
    try:
        given: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        given = None
    if isinstance(given, dict) and given.get("kind") == "Status" and given.get("message"):
        return str(given["message"])
    if code == 404:
        return "the server could not find the requested resource"
    text = content[:2048].decode(errors="replace").strip()
    if code >= 500:
        return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
    return f"the server responded with the status code {code} but did not return more details"
