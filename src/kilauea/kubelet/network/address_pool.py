"""Loopback addresses for pods and services. On Linux, the interface `lo` has all of 127.0.0.0/8 without any setup."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path
from typing import NamedTuple

POD_NETWORK, SERVICE_NETWORK = IPv4Network("127.64.0.0/11"), IPv4Network("127.96.0.0/12")
"""Addresses of all clusters on a machine; 127.0.0.0/10 is left to everything else."""
_CLUSTER_BITS = 8
"""A cluster has one of 256 parts of both networks: 8192 addresses for pods and 4096 for services."""
_KEPT = Path("kubelet", "network")
"""File in the folder of a cluster with the addresses of its pods."""


class NetworkRanges(NamedTuple):
    """The addresses of one cluster.

    Attributes:
        pods: of its pods.
        services: of its services; the first is that of the API server.
    """

    pods: IPv4Network
    services: IPv4Network


@contextmanager
def claimed_ranges(folder: Path) -> Iterator[NetworkRanges]:
    """Yield the addresses of the cluster in a folder, which no other running cluster on this machine uses meanwhile.

    They are the same after a restart, if `keep_ranges` has written them to the folder: pods from before still use them.
    Only if another cluster has claimed them meanwhile, both use the same.
    """
    kept = _kept(folder)
    first = sha256(str(folder.resolve()).encode()).digest()[0] if kept is None else kept
    candidates = [(first + step) % (1 << _CLUSTER_BITS) for step in range(1 << _CLUSTER_BITS)]
    with ExitStack() as held:
        part = next((each for each in candidates[: 1 if kept is not None else None] if _claim(each, held)), first)
        yield NetworkRanges(_part(POD_NETWORK, part), _part(SERVICE_NETWORK, part))


def keep_ranges(folder: Path, ranges: NetworkRanges) -> None:
    """Record the addresses of the cluster in a folder."""
    file = folder / _KEPT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{ranges.pods}\n")


def _kept(folder: Path) -> int | None:
    """The number of the previous part of the cluster in a folder; None for a new one."""
    try:
        network = IPv4Network((folder / _KEPT).read_text().strip())
    except (OSError, ValueError):
        return None
    first = int(POD_NETWORK.network_address)
    number = (int(network.network_address) - first) >> (32 - POD_NETWORK.prefixlen - _CLUSTER_BITS)
    return number if 0 <= number < 1 << _CLUSTER_BITS else None


def _claim(part: int, held: ExitStack) -> bool:
    """Return True if no other process has claimed a part, which is then claimed for the length of a block.

    A claim is a name that Linux keeps as long as the process runs, for each network namespace, as the addresses are.
    """
    claim = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        claim.bind(f"\0kilauea-network-{part}")
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True


def _part(network: IPv4Network, number: int) -> IPv4Network:
    length = network.prefixlen + _CLUSTER_BITS
    return IPv4Network((int(network.network_address) + (number << 32 - length), length))


class NoFreeAddress(Exception):
    """All addresses of a range are in use."""


class AddressPool:
    """Assigns a unique address to each pod.

    Free addresses are assigned in turn, so that a released one is not reused soon: clients may still use it.
    """

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        self._first = int(network.network_address) + 1
        self._size = network.num_addresses - 2
        self._next = 0
        self._holders: dict[str, str] = {}
        """The uid of the pod that has an address."""
        self._addresses: dict[str, str] = {}
        """The address of a pod, by its uid."""

    @property
    def held(self) -> Mapping[str, str]:
        """The address of each pod, by its uid."""
        return self._addresses

    def give(self, uid: str, wanted: str = "") -> str:
        """Return the address of a pod, the same one each time.

        Args:
            uid: of the pod.
            wanted: the address in its status; assigned if it is in this range and free.

        Raises:
            NoFreeAddress: all are in use.
        """
        address = self._addresses.get(uid)
        if address is None:
            address = wanted if self._is_free(wanted) else self._any()
            self._addresses[uid] = address
            self._holders[address] = uid
        return address

    def release(self, uid: str) -> None:
        """Release the address of a pod; no error if it has none."""
        address = self._addresses.pop(uid, None)
        if address is not None:
            del self._holders[address]

    def _is_free(self, text: str) -> bool:
        try:
            return text not in self._holders and IPv4Address(text) in self._network
        except AddressValueError:
            return False

    def _any(self) -> str:
        for _ in range(self._size):
            address = str(IPv4Address(self._first + self._next))
            self._next = (self._next + 1) % self._size
            if address not in self._holders:
                return address
        raise NoFreeAddress(f"all {self._size} addresses of {self._network} are in use: delete pods that have ended")
