"""The server's own certificate authority, its certificate, and the token and certificate of its one administrator.

Made at the first start and kept in a folder that only its owner can read, so that clients of an earlier run still know
the server and are known to it. The server's certificate is issued again at each start, for the address of that start.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kilauea.apiserver.request import GROUP_MASTERS

ADMIN = "kubernetes-admin"
CA_DAYS, LEAF_DAYS = 3650, 365
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ADDRESSES = ("127.0.0.1", "::1")


class CredentialsError(Exception):
    """Credentials that cannot be read; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of the server and its administrator; certificates and keys as PEM."""

    ca: bytes
    admin_certificate: bytes
    admin_key: bytes
    token: str
    account_key: bytes
    server_files: tuple[Path, Path]

    def server_context(self) -> ssl.SSLContext:
        """TLS of the server: its certificate, and certificates of clients if they have one of our authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*map(str, self.server_files))
        context.load_verify_locations(cadata=self.ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def load_credentials(folder: Path, host: str, now: datetime.datetime) -> Credentials:
    """The credentials in a folder, made where they are missing.

    Args:
        folder: is made if it is not there; only its owner gets access.
        host: name or address that the server listens at, for its certificate.
        now: with a time zone.

    Raises:
        CredentialsError: what is there cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca, ca_key = _authority(folder, now)
    admin = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, GROUP_MASTERS), x509.NameAttribute(NameOID.COMMON_NAME, ADMIN)]
    )
    certificate, key = folder / "admin.crt", folder / "admin.key"
    if not (certificate.exists() and key.exists() and _lasts(certificate, now)):
        _issue(certificate, key, admin, ca, ca_key, now, ExtendedKeyUsageOID.CLIENT_AUTH, [])
    server = (folder / "server.crt", folder / "server.key")
    common_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kilauea-apiserver")])
    _issue(*server, common_name, ca, ca_key, now, ExtendedKeyUsageOID.SERVER_AUTH, _alternatives(host))
    account_key = _account_key(folder / "service-accounts.key")
    return Credentials(
        _pem(ca), certificate.read_bytes(), key.read_bytes(), _token(folder / "token"), account_key, server
    )


def _account_key(path: Path) -> bytes:
    """The key that signs tokens of service accounts."""
    if not path.exists():
        write_private(path, _private_pem(ec.generate_private_key(ec.SECP256R1())))
    return path.read_bytes()


def _token(path: Path) -> str:
    """The administrator's token."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def _authority(folder: Path, now: datetime.datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The certificate authority and its key."""
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if not certificate.exists() and not key.exists():
        _make_authority(certificate, key, now)
    try:
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        ca = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        message = "remove the folder to make new credentials, and replace kubeconfig files of earlier runs"
        raise CredentialsError(f"{folder}: the certificate authority cannot be read ({error}): {message}") from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise CredentialsError(f"{key}: is not an elliptic curve key: delete {folder} to make new credentials")
    return ca, loaded


def _make_authority(certificate: Path, key: Path, now: datetime.datetime) -> None:
    """A new certificate authority; the certificate is written last."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kilauea-ca")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        certificate_builder(name, name, private.public_key(), now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    write_private(key, _private_pem(private))
    write_private(certificate, _pem(builder.sign(private, hashes.SHA256())))


def _issue(
    certificate: Path,
    key: Path,
    subject: x509.Name,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    usage: x509.ObjectIdentifier,
    alternatives: list[x509.GeneralName],
) -> None:
    """A certificate of our authority, with a key of its own."""
    private = ec.generate_private_key(ec.SECP256R1())
    builder = (
        certificate_builder(subject, ca.subject, private.public_key(), now, LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    write_private(key, _private_pem(private))
    write_private(certificate, _pem(builder.sign(ca_key, hashes.SHA256())))


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    """Return a builder with the fields of all certificates; valid from a minute ago, as clocks differ."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _alternatives(host: str) -> list[x509.GeneralName]:
    """Names and addresses that the server's certificate is good for."""
    names, addresses = dict.fromkeys(_NAMES), dict.fromkeys(_ADDRESSES)
    try:
        addresses[str(ipaddress.ip_address(host))] = None
    except ValueError:
        names[host] = None
    return [
        *(x509.DNSName(name) for name in names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
    ]


def _lasts(certificate: Path, now: datetime.datetime) -> bool:
    """Return True if a certificate is valid for another month."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        return False
    return loaded.not_valid_after_utc > now + datetime.timedelta(days=30)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
