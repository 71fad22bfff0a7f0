"""Certificates and keys in secrets: what does not fit together is warned of."""

from __future__ import annotations

import base64
import datetime
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kilauea.apiserver.strategies.core import Secrets
from kilauea.apiserver.strategies.key_pairs import MOST_BLOCKS, key_pair_problem
from kilauea.pki import Authority, key_pem, pem

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ONE, OTHER = Authority.create("one", NOW), Authority.create("other", NOW)
CERTIFICATE, KEY, OTHER_KEY = pem(ONE.certificate), key_pem(ONE.key), key_pem(OTHER.key)
RSA_KEY = key_pem(rsa.generate_private_key(65537, 2048))  # type: ignore[arg-type]
PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
BROKEN = {
    kind: f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n".encode() for kind in ("CERTIFICATE", "PRIVATE KEY")
}
SKIPPED = "input after skipping PEM blocks of the following types: [EC PARAMETERS]"
CASES = {
    "a pair": (CERTIFICATE, KEY, ""),
    "a chain": (CERTIFICATE + pem(OTHER.certificate), KEY, ""),
    "other text around": (b"a\n" + CERTIFICATE, PARAMETERS + KEY + b"b", ""),
    "the key with the certificate": (KEY + CERTIFICATE, KEY, ""),
    "another key": (CERTIFICATE, OTHER_KEY, "private key does not match public key"),
    "a key of another type": (CERTIFICATE, RSA_KEY, "private key type does not match public key type"),
    "a certificate of another type": (
        CERTIFICATE.replace(b" CERTIFICATE", b" X509 CERTIFICATE"),
        KEY,
        'failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: '
        "[X509 CERTIFICATE]",
    ),
    "no certificate": (b"x", KEY, "failed to find any PEM data in certificate input"),
    "no key": (CERTIFICATE, b"", "failed to find any PEM data in key input"),
    "a certificate without its end": (CERTIFICATE[:-30], KEY, "failed to find any PEM data in certificate input"),
    "a block that does not begin a line": (b"x" + CERTIFICATE, KEY, "failed to find any PEM data in certificate input"),
    "parameters alone": (PARAMETERS, KEY, f'failed to find "CERTIFICATE" PEM block in certificate {SKIPPED}'),
    "parameters as key": (
        CERTIFICATE,
        PARAMETERS,
        f'failed to find PEM block with type ending in "PRIVATE KEY" in key {SKIPPED}',
    ),
    "both switched": (
        KEY,
        CERTIFICATE,
        "failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have "
        "been switched",
    ),
    "two certificates": (
        CERTIFICATE,
        CERTIFICATE,
        "found a certificate rather than a key in the PEM for the private key",
    ),
    "a broken key": (CERTIFICATE, BROKEN["PRIVATE KEY"], "failed to parse private key"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pair_has_its_problem(case: str) -> None:
    certificate, key, problem = CASES[case]
    assert key_pair_problem(certificate, key) == (f"tls: {problem}" if problem else "")


def test_a_broken_certificate_is_named() -> None:
    assert key_pair_problem(BROKEN["CERTIFICATE"], KEY) == "x509: malformed certificate"


@pytest.mark.parametrize(("kind", "warnings"), [("kubernetes.io/tls", 1), ("Opaque", 0)])
def test_only_secrets_of_the_type_have_a_warning(kind: str, warnings: int) -> None:
    data = {"tls.crt": base64.b64encode(CERTIFICATE).decode(), "tls.key": base64.b64encode(OTHER_KEY).decode()}
    assert len(Secrets().warnings({"metadata": {"name": "a"}, "type": kind, "data": data})) == warnings


@pytest.mark.parametrize(
    "text",
    [
        b"-----BEGIN A-----\n" * 55_000,
        b"".join(b"-----BEGIN A%d-----\n" % number for number in range(50_000)),
        b"-----BEGIN " + b"-----" * 200_000,
        (b"-----BEGIN A-----\n" * (MOST_BLOCKS - 1)) + b"x" * 900_000,
    ],
)
def test_a_text_of_a_mebibyte_takes_little_time(text: bytes) -> None:
    start = time.process_time()
    key_pair_problem(text, text)
    assert time.process_time() - start < 1
