"""Warnings about a certificate and its private key, worded as by Go's `tls.X509KeyPair`."""

from __future__ import annotations

import re
from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

MOST_BLOCKS = 100
"""Maximum blocks of PEM in a text that is checked, as each is searched for its end."""
_BEGIN = re.compile(rb"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n", re.MULTILINE)
_CERTIFICATE, _KEY = "CERTIFICATE", "PRIVATE KEY"
_NONE = "tls: failed to find any PEM data in {} input"
_ONLY_OTHERS = "tls: failed to find {} in {} input after skipping PEM blocks of the following types: [{}]"
_SWITCHED = (
    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have "
    "been switched"
)


def key_pair_problem(certificate: bytes, key: bytes) -> str:
    """Return the reason why a certificate and a key cannot be used together; empty if they can.

    Args:
        certificate: the chain of a certificate in PEM; only the first is read.
        key: the private key in PEM.
    """
    if max(certificate.count(b"-----BEGIN "), key.count(b"-----BEGIN ")) > MOST_BLOCKS:
        return ""
    leaf, skipped = _first(certificate, lambda kind: kind == _CERTIFICATE)
    if leaf is None:
        if len(skipped) == 1 and skipped[0].endswith(_KEY):
            return _SWITCHED
        return _others('"CERTIFICATE" PEM block', "certificate", skipped)
    own, skipped = _first(key, lambda kind: kind == _KEY or kind.endswith(f" {_KEY}"))
    if own is None:
        if skipped == [_CERTIFICATE]:
            return "tls: found a certificate rather than a key in the PEM for the private key"
        return _others('PEM block with type ending in "PRIVATE KEY"', "key", skipped)
    try:
        public = x509.load_pem_x509_certificate(leaf).public_key()
    except UnsupportedAlgorithm:  # Go may know it
        return ""
    except Exception:  # the library raises many types of errors
        return "x509: malformed certificate"
    try:
        private = serialization.load_pem_private_key(own, None, unsafe_skip_rsa_key_validation=True)
    except UnsupportedAlgorithm:
        return ""
    except Exception:
        return "tls: failed to parse private key"
    if type(private.public_key()) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if private.public_key() == public else "tls: private key does not match public key"


def _first(text: bytes, is_wanted: Callable[[str], bool]) -> tuple[bytes | None, list[str]]:
    """Return the first block of PEM of a wanted type, if any, and the types of the blocks before it."""
    skipped: list[str] = []
    found = _BEGIN.search(text)
    while found is not None:
        at = text.find(b"\n-----END " + found[1] + b"-----", found.end() - 1)
        if at >= 0:
            kind = found[1].decode(errors="replace")
            if is_wanted(kind):
                return text[found.start() : text.find(b"-----", at + 6) + 5], skipped
            skipped.append(kind)
        found = _BEGIN.search(text, max(at, found.end()))
    return None, skipped


def _others(wanted: str, side: str, skipped: list[str]) -> str:
    return _ONLY_OTHERS.format(wanted, side, " ".join(skipped)) if skipped else _NONE.format(side)
