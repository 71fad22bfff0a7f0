"""Defaults: values of unset fields.

Custom resources have `default` in the schema. Built-in kinds have the defaults that the real server sets in code (the
modules `coded` and `rules`), and the fields that Go writes even if they were never set.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, NamedTuple

from kilauea.apiserver.schema.nodes import Schema, derived
from kilauea.apiserver.schema.reading import zero
from kilauea.apiserver.schema.rules import CODED_RULES, Rule

_SIMPLE = (str, int, float, bool, type(None))


class _Plan(NamedTuple):
    """The defaults to set in an object.

    Attributes:
        values: fields with a default, and True if that must be copied.
        rule: sets defaults that depend on other fields, for a built-in definition.
        always: fields that are written even if unset, with that value, and True if it is an empty object.
        below: fields that may contain defaults.
        additional: the schema of the values of other keys, if they may contain defaults.
    """

    values: tuple[tuple[str, Any, bool], ...]
    rule: Rule | None
    always: tuple[tuple[str, Any, bool], ...]
    below: dict[str, Schema]
    additional: Schema | None


def apply_defaults(schema: Schema, value: Any, settled: Collection[str] = ()) -> None:
    """Set the defaults of an object, or a part of one, in place.

    The object must have been read by `read_builtin` or `read_custom`. Fields in `settled` already have their defaults.
    """
    if value.__class__ is dict:
        _fill_object(schema, value, settled)
    elif value.__class__ is list and schema.items is not None and has_defaults(schema.items):
        for item in value:
            apply_defaults(schema.items, item)


def _fill_object(schema: Schema, obj: dict[str, Any], settled: Collection[str] = ()) -> None:
    plan = _plan(schema)
    for key, default, is_copied in plan.values:
        if key not in obj:
            obj[key] = copy.deepcopy(default) if is_copied else default
    if plan.rule is not None:
        plan.rule(obj)
    for key, empty, is_object in plan.always:
        if key not in obj:
            obj[key] = {} if is_object else empty
    below = plan.below
    for key, value in obj.items() if below else ():
        child = below.get(key)
        if child is None or key in settled:
            continue
        if value.__class__ is dict:
            _fill_object(child, value)
        elif value:
            apply_defaults(child, value)
    additional = plan.additional
    if additional is not None:
        for key, value in obj.items():
            if key not in schema.properties:
                apply_defaults(additional, value)


@derived
def _plan(schema: Schema) -> _Plan:
    defaults = [(key, child.default) for key, child in schema.properties.items() if _has_default(schema, key, child)]
    values = [(key, default, not isinstance(default, _SIMPLE)) for key, default in defaults]
    marks = schema.layout.items()
    zeros = [
        (key, None if mark.startswith("=*") else zero(schema.properties[key]))
        for key, mark in marks
        if mark.startswith("=")
    ]
    always = [(key, empty, empty == {}) for key, empty in zeros]
    below = {key: child for key, child in schema.properties.items() if has_defaults(child)}
    additional = schema.additional if schema.additional is not None and has_defaults(schema.additional) else None
    return _Plan(tuple(values), CODED_RULES.get(schema.name), tuple(always), below, additional)


def _has_default(schema: Schema, key: str, child: Schema) -> bool:
    """Return True if a field has a default; OpenAPI also lists the empty values of Go's types as such."""
    if not child.has_default:
        return False
    return not schema.layout or bool(child.default) or "*" in schema.layout.get(key, "").partition("/")[0]


@derived
def has_defaults(schema: Schema) -> bool:
    """Return True if there may be defaults at or below a node."""
    return _matters_within(schema, frozenset())


def _matters_within(schema: Schema, above: frozenset[str | int]) -> bool:
    identity = schema.name or id(schema)
    if identity in above:
        return False
    above |= {identity}
    if schema.name in CODED_RULES or any(mark.startswith("=") for mark in schema.layout.values()):
        return True
    children = schema.properties
    if any(_has_default(schema, key, child) or _matters_within(child, above) for key, child in children.items()):
        return True
    return any(each is not None and _matters_within(each, above) for each in (schema.items, schema.additional))
