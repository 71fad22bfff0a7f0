"""The CEL rules of a schema (`x-kubernetes-validations`): checked with a definition, applied to its objects."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kilauea.api.cel import CelError, CelUnsupportedError, Program, compiled
from kilauea.apiserver.crd.heavy_rules import evaluate_elsewhere, is_heavy, may_be_heavy
from kilauea.apiserver.crd.values import as_cel
from kilauea.apiserver.fields import invalid_value, not_supported, required
from kilauea.apiserver.schema.validation import type_name
from kilauea.apiserver.status import Cause

log = logging.getLogger(__name__)

Raw = Mapping[str, Any]

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_OLD = re.compile(r"\boldSelf\b")
_MISSING = object()


@dataclass(frozen=True)
class ValidationRule:
    """One rule; `program` is None if it cannot be evaluated here, and so is not enforced."""

    text: str
    program: Program | None
    message: str = ""
    message_program: Program | None = None
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    is_transition: bool = False


@dataclass
class RuleNode:
    """The rules of a node of a schema, and of the nodes below that have any."""

    raw: Raw
    rules: list[ValidationRule] = field(default_factory=list)
    properties: dict[str, RuleNode] = field(default_factory=dict)
    each: RuleNode | None = None
    """Rules of the items of a list or of the values of a map."""


def rules_of(raw: Raw, name: str = "") -> RuleNode | None:
    """The rules of a schema; None if there are none. What cannot be enforced is said in the log, by `name`."""
    node = RuleNode(raw)
    node.rules = [_rule(each, name) for each in raw.get("x-kubernetes-validations") or ()]
    for key, child in raw.get("properties", {}).items():
        below = rules_of(child, name)
        if below is not None:
            node.properties[key] = below
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            node.each = rules_of(raw[key], name) or node.each
    return node if node.rules or node.properties or node.each else None


def _rule(raw: Raw, name: str) -> ValidationRule:
    text = raw["rule"].strip()
    try:
        program = compiled(text) if not raw.get("optionalOldSelf") else None
        words = raw.get("messageExpression") or ""
        message = compiled(words) if words and not may_be_heavy(words) else None
    except CelError as error:
        log.warning("%s: a rule is not enforced: %s", name, error)
        program = message = None
    else:
        if program is None:
            log.warning(
                "%s: a rule is not enforced: %s: install kilauea[cel]; optionalOldSelf is not supported", name, text
            )
    return ValidationRule(
        text, program, (raw.get("message") or "").strip(), message, raw.get("reason") or "FieldValueInvalid",
        raw.get("fieldPath") or "", bool(_OLD.search(text)),
    )  # fmt: skip


# --- of a definition


def check_rules(raw: Raw, path: str) -> Iterator[Cause]:
    """Errors in the rules of a schema as such."""
    for number, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        yield from _check_rule(rule, f"{path}.x-kubernetes-validations[{number}]")
    for key, child in sorted(raw.get("properties", {}).items()):
        yield from check_rules(child, f"{path}.properties[{key}]")
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            yield from check_rules(raw[key], f"{path}.{key}")


def _check_rule(rule: Raw, path: str) -> Iterator[Cause]:
    text = (rule.get("rule") or "").strip()
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
        return
    if "\n" in text and not (rule.get("message") or "").strip() and not rule.get("messageExpression"):
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("reason") and rule["reason"] not in REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], REASONS)
    for key in ("rule", "messageExpression"):
        try:
            compiled((rule.get(key) or "true").strip())
        except CelUnsupportedError:
            continue
        except CelError as error:
            yield invalid_value(f"{path}.{key}", rule[key], str(error))


# --- of an object


def apply_rules(node: RuleNode, value: Any, old: Any = None, *, has_old: bool = False) -> list[Cause]:
    """Return the violations of rules by an object; rules about changes only apply where there is an old value."""
    return list(_apply(node, value, old if has_old else _MISSING, ""))


def _apply(node: RuleNode, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if value is None:
        return
    if node.rules:
        seen = as_cel(node.raw, value)
        seen_old = _MISSING if old is _MISSING or old is None else as_cel(node.raw, old)
        for rule in node.rules:
            if is_heavy(rule.text, [value, None if old is _MISSING else old]):
                yield from _evaluate_elsewhere(rule, node.raw, value, old, path)
            else:
                yield from _evaluate(rule, seen, seen_old, value, path)
    if isinstance(value, dict):
        for key, below in value.items():
            child = node.properties.get(key) or (node.each if key not in node.raw.get("properties", {}) else None)
            if child is not None:
                before = old.get(key, _MISSING) if isinstance(old, dict) else _MISSING
                yield from _apply(child, below, before, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and node.each is not None:
        for index, item in enumerate(value):
            yield from _apply(node.each, item, _counterpart(node.raw, item, old), f"{path}[{index}]")


def _counterpart(raw: Raw, item: Any, old: Any) -> Any:
    """The old item that is meant by a new one, in a list whose items have keys."""
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _MISSING
    identity = [item.get(key) for key in keys]
    same = (each for each in old if isinstance(each, dict) and [each.get(key) for key in keys] == identity)
    return next(same, _MISSING)


def _evaluate_elsewhere(rule: ValidationRule, raw: Raw, value: Any, old: Any, path: str) -> Iterator[Cause]:
    """Evaluate a rule that may take long; its message is the plain one."""
    has_old = old is not _MISSING and old is not None
    if rule.program is None or (rule.is_transition and not has_old):
        return
    outcome = evaluate_elsewhere(rule.text, raw, value, old, has_old=has_old)
    message = rule.message or rule.text
    if outcome is None:
        words = f"no further validation rules will be run due to call cost exceeds limit for rule: {message}"
        yield Cause(path, "FieldValueInvalid", f'Invalid value: "{type_name(value)}": {words}')
    elif outcome.error:
        words = f'Invalid value: "{type_name(value)}": {outcome.error} evaluating rule: {message}'
        yield Cause(path, "FieldValueInvalid", words)
    elif not outcome.holds:
        plain = replace(rule, message_program=None)
        yield _cause(plain, {}, value, path)


def _evaluate(rule: ValidationRule, seen: Any, old: Any, value: Any, path: str) -> Iterator[Cause]:
    if rule.program is None or (rule.is_transition and old is _MISSING):
        return
    variables = {"self": seen} if old is _MISSING else {"self": seen, "oldSelf": old}
    try:
        holds = rule.program(variables)
    except CelError as error:
        words = f'Invalid value: "{type_name(value)}": {error} evaluating rule: {rule.message or rule.text}'
        yield Cause(path, "FieldValueInvalid", words)
        return
    if holds is not True:
        yield _cause(rule, variables, value, path)


def _cause(rule: ValidationRule, variables: Raw, value: Any, path: str) -> Cause:
    place = f"{path}{rule.field_path}" if path else rule.field_path.removeprefix(".")
    message = _message(rule, variables)
    shown = "" if isinstance(value, dict | list) else f"{msgspec.json.encode(value).decode()}: "
    texts = {
        "FieldValueRequired": f"Required value: {message}",
        "FieldValueForbidden": f"Forbidden: {message}",
        "FieldValueDuplicate": f"Duplicate value: {shown}".removesuffix(": "),
    }
    return Cause(place, rule.reason, texts.get(rule.reason, f"Invalid value: {shown}{message}"))


def _message(rule: ValidationRule, variables: Raw) -> str:
    if rule.message_program is not None:
        try:
            made = rule.message_program(variables)
        except CelError:
            made = ""
        if isinstance(made, str) and made.strip() and "\n" not in made:
            return made
    return rule.message or f"failed rule: {rule.text}"
