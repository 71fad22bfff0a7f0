"""Validation of constraints on where a pod can run: affinity, tolerations, and topology spread."""

from __future__ import annotations

from typing import Any

from kilauea.api.names import (
    label_problems,
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_range,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATED = ("Equal", "Exists")
_COMPARED = ("Lt", "Gt")
"""Operators of tolerations behind a disabled feature gate; the real server lists them in its error."""
_SPREAD, _INCLUSION = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")
_NO_SELECTOR = "must not be specified when labelSelector is not set"


def check_affinity(path: str, affinity: Object) -> list[Cause]:
    """Check all kinds of affinity."""
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
        causes += _check_node_term(f"{where}.preference", preferred.get("preference") or {}, is_hard=False)
    return causes


def _check_weight(path: str, weight: Any) -> list[Cause]:
    if isinstance(weight, int) and not 1 <= weight <= 100:
        return [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]
    return check_range(f"{path}.weight", weight, 1, 100)


def check_node_selector(path: str, selector: Object) -> list[Cause]:
    """Check that a node selector has at least one term, and that all terms are valid."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        cause
        for number, term in enumerate(terms)
        for cause in _check_node_term(f"{path}.nodeSelectorTerms[{number}]", term)
    ]


def _check_node_term(path: str, term: Object, *, is_hard: bool = True) -> list[Cause]:
    causes: list[Cause] = []
    for number, each in enumerate(term.get("matchExpressions") or []):
        causes += _check_requirement(f"{path}.matchExpressions[{number}]", each, is_hard=is_hard)
    for number, each in enumerate(term.get("matchFields") or []):
        where = f"{path}.matchFields[{number}]"
        if each.get("key") != "metadata.name":
            causes.append(invalid_value(f"{where}.key", each.get("key", ""), "not a valid field selector key"))
        if each.get("operator") not in ("In", "NotIn"):
            causes.append(invalid_value(f"{where}.operator", each.get("operator", ""), "not a valid selector operator"))
        elif len(each.get("values") or []) != 1:
            message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{where}.values", message))
        if each.get("key") == "metadata.name":
            for place, name in enumerate(each.get("values") or []):
                causes += check_name(f"{where}.values[{place}]", name, subdomain_problems(name))
    return causes


def _check_requirement(path: str, each: Object, *, is_hard: bool) -> list[Cause]:
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
        if len(values) != 1:
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{path}.values", message))
    else:
        causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    causes += check_name(f"{path}.key", key, qualified_name_problems(key))
    for number, value in enumerate(values if is_hard else ()):
        causes += check_name(f"{path}.values[{number}]", value, label_value_problems(value))
    return causes


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
    for name in term.get("namespaces") or ():
        causes += check_name(f"{path}.namespace", name, label_problems(name))
    causes += _check_keys(path, term)
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    return causes + check_name(f"{path}.topologyKey", key, qualified_name_problems(key))


def _check_keys(path: str, term: Object) -> list[Cause]:
    """Check the label keys that other pods must match or mismatch."""
    same, other = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    causes: list[Cause] = []
    for field, keys in (("matchLabelKeys", same), ("mismatchLabelKeys", other)):
        if keys and term.get("labelSelector") is None:
            causes.append(forbidden_field(f"{path}.{field}", _NO_SELECTOR))
            continue
        for number, key in enumerate(keys):
            causes += check_name(f"{path}.{field}[{number}]", key, qualified_name_problems(key))
    message = "exists in both matchLabelKeys and mismatchLabelKeys"
    shared = [(number, key) for number, key in enumerate(same) if key in other]
    return causes + [invalid_value(f"{path}.matchLabelKeys[{number}]", key, message) for number, key in shared]


def check_tolerations(path: str, tolerations: list[Object]) -> list[Cause]:
    """Check the tolerations of a pod."""
    return [
        cause
        for number, each in enumerate(tolerations)
        if each not in _USUAL
        for cause in check_toleration(f"{path}[{number}]", each)
    ]


_USUAL = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
"""Tolerations that admission adds to all pods."""


def check_toleration(path: str, toleration: Object) -> list[Cause]:
    """Check one toleration."""
    causes: list[Cause] = []
    key, operator, value = (toleration.get(part) or "" for part in ("key", "operator", "value"))
    if key:
        causes += check_name(f"{path}.key", key, qualified_name_problems(key))
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid_value(f"{path}.operator", operator, message))
    effect = toleration.get("effect") or ""
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid_value(f"{path}.effect", effect, message))
    if operator in ("", "Equal"):
        problems = label_value_problems(value)
        if problems:
            causes.append(invalid_value(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            causes.append(invalid_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        known = (*_TOLERATED, *_COMPARED) if operator in _COMPARED else _TOLERATED
        causes.append(not_supported(f"{path}.operator", operator, known))
    if effect and effect not in _EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return causes


def check_spread(path: str, constraints: list[Object]) -> list[Cause]:
    """Check topology spread constraints: unique by topology key and unsatisfiable action."""
    causes: list[Cause] = []
    kinds = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints]
    for number, constraint in enumerate(constraints):
        where = f"{path}[{number}]"
        causes += _check_constraint(where, constraint)
        if kinds[number] in kinds[number + 1 :]:
            told = f"{{{kinds[number][0]}, {kinds[number][1]}}}"
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", told))
        causes += _check_rules(where, constraint)
    return causes


def _check_constraint(path: str, constraint: Object) -> list[Cause]:
    causes: list[Cause] = []
    skew, when = constraint.get("maxSkew", 0), constraint.get("whenUnsatisfiable", "")
    if skew <= 0:
        causes.append(invalid_value(f"{path}.maxSkew", skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    if when not in _SPREAD:
        causes.append(not_supported(f"{path}.whenUnsatisfiable", when, _SPREAD))
    return causes


def _check_rules(path: str, constraint: Object) -> list[Cause]:
    """Check the policies for the nodes and pods that count."""
    causes: list[Cause] = []
    domains, when = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if domains is not None:
        if domains <= 0:
            causes.append(invalid_value(f"{path}.minDomains", domains, "must be greater than zero"))
        if when != "DoNotSchedule":
            message = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
            causes.append(invalid_value(f"{path}.minDomains", domains, message))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in _INCLUSION:
            causes.append(not_supported(f"{path}.{field}", policy, _INCLUSION))
    keys = constraint.get("matchLabelKeys") or []
    if keys and constraint.get("labelSelector") is None:
        return [*causes, forbidden_field(f"{path}.matchLabelKeys", _NO_SELECTOR)]
    for number, key in enumerate(keys):
        causes += check_name(f"{path}.matchLabelKeys[{number}]", key, qualified_name_problems(key))
    return causes + check_label_selector(f"{path}.labelSelector", constraint.get("labelSelector") or {})
