"""The server's certificate authority and certificate, and the token and certificate of its administrator.

They are created at the first start and kept in a folder that only its owner can read, so that clients of an earlier run
still trust the server and are authenticated. The server's certificate is issued again at each start, for its address.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import secrets
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from kilauea.apiserver.request import GROUP_MASTERS
from kilauea.pki import CLIENT, SERVER, Authority, Issued, key_pem, load_key, new_key, outlasts, pem, signed_by, subject

ADMIN, FRONT_PROXY = "kubernetes-admin", "front-proxy-client"
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ADDRESSES = ("127.0.0.1", "::1")
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{20,}\s*")
"""A bearer token (RFC 6750) that is too long to be guessed."""


class CredentialsError(Exception):
    """Credentials cannot be read; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of the server and its administrator; certificates and keys as PEM.

    The front proxy's certificate, with which this server authenticates to aggregated API servers, has a separate
    authority: its holder can act as any user, so no certificate that is issued to users may be accepted for it.
    """

    ca: bytes
    admin_certificate: bytes
    admin_key: bytes
    token: str
    account_key: bytes
    server_files: tuple[Path, Path]
    authority: Authority
    front_proxy_ca: bytes
    front_proxy_files: tuple[Path, Path]

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of the server, which accepts optional client certificates of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*map(str, self.server_files))
        context.load_verify_locations(cadata=self.ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, atomically.

    The temporary file has a random name, as others may be able to write to the folder and place a link there.
    """
    try:
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    temporary = Path(draft)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def load_credentials(folder: Path, host: str, now: datetime.datetime, service: str = "") -> Credentials:
    """Return the credentials in a folder; missing ones are created.

    Args:
        folder: the folder, created if it does not exist; only its owner gets access.
        host: the name or address that the server listens on, for its certificate.
        now: the current time, with a time zone.
        service: the address of its service, for its certificate; empty if not routed.

    Raises:
        CredentialsError: a file cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in sorted(folder.iterdir()):
        if not path.is_file() and not path.is_dir():  # a pipe would block, and a broken link must not be replaced
            raise CredentialsError(f"{path}: this is not a file: move it away")
    authority = _authority(folder, "ca", now)
    front_proxy_authority = _authority(folder, "front-proxy-ca", now)
    admin = (folder / "admin.crt", folder / "admin.key")
    if not _lasts(admin, authority.certificate, now):
        _write_pair(admin, authority.issue(subject(ADMIN, GROUP_MASTERS), (), CLIENT, now))
    server = (folder / "server.crt", folder / "server.key")
    _write_pair(server, authority.issue(subject("kilauea-apiserver"), _alternatives(host, service), SERVER, now))
    front_proxy = (folder / "front-proxy-client.crt", folder / "front-proxy-client.key")
    _write_pair(front_proxy, front_proxy_authority.issue(subject(FRONT_PROXY), (), CLIENT, now))
    account_key = _account_key(folder / "service-accounts.key")
    certificate, key = admin
    ca = pem(authority.certificate)
    token = _token(folder / "token")
    return Credentials(
        ca,
        _read(certificate),
        _read(key),
        token,
        account_key,
        server,
        authority,
        pem(front_proxy_authority.certificate),
        front_proxy,
    )


def _account_key(path: Path) -> bytes:
    """Return the key that signs tokens of service accounts."""
    if not path.exists():
        write_private(path, key_pem(new_key()))
    found = _read(path)
    advice = "remove it to get a new one, which invalidates the existing tokens"
    try:
        key = load_key(found)
    except ValueError as error:
        raise CredentialsError(f"{path}: {error}: {advice}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CredentialsError(f"{path}: it is not an elliptic curve key of P-256: {advice}")
    return found


def _token(path: Path) -> str:
    """Return the administrator's token. Reject a damaged one, as a short rest could be guessed."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    found = _read(path)
    if not _TOKEN.fullmatch(found):
        advice = "remove it to get a new one, and replace kubeconfig files of earlier runs"
        raise CredentialsError(f"{path}: it is not a token of the administrator: {advice}")
    return found.decode().strip()


def _authority(folder: Path, name: str, now: datetime.datetime) -> Authority:
    """Return the certificate authority with a name, created at the first start."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    if not certificate.exists() and not key.exists():
        created = Authority.create(f"kilauea-{name}", now)
        _write_pair((certificate, key), Issued(pem(created.certificate), key_pem(created.key)))
    try:
        return Authority.load(_read(certificate), _read(key))
    except (CredentialsError, ValueError) as error:
        advice = f"restore {certificate.name} and {key.name}, or remove the folder"
        what = f"{certificate} and {key.name}: the certificate authority cannot be read ({error})"
        raise CredentialsError(
            f"{what}: {advice} to make new credentials, and replace kubeconfig files of earlier runs"
        ) from error


def _read(path: Path) -> bytes:
    """Return the content of a file; raises CredentialsError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}: it must be a file that can be read") from error


def _write_pair(paths: tuple[Path, Path], issued: Issued) -> None:
    """Write a certificate and its key; the certificate last, so that it never lacks its key."""
    certificate, key = paths
    write_private(key, issued.key)
    write_private(certificate, issued.certificate)


def _alternatives(host: str, service: str) -> list[str]:
    """Return the names and addresses for which the server's certificate is valid."""
    return list(dict.fromkeys((*_NAMES, *_ADDRESSES, _normalised(host), *([service] if service else []))))


def _normalised(host: str) -> str:
    """Return an address in its shortest form, or a name unchanged."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _lasts(pair: tuple[Path, Path], authority: x509.Certificate, now: datetime.datetime) -> bool:
    """Return True if a certificate of the authority has its key and is valid for another month."""
    try:
        certificate, key = x509.load_pem_x509_certificate(pair[0].read_bytes()), load_key(pair[1].read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return (
        key.public_key() == certificate.public_key()
        and signed_by(certificate, authority)
        and outlasts(certificate, now)
    )
