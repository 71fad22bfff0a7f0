"""The rules of network policies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kilauea.apiserver.fields import (
    check_label_selector,
    check_range,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.pod_spec import port_name_problems

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_CIDR_FORM = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class NetworkPolicies(Strategy):
    """Network policies."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = check_label_selector("spec.podSelector", spec.get("podSelector") or {})
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for number, rule in enumerate(spec.get(direction) or ()):
                causes += _check_rule(f"spec.{direction}[{number}]", rule, peers)
        types = spec.get("policyTypes") or []
        if len(types) > len(_TYPES):
            causes.append(invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes"))
        else:
            causes += [
                not_supported(f"spec.policyTypes[{number}]", each, _TYPES)
                for number, each in enumerate(types)
                if each not in _TYPES
            ]
        return causes


def _check_rule(path: str, rule: Object, peers: str) -> Iterator[Cause]:
    """One rule, whose other side is in the field `peers`."""
    for number, port in enumerate(rule.get("ports") or ()):
        yield from _check_port(f"{path}.ports[{number}]", port)
    for number, peer in enumerate(rule.get(peers) or ()):
        yield from _check_peer(f"{path}.{peers}[{number}]", peer)


def _check_port(path: str, given: Object) -> Iterator[Cause]:
    """A port, by number or name, or a range of numbers."""
    protocol, port, end = (given.get(field) for field in ("protocol", "port", "endPort"))
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if isinstance(port, int):
        yield from check_range(f"{path}.port", port, 1, 65535)
        if end is not None and end < port:
            yield invalid_value(f"{path}.endPort", port, "must be greater than or equal to `port`")
        yield from check_range(f"{path}.endPort", end, 1, 65535)
        return
    if end is not None:
        missing = "not specified" if port is None else "non-numeric"
        yield invalid_value(f"{path}.endPort", end, f"may not be specified when `port` is {missing}")
    if port is not None:
        yield from (invalid_value(f"{path}.port", port, each) for each in port_name_problems(port))


def _check_peer(path: str, peer: Object) -> Iterator[Cause]:
    """The other side of a rule: pods, namespaces or addresses."""
    selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
    for field in selectors:
        yield from check_label_selector(f"{path}.{field}", peer[field])
    block = peer.get("ipBlock")
    if block is not None:
        yield from _check_block(f"{path}.ipBlock", block)
    if not selectors and block is None:
        yield required(path, "must specify a peer")
    elif selectors and block is not None:
        yield forbidden_field(path, "may not specify both ipBlock and another peer")


def _check_block(path: str, block: Object) -> Iterator[Cause]:
    """A range of addresses, and the parts that do not belong to it."""
    text = block.get("cidr") or ""
    if not text:
        yield required(f"{path}.cidr")
        return
    whole = _network(text)
    if whole is None:
        yield invalid_value(f"{path}.cidr", text, _CIDR_FORM)
        return
    for number, each in enumerate(block.get("except") or ()):
        part = _network(each)
        if part is None:
            yield invalid_value(f"{path}.except[{number}]", each, _CIDR_FORM)
        elif not _is_inside(part, whole):
            yield invalid_value(f"{path}.except[{number}]", each, "must be a strict subset of `cidr`")


def _network(text: str) -> Any:
    """The network that a text names, with or without bits of a host; None if it names none."""
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_inside(part: Any, whole: Any) -> bool:
    """Return True if a network is a part of another one, and not all of it."""
    return bool(part.version == whole.version and part != whole and part.subnet_of(whole))
