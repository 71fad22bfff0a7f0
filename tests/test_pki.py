"""Certificate authorities, and the certificates that they issue."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509

from kilauea.pki import CLIENT, SERVER, Authority, key_pem, names_of, new_key, outlasts, pem, signed_by, subject

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def test_a_certificate_is_valid_for_its_names_and_trusted_by_its_authority_alone() -> None:
    authority, other = Authority.create("one", NOW), Authority.create("other", NOW)
    issued = authority.issue(subject("server"), ["localhost", "::1"], SERVER, NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert names_of(certificate) == ["localhost", "::1"]
    assert (signed_by(certificate, authority.certificate), signed_by(certificate, other.certificate)) == (True, False)


def test_a_certificate_of_a_client_names_its_group_and_no_host() -> None:
    issued = Authority.create("one", NOW).issue(subject("admin", "system:masters"), (), CLIENT, NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert (certificate.subject.rfc4514_string(), names_of(certificate)) == ("CN=admin,O=system:masters", [])


def test_a_common_name_is_cut_where_certificates_end_it() -> None:
    assert subject("n" * 100).rfc4514_string() == "CN=" + "n" * 64


def test_an_authority_is_loaded_as_it_was_stored() -> None:
    authority = Authority.create("one", NOW)
    loaded = Authority.load(pem(authority.certificate), key_pem(authority.key))
    issued = loaded.issue(subject("server"), ["localhost"], SERVER, NOW)
    assert signed_by(x509.load_pem_x509_certificate(issued.certificate), authority.certificate)


@pytest.mark.parametrize("key", [b"", b"no key", key_pem(new_key())], ids=["empty", "text", "of another certificate"])
def test_an_authority_with_a_wrong_key_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Authority.load(pem(Authority.create("one", NOW).certificate), key)


def test_a_certificate_outlasts_eleven_months_and_not_twelve() -> None:
    issued = Authority.create("one", NOW).issue(subject("server"), ["localhost"], SERVER, NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert outlasts(certificate, NOW + datetime.timedelta(days=330))
    assert not outlasts(certificate, NOW + datetime.timedelta(days=340))
