"""The certificate of the webhooks, issued and renewed by their own authority. Pure: the time is an argument.

Both are renewed a month before they expire. A new authority is added to the bundle in front of the old one, so that
servers which still use the old certificate stay trusted.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509

from kilauea.pki import (
    CERTIFICATE_DAYS,
    RENEW_DAYS,
    SERVER,
    Authority,
    key_pem,
    load_key,
    names_of,
    outlasts,
    pem,
    signed_by,
    subject,
)


@dataclass(frozen=True)
class Credentials:
    """Credentials of the server and its clients, as PEM.

    Attributes:
        bundle: certificates of authorities, the newest first.
        certificate: certificate of the server, followed by intermediate ones.
        key: key of the certificate.
        authority_key: key of the newest authority; empty if the authority is not our own.
    """

    bundle: bytes
    certificate: bytes
    key: bytes
    authority_key: bytes = b""


def renewed(old: Credentials | None, names: Sequence[str], now: datetime.datetime) -> Credentials:
    """Return credentials that are valid for at least a month: the old ones if they are.

    Args:
        old: existing credentials; None for none.
        names: host names and addresses of the server; the first becomes the common name.
        now: the time.
    """
    authorities = _authorities(old)
    if old is not None and authorities and _is_valid(old, authorities, names, now):
        return old
    authority = _own_authority(old, authorities, now)
    if authority is None:
        authority = Authority.create("kilauea-webhooks-ca", now)
        unexpired = [known for known in authorities if known.not_valid_after_utc > now]
        authorities = [authority.certificate, *unexpired]
    issued = authority.issue(subject(names[0]), names, SERVER, now)
    bundle = b"".join(map(pem, authorities))
    return Credentials(bundle, issued.certificate, issued.key, key_pem(authority.key))


def _authorities(old: Credentials | None) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(old.bundle) if old is not None else []
    except ValueError:
        return []


def _is_valid(
    old: Credentials, authorities: Sequence[x509.Certificate], names: Sequence[str], now: datetime.datetime
) -> bool:
    """True if a certificate outlasts a month, covers these names, matches its key, and has a trusted issuer."""
    try:
        chain = x509.load_pem_x509_certificates(old.certificate)
        key = load_key(old.key)
    except ValueError:
        return False
    leaf = chain[0]
    matches = leaf.public_key() == key.public_key()
    trusted = any(signed_by(chain[-1], authority) for authority in authorities)
    return outlasts(leaf, now) and trusted and matches and set(names) <= set(names_of(leaf))


def _own_authority(
    old: Credentials | None, authorities: Sequence[x509.Certificate], now: datetime.datetime
) -> Authority | None:
    """Return the newest authority, if its key is ours and it outlasts a certificate that it issues now."""
    if old is None or not old.authority_key or not authorities:
        return None
    if not outlasts(authorities[0], now, CERTIFICATE_DAYS + RENEW_DAYS):
        return None
    try:
        return Authority.load(pem(authorities[0]), old.authority_key)
    except ValueError:
        return None
