"""Validation of rules that select requests for webhooks and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.names import path_segment_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_word,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MATCH_POLICIES = ("Equivalent", "Exact")
_SCOPES = ("*", "Cluster", "Namespaced")


def check_rule(rule: Raw, path: str) -> Iterator[Cause]:
    """Yield the errors in a rule: its operations, groups, versions, resources and scope."""
    operations = rule.get("operations") or []
    yield from _check_list(operations, f"{path}.operations", "operations")
    for number, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{number}]", operation, OPERATIONS)
    yield from _check_list(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    yield from _check_list(versions, f"{path}.apiVersions", "API versions")
    yield from (required(f"{path}.apiVersions[{number}]") for number, each in enumerate(versions) if not each)
    yield from _check_resources(rule.get("resources") or [], f"{path}.resources")
    yield from check_word(f"{path}.scope", rule.get("scope"), _SCOPES)


def _check_list(values: Sequence[str], path: str, what: str) -> Iterator[Cause]:
    """Check that a list is not empty, and that a wildcard is its only item."""
    if not values:
        yield required(path)
    elif len(values) > 1 and "*" in values:
        yield invalid_value(path, values, f"if '*' is present, must not specify other {what}")


def _check_resources(resources: Sequence[str], path: str) -> Iterator[Cause]:
    if not resources:
        yield required(path)
    all_of, of_all = set[str](), set[str]()
    for number, each in enumerate(resources):
        where = f"{path}[{number}]"
        if not each:
            yield required(where)
        if "/" not in each or each == "*/*":
            continue
        resource, part = each.split("/", 1)
        if resource in all_of:
            yield invalid_value(where, each, f"if '{resource}/*' is present, must not specify {each}")
        if part in of_all:
            yield invalid_value(where, each, f"if '*/{part}' is present, must not specify {each}")
        if part == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_value(path, resources, "if '*/*' is present, must not specify other resources")
    elif len(resources) > 1 and "*" in resources and not any("/" in each for each in resources):
        message = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, resources, message)


def check_match_resources(match: Raw, path: str) -> Iterator[Cause]:
    """Yield the errors in the matchResources of a policy or binding: selectors, and rules with resource names."""
    yield from check_word(f"{path}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(f"{path}.{field}", match.get(field) or {})
    for field in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(field) or ()):
            yield from _check_names(rule.get("resourceNames") or (), f"{path}.{field}[{number}].resourceNames")
            yield from check_rule(rule, f"{path}.{field}[{number}]")


def _check_names(names: Sequence[str], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        yield from check_name(f"{path}[{number}]", name, path_segment_problems(name))
        if name in seen:
            yield duplicate(f"{path}[{number}]", name)
        seen.add(name)
