"""Addresses of pods: one pod each, kept over restarts."""

from __future__ import annotations

from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kilauea.kubelet.network.address_pool import (
    POD_NETWORK,
    SERVICE_NETWORK,
    AddressPool,
    NoFreeAddress,
    claimed_ranges,
    keep_ranges,
)

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


def test_a_cluster_has_the_same_ranges_after_a_restart(tmp_path: Path) -> None:
    with claimed_ranges(tmp_path / "one") as ranges:
        keep_ranges(tmp_path / "one", ranges)
    with claimed_ranges(tmp_path / "." / "one") as again, claimed_ranges(tmp_path / "one") as at_the_same_time:
        assert again == at_the_same_time == ranges


def test_clusters_that_run_at_the_same_time_share_no_address(tmp_path: Path) -> None:
    with ExitStack() as running:
        found = [running.enter_context(claimed_ranges(tmp_path / str(number))) for number in range(60)]
    assert len(set(found)) == len(found)
    for pods, services in found:
        assert pods.subnet_of(POD_NETWORK)
        assert services.subnet_of(SERVICE_NETWORK)
        assert (pods.num_addresses, services.num_addresses) == (8192, 4096)


def test_a_file_that_names_no_range_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "kubelet" / "network"
    file.parent.mkdir()
    for text in ("", "nonsense", "10.0.0.0/19"):
        file.write_text(text)
        with claimed_ranges(tmp_path) as ranges:
            assert ranges.pods.subnet_of(POD_NETWORK)
