"""Certificates of our own: what they are good for, when they are renewed, and who is still trusted then."""

from __future__ import annotations

import datetime

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from kilauea.runtime.webhooks.credentials import Credentials, renewed

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
NAMES = ["webhooks.volcano-system.svc", "webhooks", "127.0.0.1"]


def after(days: int) -> datetime.datetime:
    """A later time."""
    return START + datetime.timedelta(days=days)


def leaf(credentials: Credentials) -> x509.Certificate:
    """The certificate of the server."""
    return x509.load_pem_x509_certificate(credentials.certificate)


def authorities(credentials: Credentials) -> list[x509.Certificate]:
    """Whom clients trust."""
    return x509.load_pem_x509_certificates(credentials.bundle)


def test_a_certificate_is_for_all_names_and_signed_by_the_authority() -> None:
    made = renewed(None, NAMES, START)
    names = leaf(made).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES[:2]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == NAMES[2:]
    leaf(made).verify_directly_issued_by(authorities(made)[0])


@pytest.mark.parametrize(
    ("days", "new_leaf", "count"), [(0, False, 1), (330, False, 1), (340, True, 1), (3300, True, 2)]
)
def test_what_lasts_is_kept_and_the_rest_is_renewed_in_time(days: int, new_leaf: bool, count: int) -> None:
    first = renewed(None, NAMES, START)
    then = renewed(first, NAMES, after(days))
    assert (then is not first) == new_leaf
    assert len(authorities(then)) == count
    assert authorities(then)[-1] == authorities(first)[0]


def test_a_certificate_for_other_names_is_made_again_by_the_same_authority() -> None:
    first = renewed(None, NAMES, START)
    then = renewed(first, ["elsewhere"], START)
    assert then.bundle == first.bundle
    assert then.certificate != first.certificate


@pytest.mark.parametrize("key_type", trustme.KeyType)
def test_a_secret_of_others_is_used_while_it_is_good_and_its_authority_is_trusted_on(key_type: trustme.KeyType) -> None:
    theirs = trustme.CA(key_type=key_type)
    issued = theirs.issue_cert(*NAMES, key_type=key_type)
    given = Credentials(theirs.cert_pem.bytes(), issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())
    now = datetime.datetime.now(datetime.UTC)
    assert renewed(given, NAMES, now) is given
    then = renewed(given, [*NAMES, "more"], now)
    assert authorities(then)[1] == authorities(given)[0]
    leaf(then).verify_directly_issued_by(authorities(then)[0])


@pytest.mark.parametrize("field", ["bundle", "certificate", "key", "authority_key"])
def test_a_broken_secret_is_no_obstacle(field: str) -> None:
    first = renewed(None, NAMES, START)
    parts = {name: getattr(first, name) for name in ("bundle", "certificate", "key", "authority_key")}
    then = renewed(Credentials(**{**parts, field: b"nonsense"}), NAMES, START)
    leaf(then).verify_directly_issued_by(authorities(then)[0])


@given(st.lists(st.integers(1, 900), min_size=1, max_size=8))
def test_at_any_time_the_server_is_trusted_by_those_who_know_the_bundle_of_before(gaps: list[int]) -> None:
    day, now = 0, renewed(None, NAMES, START)
    for gap in gaps:
        day += gap
        before, now = now, renewed(now, NAMES, after(day))
        assert leaf(now).not_valid_after_utc >= after(day + 30)
        signer = next(each for each in authorities(now) if each.subject == leaf(now).issuer)
        assert signer.not_valid_after_utc >= leaf(now).not_valid_after_utc
        still_good = authorities(before)[0].not_valid_after_utc > after(day)
        assert not still_good or authorities(before)[0] in authorities(now)
