"""The rules for endpoints and endpoint slices, which list the pods of a service."""

from __future__ import annotations

import ipaddress

from kilauea.api.names import label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_name,
    check_range,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import (
    address_problems,
    address_warnings,
    canonical_address_problems,
    parse_address,
)
from kilauea.apiserver.strategies.base import Object, Strategy
from kilauea.apiserver.strategies.core import Plain

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
IMMUTABLE = "field is immutable"
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
MAX_ENDPOINTS, MAX_ADDRESSES, MAX_PORTS = 1000, 100, 20_000


class Endpoints(Plain):
    """Endpoints, the older kind, with one object per service."""

    always_warns = True
    deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"

    def __init__(self, *, loopback: bool = False) -> None:
        """Create the rules for endpoints.

        Args:
            loopback: True to allow loopback addresses, which the pods of a cluster on one machine have.
        """
        self._loopback = loopback

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for number, subset in enumerate(obj.get("subsets") or []):
            causes += _check_subset(f"subsets[{number}]", subset, self._loopback)
        return causes

    def warnings(self, obj: Object) -> list[str]:
        found: list[str] = []
        for number, subset in enumerate(obj.get("subsets") or []):
            for part in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(part) or []):
                    found += address_warnings(f"subsets[{number}].{part}[{index}].ip", address.get("ip", ""))
        return found


class EndpointSlices(Strategy):
    """Slices of the endpoints of a service, with a single, immutable address type."""

    has_status = False

    def __init__(self, *, loopback: bool = False) -> None:
        """Create the rules for slices, with or without loopback addresses."""
        self._loopback = loopback

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Count changes of the content and of labels."""
        before = old["metadata"].get("generation", 1)
        changed = any(obj.get(part) != old.get(part) for part in ("endpoints", "ports", "addressType"))
        changed = changed or obj["metadata"].get("labels") != old["metadata"].get("labels")
        obj["metadata"]["generation"] = before + 1 if changed else before

    def validate(self, obj: Object) -> list[Cause]:
        kind = obj.get("addressType", "")
        causes: list[Cause] = []
        if not kind:
            causes.append(required("addressType"))
        elif kind not in _ADDRESS_TYPES:
            causes.append(not_supported("addressType", kind, _ADDRESS_TYPES))
        endpoints = _check_endpoints(obj.get("endpoints") or [], kind, self._loopback)
        return causes + _check_slice_ports(obj.get("ports") or []) + endpoints

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("addressType") != old.get("addressType"):
            return [invalid_value("addressType", obj.get("addressType"), IMMUTABLE)]
        return []


def _check_subset(path: str, subset: Object, loopback: bool) -> list[Cause]:
    causes: list[Cause] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        causes.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for part in ("addresses", "notReadyAddresses"):
        for number, address in enumerate(subset.get(part) or []):
            causes += _check_address(f"{path}.{part}[{number}]", address, loopback)
    ports = subset.get("ports") or []
    for number, port in enumerate(ports):
        causes += _check_port(f"{path}.ports[{number}]", port, len(ports) > 1)
    return causes


def _check_address(path: str, address: Object, loopback: bool) -> list[Cause]:
    text = address.get("ip", "")
    causes = check_name(f"{path}.ip", text, address_problems(text))
    if address.get("hostname"):
        causes += check_name(f"{path}.hostname", address["hostname"], label_problems(address["hostname"]))
    if address.get("nodeName") is not None:
        causes += check_name(f"{path}.nodeName", address["nodeName"], subdomain_problems(address["nodeName"]))
    return causes + check_endpoint_address(f"{path}.ip", text, loopback)


def check_endpoint_address(path: str, text: str, loopback: bool) -> list[Cause]:
    """Check that other machines can reach an address; loopback is allowed if all pods are on this one."""
    address = parse_address(text)
    if address is None:
        return [invalid_value(path, text, "must be a valid IP address")]
    messages = []
    if address.is_unspecified:
        messages.append(f"may not be unspecified ({text})")
    if address.is_loopback and not loopback:
        messages.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        messages.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LOCAL_MULTICAST):
        messages.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return [invalid_value(path, text, message) for message in messages]


def _check_port(path: str, port: Object, needs_name: bool) -> list[Cause]:
    causes: list[Cause] = []
    name = port.get("name", "")
    if name:
        causes += check_name(f"{path}.name", name, label_problems(name))
    elif needs_name:
        causes.append(required(f"{path}.name"))
    causes += check_range(f"{path}.port", port.get("port", 0), 1, 65535)
    return causes + _check_protocols(path, port)


def _check_protocols(path: str, port: Object) -> list[Cause]:
    causes: list[Cause] = []
    if port.get("protocol", "TCP") not in _PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    application = port.get("appProtocol")
    if application is not None:
        causes += check_name(f"{path}.appProtocol", application, qualified_name_problems(application))
    return causes


def _check_slice_ports(ports: list[Object]) -> list[Cause]:
    if len(ports) > MAX_PORTS:
        return [too_many("ports", len(ports), MAX_PORTS)]
    causes: list[Cause] = []
    names: set[str] = set()
    for number, port in enumerate(ports):
        path, name = f"ports[{number}]", port.get("name", "")
        if name:
            causes += check_name(f"{path}.name", name, label_problems(name))
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        causes += _check_protocols(path, port)
    return causes


def _check_endpoints(endpoints: list[Object], kind: str, loopback: bool) -> list[Cause]:
    if len(endpoints) > MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), MAX_ENDPOINTS)]
    causes: list[Cause] = []
    for number, endpoint in enumerate(endpoints):
        causes += _check_endpoint(f"endpoints[{number}]", endpoint, kind, loopback)
    return causes


def _check_endpoint(path: str, endpoint: Object, kind: str, loopback: bool) -> list[Cause]:
    causes: list[Cause] = []
    addresses = endpoint.get("addresses") or []
    if not addresses:
        causes.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > MAX_ADDRESSES:
        causes.append(too_many(f"{path}.addresses", len(addresses), MAX_ADDRESSES))
    for number, address in enumerate(addresses):
        causes += _check_slice_address(f"{path}.addresses", number, address, kind, loopback)
    if endpoint.get("nodeName") is not None:
        causes += check_name(f"{path}.nodeName", endpoint["nodeName"], subdomain_problems(endpoint["nodeName"]))
    if endpoint.get("hostname") is not None:
        causes += check_name(f"{path}.hostname", endpoint["hostname"], label_problems(endpoint["hostname"]))
    return causes + _check_hints(f"{path}.hints", endpoint.get("hints") or {})


def _check_hints(path: str, hints: Object) -> list[Cause]:
    """Check the zones and nodes whose pods should use an endpoint."""
    causes: list[Cause] = []
    for part, problems in (("forZones", label_value_problems), ("forNodes", subdomain_problems)):
        names: set[str] = set()
        for number, each in enumerate(hints.get(part) or []):
            where, name = f"{path}.{part}[{number}].name", each.get("name", "")
            if name in names:
                causes.append(duplicate(where, name))
            else:
                causes += check_name(where, name, problems(name))
            names.add(name)
    return causes


def _check_slice_address(path: str, number: int, text: str, kind: str, loopback: bool) -> list[Cause]:
    where = f"{path}[{number}]"
    if kind == "FQDN":
        return check_name(where, text, subdomain_problems(text))
    if kind not in ("IPv4", "IPv6"):
        return []
    if problems := address_problems(text):
        return check_name(where, text, problems)
    if (":" in text) != (kind == "IPv6"):
        causes = [invalid_value(path, text, f"must be an {kind} address")]
        return causes + check_endpoint_address(where, text, loopback)
    return check_name(where, text, canonical_address_problems(text)) or check_endpoint_address(where, text, loopback)
