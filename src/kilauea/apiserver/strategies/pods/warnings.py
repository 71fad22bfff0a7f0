"""Warnings of the real server about pods that it accepts: fields without effect, and likely mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kilauea.api.names import label_problems
from kilauea.apiserver.strategies.addresses import address_warnings
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.old_labels import old_key, old_keys, old_label
from kilauea.apiserver.strategies.quantities import claim_warnings, fraction_warnings
from kilauea.apiserver.strategies.volume_sources import OLD_VOLUMES, volume_source_warnings

_RARE = frozenset(
    {"affinity", "dnsConfig", "hostAliases", "imagePullSecrets", "nodeSelector", "topologySpreadConstraints"}
)
"""Fields that most pods do not have."""
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_PROFILE = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_OF_CONTAINERS = (
    ("container.seccomp.security.alpha.kubernetes.io/", _PROFILE),
    (
        "container.apparmor.security.beta.kubernetes.io/",
        'deprecated since v1.30; use the "appArmorProfile" field instead',
    ),
)
"""Prefixes of annotations that end with the name of a container."""
_INSTEAD = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NULL_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")


_LONGEST_LABEL = 63
_SURPRISING = "which can result in surprising behavior; a DNS label is recommended"


def pod_warnings(pod: Object) -> list[str]:
    """Return the warnings for a pod."""
    warnings, name = template_warnings("", pod), pod["metadata"].get("name", "")
    if "." in name or len(name) > _LONGEST_LABEL:  # valid names meet all other rules for labels
        problems = label_problems(name)
        told = f"metadata.name: this is used in the Pod's hostname, {_SURPRISING}: [{' '.join(problems)}]"
        warnings.insert(0, told)
    return warnings


def name_warnings(obj: Object) -> list[str]:
    """Return the warnings for the name of an object whose pods have its name as a prefix."""
    problems = label_problems(obj["metadata"].get("name", ""))
    if not problems:
        return []
    return [f"metadata.name: this is used in Pod names and hostnames, {_SURPRISING}: [{' '.join(problems)}]"]


def template_warnings(path: str, template: Object) -> list[str]:
    """Return the warnings for a pod template at a path, which ends with a dot if not empty."""
    spec, metadata = spec_of(template), template.get("metadata") or {}
    annotations, where = metadata.get("annotations") or {}, f"{path}metadata.annotations"
    warnings: list[str] = []
    path = f"{path}spec."
    if not _RARE.isdisjoint(spec):
        warnings += _placement(path, spec)
    if annotations:
        warnings += [f"{where}[{key}]: {_INSTEAD[key]}" for key in _INSTEAD if key in annotations]
    warnings += _volumes(f"{path}volumes", spec.get("volumes") or ())
    if not _RARE.isdisjoint(spec):
        warnings += _doubles(path, spec)
    if spec.get("overhead"):
        warnings += fraction_warnings(f"{path}overhead", spec["overhead"], _BYTES)
    if _SECCOMP in annotations:
        warnings.append(f"{where}[{_SECCOMP}]: {_PROFILE}")
    warnings += _containers(path, spec, where, annotations)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        told = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{path}terminationGracePeriodSeconds: {told}")
    if spec.get("affinity"):
        warnings += _pod_affinity(f"{path}affinity", spec["affinity"])
    if not _RARE.isdisjoint(spec):
        warnings += _addresses(path, spec)
    return warnings


def _placement(path: str, spec: Object) -> Iterator[str]:
    """Warn about deprecated labels, and constraints that select nothing."""
    for key in spec.get("nodeSelector") or ():
        yield from old_label(f"{path}nodeSelector[{key}]", key)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    where = f"{path}affinity.nodeAffinity"
    hard = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for number, term in enumerate(hard.get("nodeSelectorTerms") or ()):
        yield from old_keys(f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{number}]", term)
    for number, soft in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        term = soft.get("preference") or {}
        yield from old_keys(f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{number}].preference", term)
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}topologySpreadConstraints[{number}]"
        if constraint.get("labelSelector") is None:
            yield f"{where}.{_NULL_SELECTOR}"
        yield from old_key(f"{where}.topologyKey", constraint.get("topologyKey", ""))


def _volumes(path: str, volumes: Any) -> Iterator[str]:
    for number, volume in enumerate(volumes):
        if not OLD_VOLUMES.keys().isdisjoint(volume):
            yield from volume_source_warnings(f"{path}[{number}]", volume)
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not source:
                yield f'volume "{volume.get("name", "")}" (Projected) has no sources provided'
        if volume.get("ephemeral"):
            claim = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}
            where = f"{path}[{number}].ephemeral.volumeClaimTemplate.spec.resources"
            yield from claim_warnings(where, claim.get("resources") or {})


def _addresses(path: str, spec: Object) -> Iterator[str]:
    """Warn about IP addresses in an unusual form."""
    for number, each in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from address_warnings(f"{path}dnsConfig.nameservers[{number}]", each)
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(f"{path}hostAliases[{number}].ip", alias.get("ip", ""))


def _doubles(path: str, spec: Object) -> Iterator[str]:
    """Warn about duplicate addresses and secrets."""
    seen = set()
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        if alias.get("ip") in seen:
            yield f'{path}hostAliases[{number}].ip: duplicate ip "{alias.get("ip")}"'
        seen.add(alias.get("ip"))
    secrets = [each.get("name", "") for each in spec.get("imagePullSecrets") or ()]
    for number, name in enumerate(secrets):
        if name in secrets[:number]:
            yield f'{path}imagePullSecrets[{number}].name: duplicate name "{name}"'
    for number, name in enumerate(secrets):
        if not name:
            yield f'{path}imagePullSecrets[{number}].name: invalid empty name ""'


def _containers(path: str, spec: Object, about: str, annotations: Object) -> Iterator[str]:
    """Warn about the fields of containers, and about their annotations, which have the path `about`."""
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or ()):
            where = f"{path}{field}[{number}]"
            for prefix, message in _OF_CONTAINERS if annotations else ():
                if (key := prefix + container.get("name", "")) in annotations:
                    yield f"{about}[{key}]: {message}"
            resources = container.get("resources") or {}
            for part in ("limits", "requests"):
                amounts = resources.get(part)
                if amounts and any(amounts.get(name, "").endswith("m") for name in _BYTES):
                    yield from fraction_warnings(f"{where}.resources.{part}", amounts, _BYTES)
            environment = container.get("env") or ()
            if len({each.get("name") for each in environment}) < len(environment):
                yield from _hidden(f"{where}.env", environment)
    yield from _ports(f"{path}containers", spec.get("containers") or ())


def _hidden(path: str, environment: Any) -> Iterator[str]:
    """Warn about variables that are set twice, unless the second refers to the first."""
    seen = set()
    for number, variable in enumerate(environment):
        name = variable.get("name", "")
        if name in seen and f"$({name})" not in (variable.get("value") or ""):
            yield f'{path}[{number}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(path: str, containers: Any) -> Iterator[str]:
    """Warn about duplicate ports and port names across all containers."""
    if sum(len(container.get("ports") or ()) for container in containers) < 2:
        return
    before: dict[tuple[Any, ...], list[str]] = {}
    names: dict[str, str] = {}
    for at, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            where = f"{path}[{at}].ports[{number}]"
            same = before.setdefault(
                tuple([port.get(each) for each in ("containerPort", "protocol", "hostPort", "hostIP")]), []
            )
            for other in same:
                yield f"{where}: duplicate port definition with {other}"
            same.append(where)
            name = port.get("name")
            if name and names.setdefault(name, where) != where:
                first = names[name]
                message = f"services and probes that select ports by name will use {first}"
                yield f'{where}: duplicate port name "{name}" with {first}, {message}'


def _pod_affinity(path: str, affinity: Object) -> Iterator[str]:
    """Warn about terms that select no pod."""
    for field in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(field) or {}
        for number, term in enumerate(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{field}.requiredDuringSchedulingIgnoredDuringExecution[{number}].{_NULL_SELECTOR}"
        for number, soft in enumerate(part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            if (soft.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = f"{path}.{field}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
                yield f"{where}.podAffinityTerm.{_NULL_SELECTOR}"
