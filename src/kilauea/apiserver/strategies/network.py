"""The rules of services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.names import label_problems
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import address_warnings, cidr_warnings
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of
from kilauea.apiserver.strategies.service_parts import (
    WITH_NODE_PORTS,
    check_addresses,
    check_service,
    checks_health,
    is_reached_from_outside,
)

_NOT_HEADLESS: Mapping[str, Any] = {"loadBalancerIP": "", "externalIPs": [], "sessionAffinity": "None"}
"""Fields without effect in a headless service, and their default values."""


_TOLD = {"sessionAffinity": "SessionAffinity"}


class Services(Strategy):
    """Services; `kilauea.apiserver.admission.service_addresses` assigns their addresses."""

    has_generation = False
    answers_deleted_object = True
    name_problems = staticmethod(label_problems)
    selectable = ("spec.clusterIP", "spec.type")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        spec, before = spec_of(obj), spec_of(old)
        _drop_left_over(spec, before)
        if spec.get("type") == "ExternalName":
            return
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field):
                keep(spec, before, field)
        families = spec.get("ipFamilies") or []
        if spec.get("ipFamilyPolicy") == "SingleStack" and families == before.get("ipFamilies"):
            spec["ipFamilies"] = families[:1]
        _keep_node_ports(spec, before)

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new service; errors in its addresses hide all others."""
        return [*check_addresses(spec_of(obj))] or [*check_service(spec_of(obj))]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a changed service."""
        return self.validate(obj)

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about fields that are deprecated or have no effect."""
        spec, found = spec_of(obj), list[str]()
        kind, is_headless = spec.get("type"), spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP"
        if is_headless:
            found += [
                f"spec.{_TOLD.get(field, field)} is ignored for headless services"
                for field, usual in _NOT_HEADLESS.items()
                if spec.get(field, usual) != usual
            ]
        for field in ("clusterIPs", "externalIPs"):
            for number, each in enumerate(spec.get(field) or ()):
                found += address_warnings(f"spec.{field}[{number}]", each)
        if spec.get("externalIPs") and kind == "ExternalName":
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        elif spec.get("externalIPs") and not is_headless:
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if spec.get("loadBalancerIP"):
            found += address_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
        for number, each in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            found += cidr_warnings(f"spec.loadBalancerSourceRanges[{number}]", each.strip())
        if spec.get("externalName") and kind != "ExternalName":
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        if any(check_addresses(spec)):
            return []
        causes, name = [], spec.get("loadBalancerClass")
        families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
        if families and len(families) < len(before.get("ipFamilies") or ()) and policy != "SingleStack":
            message = "must be 'SingleStack' to release the secondary IP family"
            causes.append(invalid_value("spec.ipFamilyPolicy", policy, message))
        if spec.get("type") == before.get("type") == "LoadBalancer" and name != before.get("loadBalancerClass"):
            causes.append(invalid_value("spec.loadBalancerClass", name, "may not change once set"))
        had = before.get("clusterIP")
        if had and spec.get("type") != "ExternalName" and spec.get("clusterIP") != had:
            causes.append(invalid_value("spec.clusterIPs[0]", spec.get("clusterIP"), "may not change once set"))
        return causes


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Keep the node port of ports that do not set one."""
    had = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or []}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or []:
            known = had.get((port.get("port"), port.get("protocol")))
            if known and not port.get("nodePort"):
                port["nodePort"] = known


def _drop_left_over(spec: Object, before: Object) -> None:
    """Remove unchanged fields of the old type that the new type does not have."""
    if spec.get("type") not in WITH_NODE_PORTS and before.get("type") in WITH_NODE_PORTS:
        had = [port.get("nodePort") for port in before.get("ports") or []]
        if [port.get("nodePort") for port in spec.get("ports") or []] == had:
            for port in spec.get("ports") or []:
                port.pop("nodePort", None)
    gone = []
    if before.get("type") == "ExternalName" and spec.get("type") != "ExternalName":
        gone.append("externalName")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if checks_health(before) and not checks_health(spec):
        gone.append("healthCheckNodePort")
    if is_reached_from_outside(before) and not is_reached_from_outside(spec):
        gone.append("externalTrafficPolicy")
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        gone += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    for field in gone:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)
