"""Routes of services: at which addresses connections come in, and to which endpoints they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj, key_of

HOST = "127.0.0.1"
"""The address of node ports: programs of this machine reach them, other machines do not."""
AFFINITY_SECONDS = 10800
"""For how long a client keeps its endpoint, if the service does not say."""
_PROTOCOLS = ("TCP", "UDP")
_NONE: Mapping[str, Any] = {}


class Listen(NamedTuple):
    """A place where connections come in."""

    address: str
    port: int
    protocol: str

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.address}:{self.port}/{self.protocol}"


class Route(NamedTuple):
    """The endpoints of connections.

    Attributes:
        service: name of the service, for messages.
        targets: address and port of each endpoint that is ready.
        affinity: seconds for which a client keeps its endpoint; 0 for not at all.
    """

    service: str
    targets: Sequence[tuple[str, int]]
    affinity: int = 0


def routes_of(service: Obj, slices: Sequence[Obj]) -> Iterator[tuple[Listen, Route]]:
    """Yield the routes of a service; none for ports without endpoints, at which connections are then refused.

    Args:
        service: the service.
        slices: its endpoint slices.
    """
    spec = service.get("spec") or _NONE
    address = spec.get("clusterIP") or ""
    if address in ("", "None") or spec.get("type") == "ExternalName":
        return
    for port in spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        targets = tuple(sorted(set(_targets(slices, port.get("name") or "", protocol))))
        if not targets or protocol not in _PROTOCOLS:
            continue
        route = Route(str(key_of(service)), targets, _affinity(spec))
        yield Listen(address, port["port"], protocol), route
        if port.get("nodePort"):
            yield Listen(HOST, port["nodePort"], protocol), route


def _affinity(spec: Mapping[str, Any]) -> int:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    config = (spec.get("sessionAffinityConfig") or _NONE).get("clientIP") or _NONE
    return config.get("timeoutSeconds") or AFFINITY_SECONDS


def _targets(slices: Iterable[Obj], name: str, protocol: str) -> Iterator[tuple[str, int]]:
    """Address and number of a port at each endpoint that is ready."""
    for each in slices:
        if each.get("addressType") not in ("IPv4", "IPv6"):
            continue
        numbers = [
            port["port"]
            for port in each.get("ports") or ()
            if (port.get("name") or "") == name and port.get("protocol", "TCP") == protocol and port.get("port")
        ]
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or _NONE).get("ready", True):
                for address in endpoint.get("addresses") or ():
                    yield from ((address, number) for number in numbers)
