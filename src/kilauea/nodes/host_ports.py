"""Host ports of pods: if two pods need the same one, the kubelet rejects the later pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kilauea.api.ports import Obj

REFUSED = "NodePorts"
"""The reason of a rejected pod."""
MESSAGE = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
_ANYWHERE = ("", "0.0.0.0")


class HostPort(NamedTuple):
    """A port of a node at one of its addresses, or at all of them."""

    number: int
    protocol: str
    address: str


def host_ports(pod: Obj) -> list[HostPort]:
    """The host ports that a pod requests."""
    return list(_ports(pod))


def _ports(pod: Obj) -> Iterator[HostPort]:
    for container in pod["spec"]["containers"]:
        for each in container.get("ports") or ():
            if number := each.get("hostPort"):
                yield HostPort(number, each.get("protocol") or "TCP", each.get("hostIP") or "")


def are_taken(wanted: Sequence[HostPort], before: Sequence[Obj]) -> bool:
    """Return True if earlier pods on the node use a requested port."""
    return collide(wanted, (port for pod in before for port in _ports(pod)))


def collide(wanted: Sequence[HostPort], used: Iterable[HostPort]) -> bool:
    """Return True if a requested port is in use. Users can request thousands, so they are not compared pairwise."""
    addresses: dict[tuple[int, str], set[str]] = {}
    for port in wanted:
        addresses.setdefault((port.number, port.protocol), set()).add(port.address)
    return any(_overlaps(addresses.get((port.number, port.protocol)), port.address) for port in used)


def _overlaps(wanted: set[str] | None, used: str) -> bool:
    """Return True if a port is requested at an address where it is in use."""
    if not wanted:
        return False
    return used in _ANYWHERE or used in wanted or not wanted.isdisjoint(_ANYWHERE)
