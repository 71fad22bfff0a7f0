"""Damaged files of credentials: what can be made again is, and the rest is told with the file and a way out."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kilauea.apiserver.http.credentials import Credentials, CredentialsError, load_credentials
from kilauea.pki import key_pem, load_key, new_key, signed_by

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ENCRYPTED = new_key().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)
DAMAGES = {
    "empty": b"",
    "blank": b"\n",
    "cut": b"abcdefghijk",
    "random": bytes(range(256)),
    "of another curve": key_pem(ec.generate_private_key(ec.SECP384R1())),
    "encrypted": ENCRYPTED,
}
KEPT = ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "service-accounts.key", "token")
MADE_AGAIN = ("admin.crt", "admin.key", "front-proxy-client.crt", "front-proxy-client.key", "server.crt", "server.key")


def load(folder: Path) -> Credentials:
    return load_credentials(folder, "127.0.0.1", NOW)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_made_again_is_named_with_a_way_out(tmp_path: Path, name: str, damage: str) -> None:
    load(tmp_path)
    file = tmp_path / name
    file.write_bytes(DAMAGES[damage])
    with pytest.raises(CredentialsError, match="remove") as raised:
        load(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert name in str(raised.value)
    assert file.read_bytes() == DAMAGES[damage]


@pytest.mark.parametrize("name", KEPT)
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    load(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(CredentialsError, match=rf"{name}.*Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("name", [*KEPT, *MADE_AGAIN])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["pipe", "broken link"])
def test_what_is_not_a_file_is_named_and_neither_awaited_nor_replaced(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    load(tmp_path)
    (tmp_path / name).unlink()
    make(tmp_path / name)
    with pytest.raises(CredentialsError, match=rf"{name}: this is not a file: move it away"):
        load(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_certificates_are_issued_again(tmp_path: Path, name: str, damage: str) -> None:
    before = load(tmp_path)
    (tmp_path / name).write_bytes(DAMAGES[damage])
    found = load(tmp_path)
    certificate = x509.load_pem_x509_certificate(found.admin_certificate)
    assert load_key(found.admin_key).public_key() == certificate.public_key()
    assert (found.token, found.ca, found.account_key) == (before.token, before.ca, before.account_key)


def test_a_certificate_of_another_authority_is_issued_again(tmp_path: Path) -> None:
    others, own = tmp_path / "others", tmp_path / "own"
    load(others), load(own)
    for name in ("admin.crt", "admin.key"):
        (own / name).write_bytes((others / name).read_bytes())
    found = load(own)
    assert signed_by(x509.load_pem_x509_certificate(found.admin_certificate), found.authority.certificate)


def test_what_is_not_damaged_stays_as_it_is(tmp_path: Path) -> None:
    first, second = load(tmp_path), load(tmp_path)
    assert (first.admin_certificate, first.admin_key) == (second.admin_certificate, second.admin_key)
    assert (first.token, first.ca, first.account_key) == (second.token, second.ca, second.account_key)


def test_a_token_of_ones_own_is_taken(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-my-own_0123456789\n")
    assert load(tmp_path).token == "a-token-of-my-own_0123456789"
