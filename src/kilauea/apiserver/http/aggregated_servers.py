"""Connections to aggregated API servers: TLS with the certificate of the front proxy."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

from kilauea.api.container_streams import Connection
from kilauea.apiserver.dynamic.remote import CallError, Target
from kilauea.apiserver.http.trust import Trust
from kilauea.tcp import TcpConnection

CONNECT_SECONDS = 10.0
GOODBYE_SECONDS = 0.5
"""Timeout in seconds for a server's response to the TLS shutdown."""


class AggregatedServers:
    """Implements `Dialer`.

    Args:
        certificate: the files of the front proxy's certificate and key.
    """

    def __init__(self, certificate: tuple[Path, Path]) -> None:
        self._trust = Trust(lambda context: context.load_cert_chain(*map(str, certificate)))

    async def connect(self, target: Target, *, verify: bool) -> Connection:
        """Open a connection; raises CallError."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await TcpConnection.connect(
                    target.host,
                    target.port,
                    ssl=await self._context(target.authority, verify=verify),
                    server_hostname=target.name,
                    ssl_shutdown_timeout=GOODBYE_SECONDS,
                )
        except TimeoutError as error:
            raise CallError(f"dial tcp {target.host}:{target.port}: i/o timeout") from error
        except ssl.SSLCertVerificationError as error:
            words = "tls: failed to verify certificate: x509"
            raise CallError(f"{words}: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise CallError(f"tls: {(error.reason or str(error)).replace('_', ' ').lower()}") from error
        except (OSError, UnicodeError) as error:
            number = error.errno if isinstance(error, OSError) else None
            words = (os.strerror(number) if number and number > 0 else str(error)).lower()
            raise CallError(f"dial tcp {target.host}:{target.port}: connect: {words}") from error

    async def _context(self, authority: str, *, verify: bool) -> ssl.SSLContext:
        """Return a TLS context that trusts an authority; raises CallError if that is invalid."""
        try:
            return await self._trust.context(authority, verify=verify)
        except ssl.SSLError as error:
            raise CallError(f"unable to load root certificates: {error.reason or error}") from error
