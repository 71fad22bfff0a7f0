"""An authority of our own, and the certificate of the server that it signs. Pure: time and earlier ones come in.

The authority lives ten years and a certificate one; both are renewed a month before they would have to be. A new
authority stands beside the old one in the bundle, so that whoever still serves with the old certificate is trusted.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kilauea.apiserver.http.credentials import certificate_builder

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
RENEW_DAYS = 30
"""Before the end."""


@dataclass(frozen=True)
class Credentials:
    """What a server needs and what its clients need, all as PEM.

    Attributes:
        bundle: certificates of authorities, the newest first.
        certificate: of the server, with what lies between it and the authority.
        key: of the certificate.
        authority_key: of the newest authority; empty if it is not ours.
    """

    bundle: bytes
    certificate: bytes
    key: bytes
    authority_key: bytes = b""


def renewed(old: Credentials | None, names: Sequence[str], now: datetime.datetime) -> Credentials:
    """Credentials that are good for a month at least: the old ones if they are.

    Args:
        old: those there are; None for none.
        names: host names and addresses of the server, the most telling first.
        now: the time.
    """
    authorities = _authorities(old)
    if old is not None and authorities and _is_good(old, authorities, names, now):
        return old
    key = _authority_key(old, authorities, now)
    if old is None or key is None:
        key = ec.generate_private_key(ec.SECP256R1())
        authorities = [_authority(key, now), *(each for each in authorities if each.not_valid_after_utc > now)]
    certificate, private = _issue(names, authorities[0], key, now)
    return Credentials(
        b"".join(_pem(each) for each in authorities), _pem(certificate), _key_pem(private), _key_pem(key)
    )


def _authorities(old: Credentials | None) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(old.bundle) if old is not None else []
    except ValueError:
        return []


def _is_good(
    old: Credentials, authorities: Sequence[x509.Certificate], names: Sequence[str], now: datetime.datetime
) -> bool:
    """Whether a certificate lasts, is for these names, fits its key, and is signed by somebody in the bundle."""
    try:
        chain = x509.load_pem_x509_certificates(old.certificate)
        key = serialization.load_pem_private_key(old.key, None)
    except (ValueError, TypeError):
        return False
    leaf = chain[0]
    lasts = leaf.not_valid_after_utc > now + datetime.timedelta(days=RENEW_DAYS)
    signed = any(_signed_by(chain[-1], each) for each in authorities)
    return lasts and signed and leaf.public_key() == key.public_key() and set(names) <= set(_names_of(leaf))


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(each) for each in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def _authority_key(
    old: Credentials | None, authorities: Sequence[x509.Certificate], now: datetime.datetime
) -> ec.EllipticCurvePrivateKey | None:
    """The key of the newest authority, if it is ours and outlives a certificate that it signs now."""
    if old is None or not old.authority_key or not authorities:
        return None
    if authorities[0].not_valid_after_utc <= now + datetime.timedelta(days=CERTIFICATE_DAYS + RENEW_DAYS):
        return None
    try:
        key = serialization.load_pem_private_key(old.authority_key, None)
    except (ValueError, TypeError):
        return None
    ours = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == authorities[0].public_key()
    return key if ours and isinstance(key, ec.EllipticCurvePrivateKey) else None


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kilauea-webhooks-ca")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    return (
        certificate_builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _issue(
    names: Sequence[str], authority: x509.Certificate, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate of the server and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    # Common names end at 64 characters; nobody compares them.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    certificate = (
        certificate_builder(subject, authority.subject, private.public_key(), now, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate, private


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
