"""The rules of network policies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_range,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import cidr_problems, cidr_warnings, parse_cidr
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.pods.handlers import port_name_problems

_PROTOCOLS, _TYPES = ("TCP", "UDP", "SCTP"), ("Ingress", "Egress")


class NetworkPolicies(Strategy):
    """Network policies."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a policy: its selector, ports and peers of its rules, and types."""
        spec = spec_of(obj)
        causes = check_label_selector("spec.podSelector", spec.get("podSelector") or {})
        for part, side in (("ingress", "from"), ("egress", "to")):
            for number, rule in enumerate(spec.get(part) or []):
                path = f"spec.{part}[{number}]"
                for index, port in enumerate(rule.get("ports") or []):
                    causes += _check_port(port, f"{path}.ports[{index}]")
                for index, peer in enumerate(rule.get(side) or []):
                    causes += _check_peer(peer, f"{path}.{side}[{index}]")
        return [*causes, *_check_types(spec.get("policyTypes") or [], "spec.policyTypes")]

    def warnings(self, obj: Object) -> list[str]:
        found: list[str] = []
        for part, side in (("ingress", "from"), ("egress", "to")):
            for number, rule in enumerate(spec_of(obj).get(part) or []):
                for index, peer in enumerate(rule.get(side) or []):
                    found += _peer_warnings(f"spec.{part}[{number}].{side}[{index}]", peer)
        return found


def _check_types(types: list[str], path: str) -> Iterator[Cause]:
    if len(types) > len(_TYPES):
        yield invalid_value(path, types, "may not specify more than two policyTypes")
        return
    for number, each in enumerate(types):
        if each not in _TYPES:
            yield not_supported(f"{path}[{number}]", each, _TYPES)


def _check_port(port: Object, path: str) -> Iterator[Cause]:
    protocol, value, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if value is None:
        if end is not None:
            yield invalid_value(f"{path}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(value, int):
        yield from check_range(f"{path}.port", value, 1, 65535)
        if end is not None and end < value:
            yield invalid_value(f"{path}.endPort", value, "must be greater than or equal to `port`")
        yield from check_range(f"{path}.endPort", end, 1, 65535)
    else:
        if end is not None:
            yield invalid_value(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from check_name(f"{path}.port", value, port_name_problems(value))


def _peer_warnings(path: str, peer: Object) -> list[str]:
    block, where = peer.get("ipBlock") or {}, f"{path}.ipBlock"
    found = cidr_warnings(f"{where}.cidr", block.get("cidr") or "")
    for number, each in enumerate(block.get("except") or []):
        found += cidr_warnings(f"{where}.except[{number}]", each)
    return found


def _check_peer(peer: Object, path: str) -> Iterator[Cause]:
    for field in ("podSelector", "namespaceSelector"):
        if peer.get(field) is not None:
            yield from check_label_selector(f"{path}.{field}", peer[field])
    if peer.get("ipBlock") is not None:
        yield from _check_block(peer["ipBlock"], f"{path}.ipBlock")
        if peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None:
            yield forbidden_field(path, "may not specify both ipBlock and another peer")
    elif peer.get("podSelector") is None and peer.get("namespaceSelector") is None:
        yield required(path, "must specify a peer")


def _check_block(block: Object, path: str) -> Iterator[Cause]:
    text = block.get("cidr") or ""
    problems = cidr_problems(text) if text else ()
    if not text:
        yield required(f"{path}.cidr")
    yield from check_name(f"{path}.cidr", text, problems)
    whole = parse_cidr(text)
    if whole is None:
        return
    for number, each in enumerate(block.get("except") or []):
        yield from _check_exception(each, whole, f"{path}.except[{number}]")


def _check_exception(text: str, whole: Any, path: str) -> Iterator[Cause]:
    yield from check_name(path, text, cidr_problems(text))
    part = parse_cidr(text)
    if part is None:
        return
    inside = part.version == whole.version and part.prefixlen > whole.prefixlen
    if not inside or not _covers(whole, part):
        yield invalid_value(path, text, "must be a strict subset of `cidr`")


def _covers(whole: ipaddress.IPv4Network | ipaddress.IPv6Network, part: Any) -> bool:
    return part.network_address in whole
