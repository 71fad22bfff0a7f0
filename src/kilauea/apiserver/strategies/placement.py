"""Validation of the affinity of a pod."""

from __future__ import annotations

import re
from typing import Any

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_range,
    forbidden_field,
    invalid_value,
    required,
)
from kilauea.apiserver.status import Cause

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_INTEGER = re.compile(r"[+-]?[0-9]+")


def check_affinity(path: str, affinity: Object) -> list[Cause]:
    """All kinds of affinity."""
    causes = _check_node_affinity(f"{path}.nodeAffinity", affinity.get("nodeAffinity") or {})
    for part in ("podAffinity", "podAntiAffinity"):
        causes += _check_pod_affinity(f"{path}.{part}", affinity.get(part) or {})
    return causes


def _check_node_affinity(path: str, affinity: Object) -> list[Cause]:
    causes: list[Cause] = []
    needed = affinity.get(REQUIRED)
    if needed is not None:
        causes += check_node_selector(f"{path}.{REQUIRED}", needed)
    for number, preferred in enumerate(affinity.get(PREFERRED) or []):
        where = f"{path}.{PREFERRED}[{number}]"
        causes += _check_weight(where, preferred.get("weight", 0))
        causes += _check_node_term(f"{where}.preference", preferred.get("preference") or {})
    return causes


def _check_weight(path: str, weight: Any) -> list[Cause]:
    if isinstance(weight, int) and not 1 <= weight <= 100:
        return [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]
    return check_range(f"{path}.weight", weight, 1, 100)


def check_node_selector(path: str, selector: Object) -> list[Cause]:
    """A node selector: at least one term, each of them well formed."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        cause
        for number, term in enumerate(terms)
        for cause in _check_node_term(f"{path}.nodeSelectorTerms[{number}]", term)
    ]


def _check_node_term(path: str, term: Object) -> list[Cause]:
    causes: list[Cause] = []
    for number, each in enumerate(term.get("matchExpressions") or []):
        causes += _check_requirement(f"{path}.matchExpressions[{number}]", each)
    for number, each in enumerate(term.get("matchFields") or []):
        where = f"{path}.matchFields[{number}]"
        if each.get("key") != "metadata.name":
            causes.append(invalid_value(f"{where}.key", each.get("key", ""), "not a valid field selector key"))
        if each.get("operator") not in ("In", "NotIn"):
            causes.append(invalid_value(f"{where}.operator", each.get("operator", ""), "not a valid selector operator"))
        elif len(each.get("values") or []) != 1:
            message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{where}.values", message))
    return causes


def _check_requirement(path: str, each: Object) -> list[Cause]:
    operator, values, key = each.get("operator", ""), each.get("values") or [], each.get("key", "")
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(f"{path}.values", message))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{path}.values", message))
    else:
        causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return causes + check_name(f"{path}.key", key, qualified_name_problems(key))


def _check_pod_affinity(path: str, affinity: Object) -> list[Cause]:
    causes: list[Cause] = []
    for number, term in enumerate(affinity.get(REQUIRED) or []):
        causes += _check_pod_term(f"{path}.{REQUIRED}[{number}]", term)
    for number, preferred in enumerate(affinity.get(PREFERRED) or []):
        where = f"{path}.{PREFERRED}[{number}]"
        causes += _check_weight(where, preferred.get("weight", 0))
        causes += _check_pod_term(f"{where}.podAffinityTerm", preferred.get("podAffinityTerm") or {})
    return causes


def _check_pod_term(path: str, term: Object) -> list[Cause]:
    causes: list[Cause] = []
    for part in ("labelSelector", "namespaceSelector"):
        causes += check_label_selector(f"{path}.{part}", term.get(part) or {})
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        causes += check_name(f"{path}.topologyKey", key, qualified_name_problems(key))
    return causes
