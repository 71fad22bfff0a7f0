"""Access to an API server: its address, its certificate authority, and credentials."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class AccessError(Exception):
    """Access is not possible; the message names the file, the field and the fix."""


class Credentials(NamedTuple):
    """Credentials of a client; unused ones are empty.

    Attributes:
        authorization: the header.
        certificate: the client certificate, as PEM.
        key: the key of the certificate, as PEM.
    """

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


CredentialSource = Callable[[bool], Awaitable[Credentials]]
"""Returns the credentials for the next request; with True, new ones, because the last were rejected."""


@dataclass(frozen=True)
class Access:
    """Access to a server.

    Attributes:
        server: `https://host:port`, optionally with a path.
        credentials: the source of the credentials.
        authority: the trusted certificates as PEM; empty for those of the system.
        authority_file: their file, which is read again for new connections; None if they do not change.
        insecure: True if any certificate is trusted.
        server_name: the required name in the certificate; empty for the host.
        proxy: the address of a proxy, or empty.
        compression: True if responses may be compressed; within one machine it only costs time.
        namespace: the default namespace.
        impersonate: headers for acting as another user.
    """

    server: str
    credentials: CredentialSource
    authority: bytes = b""
    authority_file: Path | None = None
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    compression: bool = True
    namespace: str = "default"
    impersonate: tuple[tuple[str, str], ...] = ()

    def trusted(self) -> bytes:
        """Return the currently trusted certificates; the initial ones while the file cannot be read."""
        try:
            return (self.authority_file.read_bytes() if self.authority_file else b"") or self.authority
        except OSError:
            return self.authority


def always(credentials: Credentials) -> CredentialSource:
    """Return a source of constant credentials."""

    async def source(renew: bool) -> Credentials:
        return credentials

    return source


def tls_context(access: Access, credentials: Credentials) -> ssl.SSLContext:
    """Return a client TLS context.

    Raises:
        AccessError: certificates or keys cannot be read.
    """
    try:
        context = ssl.create_default_context(cadata=access.trusted().decode() or None)
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(f"{access.server}: the certificate authority cannot be read: {error}: give PEM") from error
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Many tools create cluster authorities, and not all set every extension that the strict check requires.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if credentials.certificate:
        load_pair(context, access.server, credentials)
    return context


def load_pair(context: ssl.SSLContext, server: str, credentials: Credentials) -> None:
    """Set a client certificate; the library reads it only from a file.

    Raises:
        AccessError: certificate and key cannot be used together.
    """
    with tempfile.TemporaryDirectory(prefix="kilauea-") as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(credentials.certificate.rstrip() + b"\n" + credentials.key)
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            message = "give a certificate and its key, both as PEM, the key without a password"
            raise AccessError(f"{server}: the client's certificate cannot be used: {error}: {message}") from error


def _no_password() -> str:
    """Fail instead of prompting on the terminal."""
    raise ValueError("the key has a password")
