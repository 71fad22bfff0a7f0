"""Addresses as statuses of pods have them."""

from __future__ import annotations

import pytest

from kilauea.apiserver.strategies.addresses import is_address


@pytest.mark.parametrize("text", ["10.9.8.7", "0.0.0.0", "255.255.255.255", "::1", "2001:db8::ffff", "::ffff:10.9.8.7"])
def test_addresses_of_both_families_are_addresses(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.9.8",
        "10.9.8.07",
        "10.9.8.256",
        "10.9.8.7.6",
        "10.9.8.7/32",
        " 10.9.8.7",
        "10.9.8.7\0",
        "\u06610.9.8.7",
        "node",
    ],
)
def test_other_texts_are_no_addresses(text: str) -> None:
    assert not is_address(text)
