"""Selectors and tolerations as small hashable values, and their matching.

Wire types represent the manifest; this module makes them canonical (sorted, without duplicates, with defaults), so that
the engine can group pods by equal selectors and evaluate each expression once per distinct label value. A requirement
that Kubernetes cannot parse gets the operator `INVALID`, which matches nothing: an invalid term never raises an
exception. `kilauea.api.validate` reports it to the user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kilauea.api.core import NodeSelector, NodeSelectorTerm, Taint, Toleration
from kilauea.api.meta import LabelSelector, SelectorRequirement
from kilauea.api.remembered import remembered

INVALID = ""
"""Operator of a requirement that cannot be parsed; it matches nothing."""

LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
NODE_OPERATORS = LABEL_OPERATORS | {"Gt", "Lt"}
NODE_NAME_FIELD = "metadata.name"

_LABEL_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(
    r"(?:(?=[^/]{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"(?=.{1,63}\Z)[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


class Requirement(NamedTuple):
    """One condition on a label: `values` are sorted and distinct; an operator of `INVALID` matches nothing."""

    key: str
    operator: str
    values: tuple[str, ...]


Selector = tuple[Requirement, ...]
"""Sorted conditions that must all hold; the empty one matches everything. None in its place matches nothing."""


class NodeTerm(NamedTuple):
    """One of the ORed terms of a node selector: conditions on labels and on the node's name, all of which must hold."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


class TolerationKey(NamedTuple):
    """A toleration with defaults: empty `key` and `effect` mean any, `operator` is never empty."""

    key: str
    operator: str
    value: str
    effect: str


class TaintKey(NamedTuple):
    """A taint; a missing value is empty."""

    key: str
    value: str
    effect: str


# --- validity


@remembered(4096)
def is_label_key(text: str) -> bool:
    """Return True if a text is a label key: a name of up to 63 characters, with an optional DNS domain prefix."""
    return _LABEL_KEY.fullmatch(text) is not None


@remembered(4096)
def is_label_value(text: str) -> bool:
    """Return True if a text is a label value: up to 63 letters, digits, `-`, `_`, `.`, alphanumeric at both ends."""
    return _LABEL_VALUE.fullmatch(text) is not None


@remembered(4096)
def int64(text: str) -> int | None:
    """Parse a signed 64-bit decimal integer; return None for any other text."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def requirement_problem(requirement: SelectorRequirement, operators: Collection[str]) -> str | None:
    """Return the error in a requirement, with the value and the fix; None if valid.

    Args:
        requirement: the requirement in the manifest.
        operators: the allowed operators, LABEL_OPERATORS or NODE_OPERATORS.
    """
    key, operator, values = requirement.key, requirement.operator, requirement.values or []
    if operator not in operators:
        return f'"{operator}" is not an operator: use one of {", ".join(sorted(operators))}'
    if not is_label_key(key):
        return f'"{key}" is not a label key: use a name such as app or example.com/app'
    if operator in ("In", "NotIn") and not values:
        return f"{operator} without values: give at least one value"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"{operator} with values: leave the values out"
    if operator in ("Gt", "Lt") and (len(values) != 1 or int64(values[0]) is None):
        return f"{operator} needs exactly one value, an integer in quotes"
    bad = next((value for value in values if not is_label_value(value)), None)
    return None if bad is None else f'"{bad}" is not a label value: use at most 63 letters, digits, "-", "_", "."'


def field_problem(requirement: SelectorRequirement) -> str | None:
    """Return the error in an entry of `matchFields`; None if valid."""
    if requirement.key != NODE_NAME_FIELD:
        return f'"{requirement.key}" is not a field that can be selected: use {NODE_NAME_FIELD}'
    if requirement.operator not in ("In", "NotIn"):
        return f'"{requirement.operator}" is not an operator for fields: use In or NotIn'
    if len(requirement.values or []) != 1:
        return f"{requirement.operator} needs exactly one value here"
    return None


# --- canonical forms


def _canonical(requirement: SelectorRequirement, problem: str | None) -> Requirement:
    """Return the hashable form of a requirement, INVALID if it has a problem."""
    operator = INVALID if problem else requirement.operator
    return Requirement(requirement.key, operator, tuple(sorted(set(requirement.values or ()))))


def selector_of_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector for all given labels, as in `nodeSelector` and the selector of a Service.

    Label syntax is not checked, as in Kubernetes.
    """
    return tuple(sorted(Requirement(key, "In", (value,)) for key, value in labels.items()))


def selector_of(selector: LabelSelector | None) -> Selector | None:
    """Return the canonical form of a label selector; None (nothing) stays None, an empty one (everything) is `()`."""
    if selector is None:
        return None
    wanted = [
        SelectorRequirement(key=key, operator="In", values=[value])
        for key, value in (selector.match_labels or {}).items()
    ]
    wanted += selector.match_expressions or ()
    return tuple(sorted({_canonical(each, requirement_problem(each, LABEL_OPERATORS)) for each in wanted}))


def _node_term_of(term: NodeSelectorTerm) -> NodeTerm:
    """Return the canonical form of one term."""
    expressions = {_canonical(each, requirement_problem(each, NODE_OPERATORS)) for each in term.match_expressions or ()}
    fields = {_canonical(each, field_problem(each)) for each in term.match_fields or ()}
    return NodeTerm(tuple(sorted(expressions)), tuple(sorted(fields)))


def node_terms_of(selector: NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    """Return canonical terms, any of which must match, in the order of the manifest.

    None means no constraint, so every node matches; `()` is a selector without terms, which matches no node.
    """
    if selector is None:
        return None
    return tuple(_node_term_of(term) for term in selector.node_selector_terms or ())


def node_term_of(term: NodeSelectorTerm | None) -> NodeTerm:
    """Return the canonical form of the term of a preference; None is the empty term, which matches nothing."""
    return _node_term_of(term) if term is not None else NodeTerm((), ())


# --- matching


def requirement_matches_value(requirement: Requirement, value: str | None) -> bool:
    """Return True if a requirement holds for a label `requirement.key` with this value (None: no such label).

    `NotIn` holds without the label. `Gt` and `Lt` need the label, and 64-bit integers on both sides.
    """
    operator, values = requirement.operator, requirement.values
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return bool(values) and value not in values
    if operator == "Exists":
        return value is not None and not values
    if operator == "DoesNotExist":
        return value is None and not values
    if operator in ("Gt", "Lt"):
        return _compares(operator, values, value)
    return False


def _compares(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    """Evaluate `Gt` and `Lt`: compare the label's number with the value."""
    bound = int64(values[0]) if len(values) == 1 else None
    number = int64(value) if value is not None else None
    if bound is None or number is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Return True if all requirements of a selector hold for a set of labels; None matches nothing."""
    if selector is None:
        return False
    return all(requirement_matches_value(each, labels.get(each.key)) for each in selector)


def _field_matches(requirement: Requirement, name: str) -> bool:
    """Return True if a condition of `matchFields` holds for a node of this name."""
    if requirement.key != NODE_NAME_FIELD or len(requirement.values) != 1:
        return False
    if requirement.operator == "In":
        return name == requirement.values[0]
    return requirement.operator == "NotIn" and name != requirement.values[0]


def node_term_matches(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    """Return True if a term holds for a node with these labels and this name; an empty term holds for none."""
    if not term.expressions and not term.fields:
        return False
    return matches(term.expressions, labels) and all(_field_matches(each, name) for each in term.fields)


# --- taints and tolerations


def toleration_of(toleration: Toleration) -> TolerationKey:
    """Return the hashable form of a toleration; the operator defaults to Equal, and Exists has no value."""
    operator = toleration.operator or "Equal"
    value = "" if operator == "Exists" else toleration.value or ""
    return TolerationKey(toleration.key or "", operator, value, toleration.effect or "")


def taint_of(taint: Taint) -> TaintKey:
    """Return the hashable form of a taint."""
    return TaintKey(taint.key, taint.value or "", taint.effect)


def tolerates(toleration: TolerationKey, taint: TaintKey) -> bool:
    """Return True if a toleration covers a taint.

    An empty key or effect of the toleration covers any. `Lt` and `Gt` belong to a disabled alpha feature, so they cover
    nothing, like any unknown operator.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(
    taints: Iterable[TaintKey], tolerations: Collection[TolerationKey], effects: Collection[str]
) -> TaintKey | None:
    """Return the first taint with one of the effects that no toleration covers; None if all are covered."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
