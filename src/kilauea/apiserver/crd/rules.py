"""The CEL rules of a schema (`x-kubernetes-validations`), applied to objects."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from kilauea.api.cel import NONE, CelCostError, CelError, Optional, compiled
from kilauea.api.cel.program import COST_OF_CALL, Program
from kilauea.apiserver.crd.rule_checks import OLD
from kilauea.apiserver.deferred import decoded_causes, deferred, encoded_causes, has_answers
from kilauea.apiserver.schema.rule_values import as_cel
from kilauea.apiserver.schema.validation import type_name
from kilauea.apiserver.status import LET_PASS, Cause

log = logging.getLogger(__name__)

Raw = Mapping[str, Any]

_MISSING = object()
_VARIABLES = frozenset({"self", "oldSelf"})
COST_OF_OBJECT = 10_000_000
"""Maximum total cost of the rules of one object, as in Kubernetes."""
LIGHT_COST = 40_000
"""Cost up to which rules are evaluated at once, about ten milliseconds. Others are evaluated in another process."""
WORK_OF_RULE, WORK_OF_CHARACTER = 20, 8
"""Costs of the overhead of a rule, and of compiling a character of it."""
LONGEST_MESSAGE = 5 * 1024
"""Maximum bytes of the message from an expression."""


class _TooLight(Exception):
    """The rules of an object cost too much to be evaluated at once."""


class _OutOfBudget(Exception):
    """The total cost is too high; no further rules are evaluated."""


@dataclass
class Budget:
    """The remaining cost limit of the rules of an object; `at_once` if more is evaluated in another process."""

    left: int
    at_once: bool = False

    def begin(self, rule: ValidationRule) -> None:
        """Count the work before the evaluation of a rule, which its cost does not include.

        Raises:
            _TooLight: it is too much to be done at once.
        """
        if self.at_once:
            self.left -= WORK_OF_RULE + (0 if rule.is_compiled else WORK_OF_CHARACTER * len(rule.text))
            if self.left < 0:
                raise _TooLight

    def run(self, program: Program, variables: Raw) -> Any:
        """Return the value of a program.

        Raises:
            CelError: it fails.
            CelCostError: it exceeds the cost limit of an expression.
            _TooLight: it costs too much to be evaluated at once.
            _OutOfBudget: the rules of the object exceed their total cost limit.
        """
        limit = min(self.left, COST_OF_CALL)
        cost = limit
        try:
            value, cost = program.costed(variables, limit)
        except CelCostError as error:
            if self.at_once:
                raise _TooLight from error
            if limit < COST_OF_CALL:
                raise _OutOfBudget from error
            raise
        except CelError as error:
            cost = error.cost
            raise
        finally:
            self.left -= cost
        return value


@dataclass
class ValidationRule:
    """One rule. It is compiled on first use, as a definition may have thousands.

    Attributes:
        text: the expression.
        name: the name of the definition, for the log.
        message: the message for objects that violate the rule.
        message_text: the expression of the message.
        reason: the reason of the error.
        field_path: the path of the error, below the value.
        is_transition: True if it refers to the old value.
        optional_old: True if `oldSelf` is an optional, and the rule also applies without an old value.
    """

    text: str
    name: str
    message: str = ""
    message_text: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    is_transition: bool = False
    optional_old: bool = False
    _programs: tuple[Program | None, Program | None] | None = None

    @property
    def is_compiled(self) -> bool:
        """True if it is compiled."""
        return self._programs is not None

    @property
    def program(self) -> Program | None:
        """The compiled rule; None if it cannot be compiled, and so is not enforced."""
        return self._compiled()[0]

    @property
    def message_program(self) -> Program | None:
        """The compiled message expression; None if it has none."""
        return self._compiled()[1]

    def _compiled(self) -> tuple[Program | None, Program | None]:
        if self._programs is None:
            try:
                message = compiled(self.message_text, _VARIABLES) if self.message_text else None
                self._programs = compiled(self.text, _VARIABLES), message
            except CelError as error:  # in a definition that an older version has accepted
                log.warning("%s: a rule is not enforced: write the definition again to see why: %s", self.name, error)
                self._programs = None, None
        return self._programs


@dataclass
class RuleNode:
    """The rules of a schema node, and of the nodes below with rules."""

    raw: Raw
    rules: list[ValidationRule] = field(default_factory=list)
    properties: dict[str, RuleNode] = field(default_factory=dict)
    each: RuleNode | None = None
    """Rules of the items of a list or of the values of a map."""


def rules_of(raw: Raw, name: str = "") -> RuleNode | None:
    """Return the rules of a schema; None if it has none. `name` is for the log."""
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
    return ValidationRule(
        text, name, (raw.get("message") or "").strip(), (raw.get("messageExpression") or "").strip(),
        raw.get("reason") or "FieldValueInvalid", raw.get("fieldPath") or "", bool(OLD.search(text)),
        bool(raw.get("optionalOldSelf")),
    )  # fmt: skip


# --- application to objects


def apply_rules(node: RuleNode, value: Any, old: Any = None, *, has_old: bool = False) -> list[Cause]:
    """Return the violations of rules by an object; transition rules apply only with an old value.

    Violations that an update did not cause have the reason `LET_PASS`.

    Raises:
        Deferred: the rules are evaluated in another process, which is not finished yet.
    """
    question = _question(node, value, old, has_old) if has_answers() else b""
    if not question:
        try:
            return _applied(node, value, old if has_old else _MISSING, Budget(LIGHT_COST, at_once=True))
        except _TooLight:
            question = _question(node, value, old, has_old)
    answer = deferred(question)
    if not answer:
        return [_out_of_budget("", value)]
    return decoded_causes(answer)


def _question(node: RuleNode, value: Any, old: Any, has_old: bool) -> bytes:
    return msgspec.json.encode({"raw": node.raw, "value": value, "old": old, "has_old": has_old})


def apply_heavy_rules(question: bytes) -> bytes:
    """Apply the rules of a schema to an object, up to the total cost limit; runs in another process."""
    asked = msgspec.json.decode(question)
    node = rules_of(asked["raw"])
    old = asked["old"] if asked["has_old"] else _MISSING
    causes = [] if node is None else _applied(node, asked["value"], old, Budget(COST_OF_OBJECT))
    return encoded_causes(causes)


def _applied(node: RuleNode, value: Any, old: Any, budget: Budget) -> list[Cause]:
    causes: list[Cause] = []
    with suppress(_OutOfBudget):  # earlier violations count
        causes.extend(_apply(node, value, old, "", budget))
    return causes


def _apply(node: RuleNode, value: Any, old: Any, path: str, budget: Budget) -> Iterator[Cause]:
    if value is None:
        return
    if node.rules:
        seen = as_cel(node.raw, value)
        seen_old = _MISSING if old is _MISSING or old is None else as_cel(node.raw, old)
        is_kept = old is not _MISSING and old == value
        for rule in node.rules:
            yield from _new(rule, is_kept, _evaluate(rule, seen, seen_old, value, path, budget))
    if isinstance(value, dict):
        described = node.raw.get("properties", {})
        for key, below in value.items():
            child = node.properties.get(key) if key in described else node.each
            if child is not None:
                before = old.get(key, _MISSING) if isinstance(old, dict) else _MISSING
                place = f"{path}[{key}]" if key not in described else f"{path}.{key}" if path else key
                yield from _apply(child, below, before, place, budget)
    elif isinstance(value, list) and node.each is not None:
        for index, item in enumerate(value):
            yield from _apply(node.each, item, _counterpart(node.raw, item, old), f"{path}[{index}]", budget)


def _new(rule: ValidationRule, is_kept: bool, causes: Iterator[Cause]) -> Iterator[Cause]:
    """Yield the causes, letting pass those of unchanged values, unless the rule is a transition rule."""
    passed: list[Cause] = []
    try:
        passed.extend(causes)
    except _OutOfBudget:
        yield from passed  # unchecked values may have changed
        raise
    for cause in passed:
        yield cause if rule.is_transition or not is_kept else cause._replace(reason=LET_PASS)


def _counterpart(raw: Raw, item: Any, old: Any) -> Any:
    """Return the old item that corresponds to a new one, in a list whose items have keys."""
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _MISSING
    identity = [item.get(key) for key in keys]
    same = (each for each in old if isinstance(each, dict) and [each.get(key) for key in keys] == identity)
    return next(same, _MISSING)


def _evaluate(rule: ValidationRule, seen: Any, old: Any, value: Any, path: str, budget: Budget) -> Iterator[Cause]:
    if rule.is_transition and old is _MISSING and not rule.optional_old:
        return
    budget.begin(rule)
    if rule.program is None:
        return
    variables = {"self": seen} if old is _MISSING else {"self": seen, "oldSelf": old}
    if rule.optional_old:
        variables["oldSelf"] = NONE if old is _MISSING else Optional(old, True)
    failed = partial(Cause, path, "FieldValueInvalid")
    prefix, said = f'Invalid value: "{type_name(value)}": ', rule.message or rule.text
    try:
        holds = budget.run(rule.program, variables)
    except CelCostError as error:
        message = "no further validation rules will be run due to call cost exceeds limit for rule"
        yield failed(f"{prefix}'{error}': {message}: {said}")
        raise _OutOfBudget from error
    except _OutOfBudget:
        yield _out_of_budget(path, value)
        raise
    except CelError as error:
        if str(error).startswith("no such overload"):
            message = "call arguments did not match a supported operator, function or macro signature for rule"
            yield failed(f"{prefix}'{error}': {message}: {said}")
        else:
            yield failed(f"{prefix}{error} evaluating rule: {said}")
        return
    if holds is not True:
        yield _cause(rule, variables, value, path, budget)


def _out_of_budget(path: str, value: Any) -> Cause:
    message = "validation failed due to running out of cost budget, no further validation rules will be run"
    return Cause(path or "<nil>", "FieldValueInvalid", f'Invalid value: "{type_name(value)}": {message}')


def _cause(rule: ValidationRule, variables: Raw, value: Any, path: str, budget: Budget) -> Cause:
    place = f"{path}{rule.field_path}" if path else rule.field_path.removeprefix(".")
    message = _message(rule, variables, budget)
    shown = "" if isinstance(value, dict | list) else f"{msgspec.json.encode(value).decode()}: "
    texts = {
        "FieldValueRequired": f"Required value: {message}",
        "FieldValueForbidden": f"Forbidden: {message}",
        "FieldValueDuplicate": f"Duplicate value: {shown}".removesuffix(": "),
    }
    return Cause(place, rule.reason, texts.get(rule.reason, f"Invalid value: {shown}{message}"))


def _message(rule: ValidationRule, variables: Raw, budget: Budget) -> str:
    if rule.message_program is not None:
        try:
            made = budget.run(rule.message_program, variables)
        except (CelError, _OutOfBudget):
            made = ""
        if isinstance(made, str) and made.strip() and "\n" not in made and len(made.encode()) <= LONGEST_MESSAGE:
            return made
    return rule.message or f"failed rule: {rule.text}"
