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
    found = _check_node_affinity(f"{path}.nodeAffinity", affinity.get("nodeAffinity") or {})
    for part in ("podAffinity", "podAntiAffinity"):
        found += _check_pod_affinity(f"{path}.{part}", affinity.get(part) or {})
    return found


def _check_node_affinity(path: str, affinity: Object) -> list[Cause]:
    found: list[Cause] = []
    needed = affinity.get(REQUIRED)
    if needed is not None:
        found += check_node_selector(f"{path}.{REQUIRED}", needed)
    for number, preferred in enumerate(affinity.get(PREFERRED) or []):
        where = f"{path}.{PREFERRED}[{number}]"
        found += _check_weight(where, preferred.get("weight", 0))
        found += _check_node_term(f"{where}.preference", preferred.get("preference") or {})
    return found


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
    found: list[Cause] = []
    for number, each in enumerate(term.get("matchExpressions") or []):
        found += _check_requirement(f"{path}.matchExpressions[{number}]", each)
    for number, each in enumerate(term.get("matchFields") or []):
        where = f"{path}.matchFields[{number}]"
        if each.get("key") != "metadata.name":
            found.append(invalid_value(f"{where}.key", each.get("key", ""), "not a valid field selector key"))
        if each.get("operator") not in ("In", "NotIn"):
            found.append(invalid_value(f"{where}.operator", each.get("operator", ""), "not a valid selector operator"))
        elif len(each.get("values") or []) != 1:
            message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(required(f"{where}.values", message))
    return found


def _check_requirement(path: str, each: Object) -> list[Cause]:
    operator, values, key = each.get("operator", ""), each.get("values") or [], each.get("key", "")
    found: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(forbidden_field(f"{path}.values", message))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(required(f"{path}.values", message))
    else:
        found.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return found + check_name(f"{path}.key", key, qualified_name_problems(key))


def _check_pod_affinity(path: str, affinity: Object) -> list[Cause]:
    found: list[Cause] = []
    for number, term in enumerate(affinity.get(REQUIRED) or []):
        found += _check_pod_term(f"{path}.{REQUIRED}[{number}]", term)
    for number, preferred in enumerate(affinity.get(PREFERRED) or []):
        where = f"{path}.{PREFERRED}[{number}]"
        found += _check_weight(where, preferred.get("weight", 0))
        found += _check_pod_term(f"{where}.podAffinityTerm", preferred.get("podAffinityTerm") or {})
    return found


def _check_pod_term(path: str, term: Object) -> list[Cause]:
    found: list[Cause] = []
    for part in ("labelSelector", "namespaceSelector"):
        found += check_label_selector(f"{path}.{part}", term.get(part) or {})
    key = term.get("topologyKey", "")
    if not key:
        found.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        found += check_name(f"{path}.topologyKey", key, qualified_name_problems(key))
    return found
