"""Quota scopes, which restrict the objects that a quota covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kilauea.apiserver.admission.quota.usage import CLAIMS, PODS, Kind
from kilauea.apiserver.admission.view import Record

Object = dict[str, Any]


class Requirement(Record, frozen=True):
    """A condition on an object: its value for a scope is in these, not in these, exists, or does not exist."""

    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class _Selector(Record, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()


class Scoped(Record, frozen=True):
    """The part of a quota's specification that selects objects."""

    scopes: tuple[str, ...] | None = None
    scope_selector: _Selector | None = None


def requirements_of(spec: Object) -> tuple[Requirement, ...]:
    """Return all conditions of a quota."""
    scoped = msgspec.convert(spec, Scoped)
    selector = scoped.scope_selector.match_expressions if scoped.scope_selector else ()
    return (*(Requirement(scope) for scope in scoped.scopes or ()), *selector)


def is_about(requirements: tuple[Requirement, ...], kind: Kind, obj: Object) -> bool:
    """Return True if an object meets all conditions; only pods and claims can meet any."""
    if not requirements:
        return True
    if kind == PODS:
        return all(_pod_meets(each, obj) for each in requirements)
    return kind == CLAIMS and all(_claim_meets(each, obj) for each in requirements)


def _pod_meets(requirement: Requirement, pod: Object) -> bool:
    spec = pod.get("spec") or {}
    match requirement.scope_name:
        case "Terminating":
            return ends_by_itself(pod)
        case "NotTerminating":
            return not ends_by_itself(pod)
        case "BestEffort":
            return (pod.get("status") or {}).get("qosClass") == "BestEffort"
        case "NotBestEffort":
            return (pod.get("status") or {}).get("qosClass") != "BestEffort"
        case "PriorityClass":
            return _selects(requirement, [spec["priorityClassName"]] if spec.get("priorityClassName") else [])
        case "CrossNamespacePodAffinity":
            return any("namespaces" in term or "namespaceSelector" in term for term in _affinity_terms(spec))
    return False


def ends_by_itself(pod: Object) -> bool:
    """Return True if a pod has a deadline."""
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _claim_meets(requirement: Requirement, claim: Object) -> bool:
    if requirement.scope_name != "VolumeAttributesClass":
        return False
    spec, state = claim.get("spec") or {}, claim.get("status") or {}
    named = (
        spec.get("volumeAttributesClassName"),
        state.get("currentVolumeAttributesClassName"),
        (state.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return _selects(requirement, [each for each in named if each])


def _selects(requirement: Requirement, values: list[str]) -> bool:
    match requirement.operator:
        case "In":
            return any(each in requirement.values for each in values)
        case "NotIn":
            return not values or any(each not in requirement.values for each in values)
        case "Exists":
            return bool(values)
    return not values


def _affinity_terms(spec: Object) -> Iterator[Object]:
    """Yield the terms of pod affinity and anti-affinity."""
    for side in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(side) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}
