"""Validation of the pod failure policies and success policies of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import (
    check_name,
    check_not_negative,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.jobs.indexes import INDEXED, count_indexes

_ACTIONS, _OPERATORS = ("Count", "FailIndex", "FailJob", "Ignore"), ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
MOST_RULES, MOST_CODES, MOST_SUCCESSES = 20, 255, 20
_BOTH = "specifying both OnExitCodes and OnPodConditions is not supported"
_NEITHER = "specifying one of OnExitCodes and OnPodConditions is required"


def check_failure_policy(path: str, spec: Object) -> Iterator[Cause]:
    """Yield the errors in the failure policy of a job."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), MOST_RULES)
    for number, rule in enumerate(rules):
        where, action = f"{path}.rules[{number}]", rule.get("action", "")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if not action:
            yield required(f"{where}.action", f"valid values: {_listed(_ACTIONS)}")
        elif action not in _ACTIONS:
            yield not_supported(f"{where}.action", action, _ACTIONS)
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid_value(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        if codes is not None:
            yield from _check_codes(f"{where}.onExitCodes", codes, _container_names(spec))
        yield from _check_conditions(f"{where}.onPodConditions", conditions)
        if codes is not None and conditions:
            yield Cause(where, "FieldValueInvalid", f"Invalid value: {_BOTH}")
        elif codes is None and not conditions:
            yield Cause(where, "FieldValueInvalid", f"Invalid value: {_NEITHER}")


def told_failure_policy(policy: Object) -> Object:
    """Return a failure policy as the real server shows it in messages."""
    return {"Rules": [_told_rule(rule) for rule in policy.get("rules") or []]}


def _told_rule(rule: Object) -> Object:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    told_codes = codes and {
        "ContainerName": codes.get("containerName"),
        "Operator": codes.get("operator", ""),
        "Values": codes.get("values"),
    }
    told = [{"Type": each.get("type", ""), "Status": each.get("status", "True")} for each in conditions or []]
    return {"Action": rule.get("action", ""), "OnExitCodes": told_codes, "OnPodConditions": told or None}


def told_success_policy(policy: Object) -> Object:
    """Return a success policy as the real server shows it in messages."""
    parts = (("SucceededIndexes", "succeededIndexes"), ("SucceededCount", "succeededCount"))
    return {"Rules": [{name: rule.get(field) for name, field in parts} for rule in policy.get("rules") or []]}


def _listed(words: Sequence[str]) -> str:
    """Return words as the real server lists them."""
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _container_names(spec: Object) -> set[str]:
    pod = spec_of(spec.get("template") or {})
    return {each.get("name", "") for part in ("containers", "initContainers") for each in pod.get(part) or []}


def _check_codes(path: str, codes: Object, names: set[str]) -> Iterator[Cause]:
    operator, values, name = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_listed(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if name is not None and name not in names:
        message = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(f"{path}.containerName", name, message)
    if not values:
        yield invalid_value(f"{path}.values", values, "at least one value is required")
    elif len(values) > MOST_CODES:
        yield too_many(f"{path}.values", len(values), MOST_CODES)
    for number, value in enumerate(values):
        if value == 0 and operator == "In":
            yield invalid_value(f"{path}.values[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{path}.values[{number}]", value)
    if list(values) != sorted(values):
        yield invalid_value(f"{path}.values", values, "must be ordered")


def _check_conditions(path: str, conditions: Sequence[Object]) -> Iterator[Cause]:
    if len(conditions) > MOST_RULES:
        yield too_many(path, len(conditions), MOST_RULES)
    for number, each in enumerate(conditions):
        kind, status = each.get("type", ""), each.get("status", "True")
        yield from check_name(f"{path}[{number}].type", kind, qualified_name_problems(kind))
        if status not in _STATUSES:
            yield not_supported(f"{path}[{number}].status", status, _STATUSES)


def check_success_policy(path: str, spec: Object) -> Iterator[Cause]:
    """Yield the errors in the success policy of a job."""
    rules = spec["successPolicy"].get("rules") or []
    if spec.get("completionMode") != INDEXED:
        yield invalid_value(path, told_success_policy(spec["successPolicy"]), "requires indexed completion mode")
        return
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    elif len(rules) > MOST_SUCCESSES:
        yield too_many(f"{path}.rules", len(rules), MOST_SUCCESSES)
    for number, rule in enumerate(rules):
        yield from _check_success(f"{path}.rules[{number}]", rule, spec.get("completions") or 0)


def _check_success(path: str, rule: Object, completions: int) -> Iterator[Cause]:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), None
    if indexes is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            message = f"error parsing succeededIndexes: {error}"
            yield invalid_value(f"{path}.succeededIndexes", indexes, message)
    if count is None:
        return
    where = f"{path}.succeededCount"
    yield from check_not_negative(where, count)
    if count > completions:
        message = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid_value(where, count, message)
    elif total is not None and count > total:
        message = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid_value(where, count, message)
