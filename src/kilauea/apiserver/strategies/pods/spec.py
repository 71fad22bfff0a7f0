"""Validation of the specification of a pod or pod template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.names import qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_labels,
    check_name,
    check_range,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.placement import check_affinity, check_spread, check_tolerations
from kilauea.apiserver.strategies.pods.containers import (
    Surroundings,
    check_containers,
    check_ephemeral_containers,
    check_images,
    check_init_containers,
    check_ports_of_host,
)
from kilauea.apiserver.strategies.pods.network import check_aliases, check_dns, check_host_name, check_names
from kilauea.apiserver.strategies.pods.resources import (
    check_amounts_of_pod,
    check_container_resource,
    check_number,
    check_pod_claims,
)
from kilauea.apiserver.strategies.pods.security import check_own_users, check_pod_security
from kilauea.apiserver.strategies.pods.volumes import check_volumes
from kilauea.apiserver.strategies.pods.windows import check_host_processes, check_system

Object = dict[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DEFAULT_GRACE = 30
"""The default termination grace period in seconds."""
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_NAMED = frozenset(("hostname", "subdomain"))


def check_pod_spec(
    path: str,
    spec: Object,
    *,
    restart: Sequence[str] = RESTART_POLICIES,
    claims: Sequence[str] = (),
    in_pod: bool = True,
) -> list[Cause]:
    """Return the errors in the specification of a pod.

    Args:
        path: the path of the specification.
        spec: the specification with defaults.
        restart: the allowed restart policies.
        claims: names of volumes that containers can mount besides those of the specification.
        in_pod: False in a template.
    """
    causes: list[Cause] = []
    volumes: dict[str, str] = {}
    if spec.get("volumes"):
        causes, volumes = check_volumes(f"{path}.volumes", spec["volumes"], in_pod=in_pod)
    volumes |= dict.fromkeys(claims, "persistentVolumeClaim")
    if spec.get("resourceClaims"):
        causes += check_pod_claims(f"{path}.resourceClaims", spec["resourceClaims"])
    causes += _check_all_containers(path, spec, volumes)
    if spec.get("resources") is not None:
        causes += check_amounts_of_pod(f"{path}.resources", spec)
    if spec.get("hostNetwork"):
        causes += check_ports_of_host(f"{path}.containers", spec.get("containers") or [])
    if spec.get("hostnameOverride") is not None:
        causes += check_host_name(path, spec)
    policy = spec.get("restartPolicy", "")
    if policy not in restart:
        causes.append(not_supported(f"{path}.restartPolicy", policy, restart))
    dns = spec.get("dnsPolicy", "ClusterFirst")
    if dns not in _DNS_POLICIES:
        causes.append(not_supported(f"{path}.dnsPolicy", dns, _DNS_POLICIES))
    if spec.get("nodeSelector"):
        causes += check_labels(f"{path}.nodeSelector", spec["nodeSelector"])
    if spec.get("securityContext") or spec.get("shareProcessNamespace"):
        causes += check_pod_security(path, spec)
    if dns == "None" and spec.get("dnsConfig") is None:
        causes += check_dns(f"{path}.dnsConfig", None, dns)
    causes += _check_rest(path, spec)
    return causes + check_all_images(path, spec) if in_pod else causes


def check_all_images(path: str, spec: Object) -> list[Cause]:
    """Check the image names of all containers."""
    return [cause for part in _CONTAINERS if spec.get(part) for cause in check_images(f"{path}.{part}", spec[part])]


def _check_all_containers(path: str, spec: Object, volumes: Mapping[str, str]) -> list[Cause]:
    """Check the containers of all kinds."""
    grace = spec.get("terminationGracePeriodSeconds")
    pod = Surroundings(
        volumes,
        {claim.get("name", "") for claim in spec["resourceClaims"]} - {""} if spec.get("resourceClaims") else (),
        DEFAULT_GRACE if grace is None else grace,
        spec.get("restartPolicy"),
        spec.get("hostUsers") is False,
    )
    names: set[str] = set()
    causes = check_containers(f"{path}.containers", spec.get("containers") or [], pod, names)
    if spec.get("initContainers"):
        causes += check_init_containers(f"{path}.initContainers", spec["initContainers"], pod, names)
    if spec.get("ephemeralContainers"):
        where = f"{path}.ephemeralContainers"
        causes += check_ephemeral_containers(where, spec["ephemeralContainers"], pod, names, frozenset(names))
    return causes


def _check_rest(path: str, spec: Object) -> list[Cause]:
    """Check independent fields, by the table, and some combinations of fields."""
    causes: list[Cause] = []
    for field, check in _FIELDS.items():
        value = spec.get(field)
        if value:
            causes += check(f"{path}.{field}", value, spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        causes += check_range(f"{path}.activeDeadlineSeconds", deadline, 1, 2**31 - 1)
    if not _NAMED.isdisjoint(spec):
        causes += check_names(path, spec)
    for field, check in _LATER_FIELDS.items():
        value = spec.get(field)
        if value is not None:
            causes += check(f"{path}.{field}", value, spec)
    return causes


def _dns_config(path: str, config: Object, spec: Object) -> Iterator[Cause]:
    return check_dns(path, config, spec.get("dnsPolicy", ""))


def _affinity(path: str, affinity: Object, spec: Object) -> list[Cause]:
    return check_affinity(path, affinity)


def _readiness(path: str, gates: list[Object], spec: Object) -> Iterator[Cause]:
    for number, gate in enumerate(gates):
        kind = gate.get("conditionType", "")
        yield from check_name(f"{path}[{number}].conditionType", kind, qualified_name_problems(kind))


def _scheduling(path: str, gates: list[Object], spec: Object) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, gate in enumerate(gates):
        name = gate.get("name", "")
        yield from check_name(f"{path}[{number}]", name, qualified_name_problems(name))
        if name in seen:
            yield duplicate(f"{path}[{number}]", name)
        seen.add(name)
    if spec.get("nodeName"):
        where = f"{path.rpartition('.')[0]}.nodeName"
        yield forbidden_field(where, "cannot be set until all schedulingGates have been cleared")


def _spread(path: str, constraints: list[Object], spec: Object) -> list[Cause]:
    return check_spread(path, constraints)


def _host_processes(path: str, containers: list[Object], spec: Object) -> Iterator[Cause]:
    """Check user namespaces and host processes, which few pods use."""
    plain = not spec.get("securityContext") and "hostUsers" not in spec
    if plain and not any("securityContext" in each for each in containers):
        return
    whole = path.rpartition(".")[0]
    if any((each.get("securityContext") or {}).get("windowsOptions") for each in (spec, *containers)):
        yield from check_host_processes(whole, spec)
    if spec.get("hostUsers") is False:
        yield from check_own_users(whole, spec)


def _name(path: str, name: str, spec: Object) -> list[Cause]:
    return check_name(path, name, subdomain_problems(name))


def _tolerations(path: str, tolerations: list[Object], spec: Object) -> list[Cause]:
    return check_tolerations(path, tolerations)


def _aliases(path: str, aliases: list[Object], spec: Object) -> Iterator[Cause]:
    return check_aliases(path, aliases)


def _preemption(path: str, policy: str, spec: Object) -> list[Cause]:
    if not policy:
        return [required(path)]
    return [] if policy in _PREEMPTION else [not_supported(path, policy, _PREEMPTION)]


def _overhead(path: str, amounts: Mapping[str, str], spec: Object) -> Iterator[Cause]:
    for name, text in amounts.items():
        yield from check_container_resource(f"{path}.limits[{name}]", name)
        yield from check_number(f"{path}.limits[{name}]", name, text)


def _system(path: str, system: Object, spec: Object) -> Iterator[Cause]:
    return check_system(path.rpartition(".")[0], spec)


def _group(path: str, group: Object, spec: Object) -> list[Cause]:
    """Check the Kubernetes pod group that a pod names."""
    name, where = group.get("podGroupName"), f"{path}.podGroupName"
    if name is None:
        return [invalid_value(where, None, "must specify one of: `podGroupName`")]
    return check_name(where, name, subdomain_problems(name))


Check = Callable[[str, Any, Object], "Iterator[Cause] | list[Cause]"]

_FIELDS: Mapping[str, Check] = {
    "affinity": _affinity,
    "dnsConfig": _dns_config,
    "readinessGates": _readiness,
    "schedulingGates": _scheduling,
    "topologySpreadConstraints": _spread,
    "containers": _host_processes,
    "serviceAccountName": _name,
    "nodeName": _name,
}
_LATER_FIELDS: Mapping[str, Check] = {
    "tolerations": _tolerations,
    "hostAliases": _aliases,
    "priorityClassName": _name,
    "runtimeClassName": _name,
    "preemptionPolicy": _preemption,
    "overhead": _overhead,
    "os": _system,
    "schedulingGroup": _group,
}
"""Checks of fields, in the order of the real server."""
