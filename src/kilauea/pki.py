"""Certificate authorities, and the certificates that they issue. Pure: the time is an argument, and nothing is stored.

    authority = Authority.create("kilauea-ca", now)
    issued = authority.issue(subject("kilauea-apiserver"), ["localhost", "127.0.0.1"], SERVER, now)

An authority is valid for ten years and a certificate for one. Callers renew both a month before they expire.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 365
RENEW_DAYS = 30
"""Days before the end at which a certificate is renewed."""
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_EXTENDED = {"client auth": CLIENT, "server auth": SERVER}
_LONGEST_NAME = 64
"""Characters of a common name, by RFC 5280."""


class Issued(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str, now: datetime.datetime) -> Authority:
        """Return a new authority that signs itself."""
        key = new_key()
        own = subject(name)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = (
            _builder(own, own, key.public_key(), now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Authority:
        """Return the authority in two PEM texts.

        Raises:
            ValueError: they are not a certificate and its elliptic curve key.
        """
        loaded = x509.load_pem_x509_certificate(certificate)
        private = load_key(key)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not an elliptic curve key")
        if private.public_key() != loaded.public_key():
            raise ValueError("the key does not belong to the certificate")
        return cls(loaded, private)

    def issue(
        self, name: x509.Name, names: Sequence[str], usage: x509.ObjectIdentifier, now: datetime.datetime
    ) -> Issued:
        """Issue a certificate with a new key.

        Args:
            name: subject of the certificate.
            names: host names and addresses for which it is valid.
            usage: `SERVER` or `CLIENT`.
            now: the time.
        """
        key = new_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(name, self.certificate.subject, key.public_key(), now, CERTIFICATE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_alternative(host) for host in names])
            builder = builder.add_extension(alternatives, critical=False)
        return Issued(pem(builder.sign(self.key, hashes.SHA256())), key_pem(key))

    def sign(self, request: bytes, usages: Sequence[str], start: int, seconds: int) -> bytes:
        """Return a certificate for a request with a key of its own, as PEM.

        Args:
            request: as PEM; its subject and alternative names are taken over.
            usages: as CertificateSigningRequests name them; others than those of clients and servers are left out.
            start: seconds since 1970; valid from five minutes before, because clocks differ.
            seconds: for which it is valid, at most until the authority ends.

        Raises:
            ValueError: the request cannot be read.
        """
        asked = x509.load_pem_x509_csr(request)
        begins = datetime.datetime.fromtimestamp(start, datetime.UTC)
        ends = min(begins + datetime.timedelta(seconds=seconds), self.certificate.not_valid_after_utc)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            x509.CertificateBuilder(self.certificate.subject, asked.subject, asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins - datetime.timedelta(minutes=5))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
        )
        if {*usages} & {"digital signature", "key encipherment"}:  # an extension that allows nothing would forbid TLS
            builder = builder.add_extension(_key_usage(usages), critical=True)
        extended = [_EXTENDED[each] for each in usages if each in _EXTENDED]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        for extension in asked.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, critical=False)
        return pem(builder.sign(self.key, hashes.SHA256()))


def _key_usage(usages: Sequence[str]) -> x509.KeyUsage:
    signature, encipherment = "digital signature" in usages, "key encipherment" in usages
    return x509.KeyUsage(signature, False, encipherment, False, False, False, False, False, False)


def subject(common_name: str, organization: str = "") -> x509.Name:
    """Return a subject; a common name is cut at the longest length that certificates allow."""
    group = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*group, x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_LONGEST_NAME])])


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(text: bytes) -> PrivateKeyTypes:
    """Return the private key in a PEM text.

    Raises:
        ValueError: it is not a private key, or is encrypted.
    """
    try:
        return serialization.load_pem_private_key(text, None)
    except TypeError as error:
        raise ValueError(str(error)) from error


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def outlasts(certificate: x509.Certificate, now: datetime.datetime, days: int = RENEW_DAYS) -> bool:
    """True if a certificate is valid for more than some days from now."""
    return certificate.not_valid_after_utc > now + datetime.timedelta(days=days)


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """True if an authority issued a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the host names and addresses for which a certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    """Fields of every certificate; valid from one minute ago, because clocks differ."""
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
