"""Addresses of services: each gets a cluster IP, and node ports if it requests them.

They are in the range of the server's configuration. Addresses of the default range are not routed here; they exist for
clients and objects that refer to them. Free ones are found by comparing random ones with those of all services, which
are read once for each of their versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.storage import Store
from kilauea.apiserver.strategies.addresses import parse_address
from kilauea.apiserver.strategies.service_parts import check_addresses, check_service

RESERVED = 16
"""Addresses at the beginning of the range that are only assigned on request."""
FIRST_PORT, LAST_PORT = 30000, 32767
TRIES = 64
"""Random candidates to try before searching all of them."""
FULL = "range is full"
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")


class Allocated(NamedTuple):
    """The addresses and node ports of a service."""

    address: str | None
    ports: frozenset[int]
    health_check_port: int | None


class ServiceAddresses(AdmissionStep):
    """Assigns addresses and node ports to services."""

    name = "ServiceAddresses"
    kinds = frozenset({("", "services")})

    def __init__(self) -> None:
        self._store: Store | None = None
        self._read: dict[str, tuple[int, Allocated]] = {}
        """The last read version of each service, and its addresses and ports."""

    def mutate(self, attributes: Attributes) -> None:
        """Complete a service."""
        resource = attributes.resource
        if (resource.group, resource.plural, attributes.subresource) != ("", "services", "") or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            return
        others = self._others(
            attributes.backend.store, resource.root, resource.key(attributes.namespace, attributes.name)
        )
        _give_address(attributes, spec, others)
        if spec.get("type") in _WITH_NODE_PORTS:
            _give_ports(attributes, spec, others)

    def _others(self, store: Store, root: str, key: str) -> list[Allocated]:
        """Return the addresses and ports of all other services."""
        before = self._read if self._store is store else {}
        self._store, self._read = store, {}
        for each in store.list(root).items:
            known = before.get(each.key)
            if known is None or known[0] != each.revision:
                known = each.revision, allocated(each.value)
            self._read[each.key] = known
        return [found for other, (_, found) in self._read.items() if other != key]

    def recheck(self, attributes: Attributes) -> None:
        """Check again, as another service may have taken the address meanwhile; a free one is kept."""
        self.mutate(attributes)


def allocated(value: bytes) -> Allocated:
    """Return the addresses and ports of a stored service."""
    spec: dict[str, Any] = msgspec.json.decode(value).get("spec") or {}
    ports = frozenset(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    return Allocated(spec.get("clusterIP"), ports, spec.get("healthCheckNodePort"))


def _give_address(attributes: Attributes, spec: dict[str, Any], others: list[Allocated]) -> None:
    """Assign a cluster IP, unless the service has one or wants none."""
    old = (attributes.old or {}).get("spec") or {}
    address = spec.get("clusterIP") or old.get("clusterIP")
    if not address and spec.get("clusterIPs"):
        return  # rejected later: the first of them is not in `clusterIP`
    if not address and (spec.get("ipFamilies") or ["IPv4"])[0] != "IPv4":
        return  # rejected later: the cluster has no such addresses
    taken = {each.address for each in others}
    if not address:
        address = _free_address(attributes, taken)
    elif address != "None" and (address in taken or (address == _own_address(attributes) and not _is_own(attributes))):
        raise _not_allocated(attributes, address, "provided IP is already allocated")
    spec["clusterIP"] = address
    spec["clusterIPs"] = spec.get("clusterIPs") or [address]
    _give_families(spec, old)
    if address != old.get("clusterIP"):  # one that it has stays, as the range of a server can change
        _check_range(attributes, spec, address)


def _give_families(spec: dict[str, Any], old: dict[str, Any]) -> None:
    """Set IP families and their policy: those of the cluster, and of the requested addresses if possible.

    A new service without an address and a selector gets both families, as its endpoints are not determined here. An
    update that does not name them leaves them unchanged.
    """
    is_open = spec["clusterIP"] == "None" and not spec.get("selector")
    usual = "RequireDualStack" if is_open else "SingleStack"
    policy = spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or old.get("ipFamilyPolicy") or usual
    families = spec.get("ipFamilies") or []
    if not families and old.get("ipFamilies"):
        families = old["ipFamilies"][: 1 if policy == "SingleStack" else 2]
    if not families and ":" not in spec["clusterIPs"][0]:
        families = ["IPv4"]
    if is_open and policy != "SingleStack" and len(families) == 1 and len(old.get("ipFamilies") or ()) < 2:
        families = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
    spec["ipFamilies"] = families


def _is_own(attributes: Attributes) -> bool:
    """Return True for the service of the API server itself."""
    return (attributes.namespace, attributes.name) == ("default", "kubernetes")


def _check_range(attributes: Attributes, spec: dict[str, Any], address: str) -> None:
    """Reject an address outside the range, unless the service has other errors, which are reported later."""
    found, network = parse_address(address), attributes.backend.service_range
    if found is None or found.version != 4 or found in network:
        return
    if any(check_addresses(spec)) or any(check_service(spec)):
        return
    why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}"
    raise _not_allocated(attributes, address, why)


def _not_allocated(attributes: Attributes, address: str, why: str) -> status.ApiFault:
    cause = invalid_value("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")
    return status.invalid("Service", "", attributes.name, [cause])


def _own_address(attributes: Attributes) -> str:
    return str(attributes.backend.service_range[1])


def _free_address(attributes: Attributes, taken: set[str | None]) -> str:
    """Return a free address.

    Raises:
        ApiFault: there is none.
    """
    network = attributes.backend.service_range
    first, last = RESERVED, network.num_addresses - 2
    addresses = (str(network[number]) for number in _in_random_order(attributes, first, last))
    found = next((each for each in addresses if each not in taken), None)
    if found is None:
        raise status.internal(f"failed to allocate a serviceIP: {FULL}")
    return found


def _in_random_order(attributes: Attributes, first: int, last: int) -> Iterator[int]:
    """Yield some random numbers of a range, then the whole range from a random start."""
    rng = attributes.backend.rng
    for _ in range(TRIES):
        yield rng.randint(first, last)
    start = rng.randint(first, last)
    yield from range(start, last + 1)
    yield from range(first, start)


def _give_ports(attributes: Attributes, spec: dict[str, Any], others: list[Allocated]) -> None:
    """Assign node ports; ports with the same number and different protocols share one."""
    taken = {port for each in others for port in each.ports}
    old = ((attributes.old or {}).get("spec") or {}).get("ports") or []
    had = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in old}
    kept = {port.get("nodePort") for port in old}
    ports = spec.get("ports") or []
    own = {(port["nodePort"], port.get("protocol", "TCP")) for port in ports if port.get("nodePort")}
    used = taken | {number for number, _ in own}
    alike = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")}
    for number, port in enumerate(ports):
        protocol, shared = port.get("protocol", "TCP"), alike.get(port.get("port"))
        wanted = port.get("nodePort") or had.get((port.get("port"), port.get("protocol")))
        if not wanted and spec.get("allocateLoadBalancerNodePorts") is False:
            continue
        if wanted and (words := _objection(wanted, taken, kept)):
            cause = invalid_value(f"spec.ports[{number}].nodePort", wanted, words)
            raise status.invalid("Service", "", attributes.name, [cause])
        if not wanted:
            is_free = shared and (shared, protocol) not in own
            wanted = shared if is_free else _free_port(attributes, used, "a nodePort")
        port["nodePort"] = wanted
        own.add((wanted, protocol))
        used.add(wanted)
        alike.setdefault(port.get("port"), wanted)
    if spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
        before = (attributes.old or {}).get("spec") or {}
        used |= {each.health_check_port for each in others if each.health_check_port}
        checked = spec.get("healthCheckNodePort") or before.get("healthCheckNodePort")
        if not checked or (checked in used and not spec.get("healthCheckNodePort")):
            checked = _free_port(attributes, used, "a HealthCheck NodePort")
        spec["healthCheckNodePort"] = checked


def _free_port(attributes: Attributes, taken: set[int], what: str) -> int:
    """Return a free node port.

    Raises:
        ApiFault: there is none.
    """
    ports = _in_random_order(attributes, FIRST_PORT, LAST_PORT)
    found = next((each for each in ports if each not in taken), None)
    if found is None:
        raise status.internal(f"failed to allocate {what}: {FULL}")
    return found


def _objection(port: int, taken: set[int], kept: set[int | None]) -> str:
    """Return the reason why a service may not have a requested port; empty if it may."""
    if port in taken:
        return "provided port is already allocated"
    if port not in kept and not FIRST_PORT <= port <= LAST_PORT:
        return f"provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
    return ""
