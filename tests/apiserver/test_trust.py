"""TLS contexts of large bundles: made in steps, kept within bounds, and the same as those that are made at once."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from typing import Any

import pytest

from kilauea.apiserver.http import trust
from kilauea.apiserver.http.trust import AT_A_TIME, Trust, parts_of
from kilauea.pki import Authority, pem

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CERTIFICATES = [pem(Authority.create(f"a{number}", NOW).certificate).decode() for number in range(2 * AT_A_TIME + 3)]
BUNDLE = "".join(CERTIFICATES)


def subjects(context: ssl.SSLContext) -> set[Any]:
    return {each["subject"] for each in context.get_ca_certs()}


def test_a_large_bundle_is_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    async def make() -> ssl.SSLContext:
        making = asyncio.ensure_future(Trust().context(BUNDLE))
        while not making.done():
            turns.append(0)
            await asyncio.sleep(0)
        return making.result()

    context = asyncio.run(make())
    assert subjects(context) == subjects(ssl.create_default_context(cadata=BUNDLE))
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert len(turns) >= len(CERTIFICATES) / AT_A_TIME
    assert max(part.count("BEGIN") for part in parts_of(BUNDLE)) == AT_A_TIME


@pytest.mark.parametrize("text", ["", "x", *("".join(CERTIFICATES[:count]) for count in (1, AT_A_TIME, 2 * AT_A_TIME))])
@pytest.mark.parametrize("more", ["", "-----END X509 CERTIFICATE-----", "\ntext\n"])
def test_a_bundle_is_its_parts(text: str, more: str) -> None:
    parts = list(parts_of(text + more))
    assert "".join(parts) == text + more
    assert all(part.count("-----END ") <= AT_A_TIME for part in parts)
    assert all(part for part in parts) or not text + more


@pytest.mark.parametrize("others", [AT_A_TIME, 3 * AT_A_TIME])
@pytest.mark.parametrize("at", [0, AT_A_TIME, len(CERTIFICATES)])
def test_keys_between_certificates_are_skipped(others: int, at: int) -> None:
    key = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
    bundle = "".join([*CERTIFICATES[:at], *others * [key], *CERTIFICATES[at:]])
    assert subjects(asyncio.run(Trust().context(bundle))) == subjects(ssl.create_default_context(cadata=bundle))


@pytest.mark.parametrize("begin", ["", CERTIFICATES[0]])
def test_a_long_text_that_contains_no_certificate_is_one_part(begin: str) -> None:
    """Anyone may give a webhook a bundle of a megabyte: this would take hours if each character began a search."""
    text = begin + 1_000_000 * "x"
    assert list(parts_of(text)) == [text]


def test_what_cannot_be_read_is_an_error_each_time() -> None:
    async def make() -> None:
        found = Trust()
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                await found.context("x")

    asyncio.run(make())


def test_contexts_are_made_once_and_kept_by_the_size_of_their_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "LARGEST_KEPT", 3 * len(CERTIFICATES[0]))
    made: list[ssl.SSLContext] = []

    async def ask() -> None:
        found = Trust(made.append)
        together = await asyncio.gather(*(found.context(CERTIFICATES[0]) for _ in range(9)))
        assert len(set(together)) == len(made) == 1
        assert await found.context(CERTIFICATES[0], verify=False) is not together[0]
        assert made[-1].verify_mode == ssl.CERT_NONE
        for certificate in CERTIFICATES[1:5]:
            await found.context(certificate)
        assert len(made) == 6
        assert len(found._known) <= 3
        assert await found.context(CERTIFICATES[4]) is made[-1]

    asyncio.run(ask())
