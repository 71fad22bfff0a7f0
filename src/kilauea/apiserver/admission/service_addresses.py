"""Addresses of services: each gets one of its own in the cluster, and ports of the nodes where it asks for them.

They are of the range that the server was given. Nothing routes those of the usual range here; clients and objects that
refer to them find them as in a cluster. Free ones are found by trying random ones against all services, of which a
laptop has few.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep, Attributes
from kilauea.apiserver.fields import invalid_value

RESERVED = 16
"""Addresses at the beginning of the range that are given only to services that ask for them."""
FIRST_PORT, LAST_PORT = 30000, 32767
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")


class ServiceAddresses(AdmissionStep):
    """Gives services what they need to be reached."""

    name = "ServiceAddresses"
    kinds = frozenset({("", "services")})

    def mutate(self, attributes: Attributes) -> None:
        """Complete a service."""
        resource = attributes.resource
        if (resource.group, resource.plural, attributes.subresource) != ("", "services", "") or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        others = [
            spec_of(each.value)
            for each in attributes.backend.store.list(resource.root).items
            if each.key != resource.key(attributes.namespace, attributes.name)
        ]
        if spec.get("type") == "ExternalName":
            return
        _give_address(attributes, spec, others)
        if spec.get("type") in _WITH_NODE_PORTS:
            _give_ports(attributes, spec, others)

    def recheck(self, attributes: Attributes) -> None:
        """Another service may have taken the address meanwhile; one that is free stays."""
        self.mutate(attributes)


def spec_of(value: bytes) -> dict[str, Any]:
    """The specification of a stored service."""
    spec: dict[str, Any] = msgspec.json.decode(value).get("spec") or {}
    return spec


def _give_address(attributes: Attributes, spec: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """An address in the cluster, unless there is one or none is wanted."""
    old = (attributes.old or {}).get("spec") or {}
    address = spec.get("clusterIP") or old.get("clusterIP")
    if not address and spec.get("clusterIPs"):
        return  # refused: the first of them is not told as `clusterIP`
    if not address and (spec.get("ipFamilies") or ["IPv4"])[0] != "IPv4":
        return  # refused: the cluster has no such addresses
    taken = {each.get("clusterIP") for each in others}
    if not address:
        address = _random_address(attributes)
        while address in taken:
            address = _random_address(attributes)
    elif address != "None" and (address in taken or (address == _own_address(attributes) and not _is_own(attributes))):
        message = "failed to allocate IP " + address + ": provided IP is already allocated"
        raise status.invalid("Service", "", attributes.name, [invalid_value("spec.clusterIPs", [address], message)])
    spec["clusterIP"] = address
    spec["clusterIPs"] = spec.get("clusterIPs") or [address]
    _give_families(spec, old)


def _give_families(spec: dict[str, Any], old: dict[str, Any]) -> None:
    """Families, and a policy for them: that of the cluster, and of the addresses that are asked for as far as it goes.

    A new service without an address and a selector gets both, as nothing here decides what its endpoints are.
    """
    families = spec.get("ipFamilies") or []
    is_open = spec["clusterIP"] == "None" and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_open else "SingleStack")
    if not families and ":" not in spec["clusterIPs"][0]:
        families = ["IPv4"]
    if is_open and policy != "SingleStack" and len(families) == 1 and len(old.get("ipFamilies") or ()) < 2:
        families = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
    spec["ipFamilies"] = families


def _is_own(attributes: Attributes) -> bool:
    """Return True for the service of the server itself."""
    return (attributes.namespace, attributes.name) == ("default", "kubernetes")


def _own_address(attributes: Attributes) -> str:
    return str(attributes.backend.service_range[1])


def _random_address(attributes: Attributes) -> str:
    network = attributes.backend.service_range
    number = attributes.backend.rng.randrange(RESERVED, network.num_addresses - 1)
    return str(IPv4Address(int(network.network_address) + number))


def _give_ports(attributes: Attributes, spec: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """Ports of the nodes; ports of one number and several protocols have the same."""
    taken = {port.get("nodePort") for each in others for port in each.get("ports") or []}
    old = ((attributes.old or {}).get("spec") or {}).get("ports") or []
    had = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in old}
    kept = {port.get("nodePort") for port in old}
    ports = spec.get("ports") or []
    own = {(port["nodePort"], port.get("protocol", "TCP")) for port in ports if port.get("nodePort")}
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
            wanted = shared if is_free else _free_port(attributes, taken | {each for each, _ in own})
        port["nodePort"] = wanted
        own.add((wanted, protocol))
        alike.setdefault(port.get("port"), wanted)
    taken |= {each for each, _ in own}
    if spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
        before = (attributes.old or {}).get("spec") or {}
        taken |= {each.get("healthCheckNodePort") for each in others}
        checked = spec.get("healthCheckNodePort") or before.get("healthCheckNodePort")
        while not checked or (checked in taken and not spec.get("healthCheckNodePort")):
            checked = attributes.backend.rng.randint(FIRST_PORT, LAST_PORT)
        spec["healthCheckNodePort"] = checked


def _free_port(attributes: Attributes, taken: set[int | None]) -> int:
    """Return a port of the nodes that is not taken."""
    while (port := attributes.backend.rng.randint(FIRST_PORT, LAST_PORT)) in taken:
        pass
    return port


def _objection(port: int, taken: set[int | None], kept: set[int | None]) -> str:
    """Return what speaks against a port that a service asks for; empty for one that it may have."""
    if port in taken:
        return "provided port is already allocated"
    if port not in kept and not FIRST_PORT <= port <= LAST_PORT:
        return f"provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
    return ""
