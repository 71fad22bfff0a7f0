"""The rules of services."""

from __future__ import annotations

import ipaddress

from kilauea.api.names import label_problems
from kilauea.apiserver.fields import (
    check_labels,
    check_range,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


class Services(Strategy):
    """Services; their addresses are given out by `kilauea.apiserver.admission.service_addresses`."""

    has_generation = False
    answers_deleted_object = True
    name_problems = staticmethod(label_problems)
    selectable = ("spec.clusterIP", "spec.type")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        spec, before = spec_of(obj), spec_of(old)
        if spec.get("type") == "ExternalName":
            return
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field):
                keep(spec, before, field)
        _keep_node_ports(spec, before)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes: list[Cause] = []
        kind = spec.get("type", "ClusterIP")
        if kind not in _TYPES:
            causes.append(not_supported("spec.type", kind, _TYPES))
        ports = spec.get("ports") or []
        if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        if kind == "ExternalName" and not spec.get("externalName"):
            causes.append(required("spec.externalName"))
        causes += _check_ports(ports)
        causes += check_labels("spec.selector", spec.get("selector") or {})
        address = spec.get("clusterIP")
        if address and address != "None" and not _is_address(address):
            causes.append(
                invalid_value(
                    "spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                )
            )
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        had = before.get("clusterIP")
        if had and spec.get("type") != "ExternalName" and spec.get("clusterIP") != had:
            return [invalid_value("spec.clusterIPs[0]", spec.get("clusterIP"), "may not change once set")]
        return []


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Ports that do not say keep the port of the node that they had."""
    had = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or []}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or []:
            known = had.get((port.get("port"), port.get("protocol")))
            if known and not port.get("nodePort"):
                port["nodePort"] = known


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_ports(ports: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for number, port in enumerate(ports):
        path, name = f"spec.ports[{number}]", port.get("name", "")
        if not name and len(ports) > 1:
            causes.append(required(f"{path}.name"))
        elif name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        if not isinstance(port.get("port"), int) or not 1 <= port["port"] <= 65535:
            causes.append(invalid_value(f"{path}.port", port.get("port", 0), "must be between 1 and 65535, inclusive"))
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            causes.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
        if isinstance(port.get("targetPort"), int):
            causes += check_range(f"{path}.targetPort", port["targetPort"], 1, 65535)
    return causes
