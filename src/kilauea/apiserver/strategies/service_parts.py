"""Checks of the parts of a service: addresses, ports, and the fields of some types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.names import label_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_labels,
    check_name,
    check_range,
    check_required_name,
    check_word,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import address_problems, cidr_problems, parse_address
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.endpoints import check_endpoint_address
from kilauea.apiserver.strategies.pods.handlers import port_name_problems

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_PROTOCOLS, _FAMILIES = ("SCTP", "TCP", "UDP"), ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_AFFINITIES, _TRAFFIC = ("ClientIP", "None"), ("Cluster", "Local")
LONGEST_AFFINITY = 86_400
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_ONLY_LOCAL = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def check_addresses(spec: Object) -> Iterator[Cause]:
    """Yield the errors in cluster IPs and their families; other fields are checked only if these are valid.

    Each of three checks runs only if the previous ones pass: the fields themselves, two families without a policy for
    them, and families that the cluster lacks, which has only IPv4. Services without an address and a selector, whose
    endpoints are managed externally, may have any.
    """
    if spec.get("type") == "ExternalName":
        return
    is_open = spec.get("clusterIP") == "None" and not spec.get("selector")
    steps = (_check_related, _check_single) if is_open else (_check_related, _check_single, _check_configured)
    for step in steps:
        if causes := list(step(spec)):
            yield from causes
            return


def _check_single(spec: Object) -> Iterator[Cause]:
    """Check that a single-stack service has one of each, and an address of a family of the cluster."""
    if spec.get("ipFamilyPolicy", "SingleStack") == "SingleStack":
        for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field) or ()) == len(_FAMILIES):
                message = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                yield invalid_value("spec.ipFamilyPolicy", "SingleStack", message)
    addresses, known = spec.get("clusterIPs") or [], len(spec.get("ipFamilies") or ())
    for number, address in enumerate(addresses):
        if number >= known and ":" in address:
            yield invalid_value(f"spec.clusterIPs[{number}]", addresses, "IPv6 is not configured on this cluster")


def _check_configured(spec: Object) -> Iterator[Cause]:
    """Check that the cluster has the families."""
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        message = "this cluster is not configured for dual-stack services"
        yield invalid_value("spec.ipFamilyPolicy", "RequireDualStack", message)
    for number, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            yield invalid_value(f"spec.ipFamilies[{number}]", family, "not configured on this cluster")


def _check_related(spec: Object) -> Iterator[Cause]:
    """Yield the errors in the fields themselves."""
    first, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if addresses and not first:
        yield invalid_value("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    elif addresses and addresses[0] != first:
        yield invalid_value("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    families = spec.get("ipFamilies") or []
    for number, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{number}]", family, _FAMILIES)
        elif family in families[:number]:
            yield duplicate(f"spec.ipFamilies[{number}]", family)
    yield from check_word("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    yield from _check_each_address(addresses or ([first] if first else []))
    for number, (address, family) in enumerate(zip(addresses, families, strict=False) if first != "None" else ()):
        found = parse_address(address)
        if family in _FAMILIES and f"IPv{found.version if found else 4}" != family:
            message = f"expected an {family} value as indicated by `ipFamilies[{number}]`"
            yield invalid_value(f"spec.clusterIPs[{number}]", address, message)


def _check_each_address(addresses: Sequence[str]) -> Iterator[Cause]:
    path = "spec.clusterIPs"
    if len(addresses) > 1 and addresses[0] == "None":
        yield invalid_value(path, addresses, "'None' must be the first and only value")
    for number, address in enumerate(addresses):
        if number or address != "None":
            yield from check_name(f"{path}[{number}]", address, address_problems(address))
    if len(addresses) > len(_FAMILIES):
        yield invalid_value(path, addresses, f"may only hold up to {len(_FAMILIES)} values")
    versions = [each.version for each in map(parse_address, addresses) if each]
    if len(versions) > len(set(versions)):
        yield invalid_value(path, addresses, "may specify no more than one IP for each IP family")


def check_service(spec: Object) -> Iterator[Cause]:
    """Yield the errors in all fields but the cluster IPs."""
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if kind in WITH_NODE_PORTS and spec.get("clusterIP") == "None":
        yield invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) or (field == "clusterIPs" and spec.get("clusterIP")):
                yield forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
        name = (spec.get("externalName") or "").removesuffix(".")
        yield from check_required_name("spec.externalName", name, subdomain_problems)
    yield from _check_ports(ports)
    yield from check_labels("spec.selector", spec.get("selector") or {})
    yield from check_word("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES)
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if spec.get("sessionAffinity") == "ClientIP" and seconds is not None and not 0 < seconds <= LONGEST_AFFINITY:
        message = f"must be greater than 0 and less than {LONGEST_AFFINITY}"
        yield invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, message)
    for number, each in enumerate(spec.get("externalIPs") or []):
        path = f"spec.externalIPs[{number}]"
        problems = address_problems(each)
        yield from check_name(path, each, problems) if problems else check_endpoint_address(path, each, loopback=False)
    yield from check_word("spec.type", kind, TYPES)
    yield from _check_node_ports(ports, kind)
    yield from _check_repeated(ports)
    yield from _check_balancer(spec, kind)
    yield from _check_traffic(spec, kind)


def _check_ports(ports: Sequence[Object]) -> Iterator[Cause]:
    names: set[str] = set()
    for number, port in enumerate(ports):
        path, name = f"spec.ports[{number}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            problems = label_problems(name)
            yield from check_name(f"{path}.name", name, problems)
            if name in names and not problems:
                yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from check_range(f"{path}.port", port.get("port", 0), 1, 65535)
        yield from check_word(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        target = port.get("targetPort")
        if isinstance(target, int):
            yield from check_range(f"{path}.targetPort", target, 1, 65535)
        elif target:
            yield from check_name(f"{path}.targetPort", target, port_name_problems(target))
        application = port.get("appProtocol")
        if application is not None:
            yield from check_name(f"{path}.appProtocol", application, qualified_name_problems(application))


def _check_node_ports(ports: Sequence[Object], kind: str) -> Iterator[Cause]:
    """Check node ports: only in types that have them, and unique per protocol."""
    if kind == "ClusterIP":
        for number, port in enumerate(ports):
            if port.get("nodePort"):
                message = "may not be used when `type` is 'ClusterIP'"
                yield forbidden_field(f"spec.ports[{number}].nodePort", message)
    seen: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        key = (port.get("protocol", "TCP"), port.get("nodePort") or 0)
        if key[1] and key in seen:
            yield duplicate(f"spec.ports[{number}].nodePort", key[1])
        seen.add(key)


def _check_repeated(ports: Sequence[Object]) -> Iterator[Cause]:
    seen: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        key = (port.get("protocol", "TCP"), port.get("port", 0))
        if key in seen:
            told = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            yield duplicate(f"spec.ports[{number}]", {**told, "TargetPort": 0, "NodePort": 0})
        seen.add(key)


def _check_balancer(spec: Object, kind: str) -> Iterator[Cause]:
    """Check the fields of services with a load balancer."""
    ranges, path = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    if ranges and kind != "LoadBalancer":
        yield forbidden_field(path, _ONLY_BALANCERS)
    for number, each in enumerate(ranges):
        yield from check_name(f"{path}[{number}]", each.strip(), cidr_problems(each.strip()))
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        yield forbidden_field("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCERS)
    name = spec.get("loadBalancerClass")
    if name is not None and kind != "LoadBalancer":
        yield forbidden_field("spec.loadBalancerClass", _ONLY_BALANCERS)
    elif name is not None:
        yield from check_name("spec.loadBalancerClass", name, qualified_name_problems(name))


def is_reached_from_outside(spec: Object) -> bool:
    """Return True if a service is reachable from outside the cluster."""
    kind = spec.get("type", "ClusterIP")
    return kind in WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def checks_health(spec: Object) -> bool:
    """Return True if a service has a port for health checks of a load balancer."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _check_traffic(spec: Object, kind: str) -> Iterator[Cause]:
    policy, port = spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort")
    if not is_reached_from_outside(spec):
        if policy:
            message = "may only be set for externally-accessible services"
            yield invalid_value("spec.externalTrafficPolicy", policy, message)
    else:
        yield from check_word("spec.externalTrafficPolicy", policy, _TRAFFIC)
    if port and not checks_health(spec):
        yield invalid_value("spec.healthCheckNodePort", port, _ONLY_LOCAL)
    if kind != "ExternalName":
        yield from check_word("spec.internalTrafficPolicy", spec.get("internalTrafficPolicy"), _TRAFFIC)
    yield from check_word("spec.trafficDistribution", spec.get("trafficDistribution"), _DISTRIBUTIONS)
