"""Routes of services: the addresses that accept connections, and the endpoints to which they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj, key_of

HOST = "127.0.0.1"
"""The address of node ports: reachable for programs on this machine, not for other machines."""
AFFINITY_SECONDS = 10800
"""Default seconds for which a client keeps its endpoint."""
PROXY_NAME = "service.kubernetes.io/service-proxy-name"
"""Label of services that are served by the proxy of that name, instead of the cluster's own."""
HEADLESS = "service.kubernetes.io/headless"
"""Label of endpoint slices that proxies ignore."""
_PROTOCOLS = ("TCP", "UDP")
_NONE: Mapping[str, Any] = {}


class Listen(NamedTuple):
    """An address and port that accept connections."""

    address: str
    port: int
    protocol: str

    def __str__(self) -> str:
        """The name in messages."""
        return f"{self.address}:{self.port}/{self.protocol}"


class Route(NamedTuple):
    """The endpoints of connections.

    Attributes:
        service: name of the service, for messages.
        targets: address and port of each endpoint that is ready.
        affinity: seconds for which a client keeps its endpoint; 0 for no affinity.
    """

    service: str
    targets: Sequence[tuple[str, int]]
    affinity: int = 0


def routes_of(service: Obj, slices: Sequence[Obj]) -> Iterator[tuple[Listen, Route]]:
    """Yield the routes of a service; none for ports without endpoints, which refuse connections.

    As long as no endpoint of a port is ready, terminating ones that still serve get its connections.

    Args:
        service: the service.
        slices: its endpoint slices.
    """
    spec = service.get("spec") or _NONE
    address = spec.get("clusterIP") or ""
    if address in ("", "None") or spec.get("type") == "ExternalName" or PROXY_NAME in _labels(service):
        return
    proxied = [each for each in slices if HEADLESS not in _labels(each)]
    for port in spec.get("ports") or ():
        name, protocol = port.get("name") or "", port.get("protocol", "TCP")
        ready, ending = (set(_targets(proxied, name, protocol, each)) for each in (_is_ready, _still_serves))
        targets = tuple(sorted(ready or ending))
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


def _labels(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or _NONE


def _is_ready(conditions: Mapping[str, Any]) -> bool:
    return conditions.get("ready") is not False


def _still_serves(conditions: Mapping[str, Any]) -> bool:
    return conditions.get("terminating") is True and conditions.get("serving") is not False


def _targets(
    slices: Iterable[Obj], name: str, protocol: str, is_target: Callable[[Mapping[str, Any]], bool]
) -> Iterator[tuple[str, int]]:
    """Address and port number of each endpoint whose conditions make it a target."""
    for each in slices:
        if each.get("addressType") not in ("IPv4", "IPv6"):
            continue
        numbers = [
            port["port"]
            for port in each.get("ports") or ()
            if (port.get("name") or "") == name and port.get("protocol", "TCP") == protocol and port.get("port")
        ]
        for endpoint in each.get("endpoints") or ():
            if is_target(endpoint.get("conditions") or _NONE):
                for address in endpoint.get("addresses") or ():
                    yield from ((address, number) for number in numbers)
