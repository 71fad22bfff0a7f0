"""HTTP requests of probes and hooks, which follow redirects within their host, like those of kubelets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

LARGEST_ANSWER = 10 * 1024
"""Maximum bytes of the body of a response to keep, as in kubelets."""
MOST_REDIRECTS = 10
_FOLLOWED = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


class TooManyRedirects(Exception):
    """A server redirects too often."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer to a request.

    Attributes:
        status: its code.
        location: the address of a redirect; or empty.
        body: its beginning, for a redirect that is not followed; otherwise empty.
    """

    status: int
    location: str = ""
    body: str = ""


async def http_get(url: str, headers: Mapping[str, str]) -> Answer:
    """Send a request; follow redirects to the same host.

    Args:
        url: with host and port.
        headers: sent with each request; `Host` only if the redirect has no other host.

    Raises:
        OSError: there is no connection.
        asyncio.IncompleteReadError: the response is incomplete.
        ValueError: the response is not HTTP, or redirects to an invalid address.
        TooManyRedirects: there are too many redirects.
    """
    first = urlsplit(url).hostname
    for _ in range(MOST_REDIRECTS):
        answer = await _ask(url, headers)
        if answer.status not in _FOLLOWED or not answer.location:
            return answer
        url, before = urljoin(url, answer.location), urlsplit(url).netloc
        if urlsplit(url).hostname != first:
            return answer
        if urlsplit(url).netloc != before:
            headers = {**headers, "Host": urlsplit(url).netloc}
    raise TooManyRedirects(f"stopped after {MOST_REDIRECTS} redirects")


async def _ask(url: str, headers: Mapping[str, str]) -> Answer:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is not an HTTP address")
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as kubelets do
    port = parts.port or _PORTS[parts.scheme]
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        await writer.drain()
        return await _read(reader, f"{parts.hostname}:{port}")
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, server: str) -> Answer:
    """Read the response of a server; beyond its first line only for redirects."""
    try:
        words = (await reader.readuntil(b"\n")).split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError(f"the answer of {server} is not HTTP")
        status = int(words[1])
        if not 300 <= status < 400:
            return Answer(status)
        location, length = "", LARGEST_ANSWER
        while line := (await reader.readuntil(b"\n")).strip():
            name, _, value = line.decode(errors="replace").partition(":")
            if name.lower() == "location":
                location = value.strip()
            elif name.lower() == "content-length" and value.strip().isdigit():
                length = min(int(value), LARGEST_ANSWER)
    except asyncio.LimitOverrunError as error:
        raise ValueError(f"the answer of {server} has a line that is too long") from error
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        body = error.partial
    return Answer(status, location, body.decode(errors="replace"))
