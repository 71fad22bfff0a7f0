"""Addresses of pods: one pod each, kept over restarts."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kilauea.kubelet.network.address_pool import POD_NETWORK, SERVICE_NETWORK, AddressPool, NoFreeAddress, ranges_of

SMALL = IPv4Network("127.64.0.0/29")


def test_each_pod_has_an_address_of_its_own_and_keeps_it() -> None:
    pool = AddressPool(SMALL)
    given = [pool.give(uid) for uid in ("a", "b", "a")]
    assert given == ["127.64.0.1", "127.64.0.2", "127.64.0.1"]


def test_a_released_address_is_given_again_only_after_the_others() -> None:
    pool = AddressPool(SMALL)
    pool.give("a")
    pool.release("a")
    assert [pool.give(uid) for uid in "bcdefg"] == [f"127.64.0.{number}" for number in (2, 3, 4, 5, 6, 1)]


def test_a_full_range_says_how_many_addresses_it_has() -> None:
    pool = AddressPool(SMALL)
    for uid in "abcdef":
        pool.give(uid)
    with pytest.raises(NoFreeAddress, match=r"all 6 addresses of 127\.64\.0\.0/29 are in use"):
        pool.give("g")


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("127.64.0.5", "127.64.0.5"),
        ("127.64.0.2", "127.64.0.1"),
        ("10.1.2.3", "127.64.0.1"),
        ("fd00::1", "127.64.0.1"),
        ("nonsense", "127.64.0.1"),
    ],
    ids=["free", "taken", "of another range", "of another family", "invalid"],
)
def test_a_pod_keeps_the_address_of_its_status_if_it_is_free(wanted: str, given: str) -> None:
    pool = AddressPool(SMALL)
    pool.give("other", "127.64.0.2")
    assert pool.give("a", wanted) == given


def test_a_cluster_has_the_same_ranges_after_a_restart_and_another_has_others(tmp_path: Path) -> None:
    one, two = ranges_of(tmp_path / "one"), ranges_of(tmp_path / "." / "one")
    assert one == two
    others = {ranges_of(tmp_path / str(number)) for number in range(20)}
    assert len(others) > 10
    for pods, services in others:
        assert pods.subnet_of(POD_NETWORK)
        assert services.subnet_of(SERVICE_NETWORK)
        assert (pods.num_addresses, services.num_addresses) == (8192, 4096)
