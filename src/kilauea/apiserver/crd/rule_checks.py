"""Checks of the CEL rules of a definition on write: types and worst-case cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.cel import CelError, compiled
from kilauea.api.cel.typing import DYN, Type, check_expression, estimated_cost, optional_of
from kilauea.apiserver.crd.rule_costs import RuleCosts
from kilauea.apiserver.fields import invalid_value, not_supported, required
from kilauea.apiserver.schema.rule_types import LARGEST_REQUEST, type_of_schema
from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
OLD = re.compile(r"\boldSelf\b")
"""Matches the expressions of transition rules."""
_VARIABLES = frozenset({"self", "oldSelf"})
_NAME = "selfType"
_RESULTS = {"rule": ("bool", "cel expression must evaluate to a bool"),
            "messageExpression": ("string", "messageExpression must evaluate to a string")}  # fmt: skip


def check_rules(raw: Raw, path: str) -> Iterator[Cause]:
    """Yield the errors in the rules of the schema of a kind, and in their total cost."""
    costs = RuleCosts(path)
    yield from _Node(raw, path, costs, is_root=True).check()
    yield from costs.total_causes()


@dataclass(frozen=True)
class _Node:
    """A schema, and the maximum number of its values in an object; None without a limit."""

    raw: Raw
    path: str
    costs: RuleCosts
    count: int | None = 1
    is_root: bool = False

    def check(self) -> Iterator[Cause]:
        """Yield the errors in the rules here and below."""
        rules = self.raw.get("x-kubernetes-validations") or ()
        if rules:
            whole = self.is_root or bool(self.raw.get("x-kubernetes-embedded-resource"))
            values = _Values(self, type_of_schema(self.raw, _NAME, whole=whole) or DYN)
            for number, rule in enumerate(rules):
                yield from values.check(rule, f"{self.path}.x-kubernetes-validations[{number}]")
        for key, child in sorted((self.raw.get("properties") or {}).items()):
            yield from self._below(child, f"{self.path}.properties[{key}]")
        for key in ("items", "additionalProperties"):
            if isinstance(self.raw.get(key), dict):
                yield from self._below(self.raw[key], f"{self.path}.{key}")

    def _below(self, child: Raw, path: str) -> Iterator[Cause]:
        most = _most_elements(self.raw)
        count = None if self.count is None or most is None else self.count * most
        yield from _Node(child, path, self.costs, count).check()


def _most_elements(raw: Raw) -> int | None:
    """Return the maximum number of values below a value; None without a limit."""
    if raw.get("type") == "array":
        most = raw.get("maxItems")
    elif raw.get("type") == "object" and raw.get("additionalProperties") is not None:
        most = raw.get("maxProperties")
    else:
        return 1
    return None if most is None else max(int(most), 0)


_PATH_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)+)'\]")


def _is_path(raw: Raw, path: str) -> bool:
    """Return True if a path leads from an object of a schema to a field or key that it describes."""
    at = 0
    while at < len(path):
        step = _PATH_STEP.match(path, at)
        if step is None:
            return False
        name, others = step[1] or step[2], raw.get("additionalProperties")
        described = raw.get("properties", {}).get(name, others if isinstance(others, dict) else None)
        if described is None:
            return False
        raw, at = described, step.end()
    return True


@dataclass(frozen=True)
class _Values:
    """The variables of the rules of one schema."""

    node: _Node
    kind: Type
    variables: dict[str, Type] = field(default_factory=dict)

    def check(self, rule: Raw, path: str) -> Iterator[Cause]:
        """Yield the errors in a rule."""
        text = (rule.get("rule") or "").strip()
        if not text:
            yield required(f"{path}.rule", "rule is not specified")
            return
        if "\n" in (rule.get("message") or "").strip():
            yield invalid_value(f"{path}.message", rule["message"], "must not contain line breaks")
        elif "\n" in text and not (rule.get("message") or "").strip() and not rule.get("messageExpression"):
            yield required(f"{path}.message", "message must be specified if rule contains line breaks")
        if rule.get("reason") and rule["reason"] not in REASONS:
            yield not_supported(f"{path}.reason", rule["reason"], REASONS)
        if rule.get("fieldPath") and not _is_path(self.node.raw, rule["fieldPath"]):
            yield invalid_value(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path")
        for key in ("rule", "messageExpression"):
            if rule.get(key):
                yield from self._expression(rule, key, f"{path}.{key}")
        if rule.get("optionalOldSelf") is not None and not OLD.search(text):
            message = "may not be set if oldSelf is not used in rule"
            yield invalid_value(f"{path}.optionalOldSelf", rule["optionalOldSelf"], message)

    def _expression(self, rule: Raw, key: str, path: str) -> Iterator[Cause]:
        """Check one expression of a rule: its types, result and cost."""
        text = rule[key].strip()
        old = optional_of(self.kind) if rule.get("optionalOldSelf") else self.kind
        wanted, words = _RESULTS[key]
        try:
            checked = check_expression(text, {"self": self.kind, "oldSelf": old})
            if str(checked.type) != wanted and self.kind != DYN:
                raise CelError(words)
            compiled(text, _VARIABLES)
        except CelError as error:
            prefix = "messageExpression " if key == "messageExpression" and str(error) != words else ""
            yield invalid_value(path, rule[key], f"{prefix}{error}")
            return
        cost = estimated_cost(checked, self.kind)
        if key == "rule":
            yield from self.node.costs.add("rule", path, cost, self._most_values())
        else:
            yield from self.node.costs.add("messageExpression", path, cost, 1)

    def _most_values(self) -> int:
        """Return the maximum number of values that a rule applies to: if unlimited, as many as fit into a request."""
        return LARGEST_REQUEST // (self.kind.least_bytes + 1) if self.node.count is None else self.node.count
