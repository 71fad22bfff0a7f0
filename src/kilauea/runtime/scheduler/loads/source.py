"""The interface of sources of loads, their error, and requests for JSON over HTTP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import aiohttp
import msgspec

from kilauea.engine.conf import MetricsConf
from kilauea.engine.model.loads import NodeLoad

LARGEST = 64 * 1024 * 1024
"""Maximum size of a response in bytes."""
LONGEST_ERROR = 200
"""Maximum number of characters of an error in messages."""


class LoadsUnavailable(Exception):
    """A monitoring system does not return loads; the message gives the reason."""


class LoadSource(Protocol):
    """A monitoring system."""

    async def read(self, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
        """The loads of these nodes, as far as the system has them.

        Raises:
            LoadsUnavailable: it does not return valid loads.
        """
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class JsonService:
    """A service that answers with JSON.

    Args:
        conf: its address, and whether its certificate counts.
        headers: sent with every request.
    """

    def __init__(self, conf: MetricsConf, headers: Mapping[str, str] | None = None) -> None:
        self._conf = conf
        self._headers = headers
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """Send a request and return the response.

        Raises:
            LoadsUnavailable: there is none, or it is an error, too large, or not JSON.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, connector=aiohttp.TCPConnector(limit=4))
        tls = not self._conf.insecure
        try:
            async with self._session.request(
                method, self._conf.address + path, params=params, json=body, ssl=tls
            ) as response:
                data = await self._body(response)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise LoadsUnavailable(f"{self._conf.address}: {str(error) or type(error).__name__}") from error
        if response.status != 200:
            raise LoadsUnavailable(f"{self._conf.address}: status {response.status}: {_beginning(data)}")
        try:
            return msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise LoadsUnavailable(f"{self._conf.address}: the response is not JSON: {_beginning(data)}") from error

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        pieces, size = [], 0
        async for piece in response.content.iter_chunked(1 << 16):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise LoadsUnavailable(f"{self._conf.address}: the response is larger than {LARGEST >> 20} MiB")
        return b"".join(pieces)

    def malformed(self, answer: Any) -> LoadsUnavailable:
        """The error for an answer of the wrong form."""
        return LoadsUnavailable(f"{self._conf.address}: the response does not have the expected form: {_shown(answer)}")

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _beginning(data: bytes) -> str:
    return " ".join(data[:LONGEST_ERROR].decode(errors="replace").split())


def _shown(answer: Any) -> str:
    return repr(answer)[:LONGEST_ERROR]


def number_of(value: object) -> float | None:
    """A number, also as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
