"""Tables show any object of the right types: one odd object must not end the list of all the others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kilauea.apiserver.schema import builtin_resources, builtin_schema
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.schema.reading import DecodeError, read_builtin
from kilauea.apiserver.tables.columns import selector_text
from kilauea.apiserver.tables.kinds import forms

NOW = 1_700_000_000_000_000
TEXTS = ("", "a", "1", "1Gi", "True", "x/y", "2020-01-01T00:00:00Z", "\u00e9", "-1", "a:b")
KEYS = ("a", "cpu", "memory", "pods")
QUANTITIES = ("0", "1", "1Gi", "100m", "-5")
DEEPEST = 9
OBJECTS = 60
"""Objects of each kind."""


def any_value(schema: Schema, rng: Random, depth: int = 0) -> Any:
    """A value of the type that a schema describes; fields are there or not at random."""
    if schema.int_or_string:
        return rng.choice([1, "50%"])
    if schema.name.endswith(("Time", "MicroTime")):
        return rng.choice([None, "2020-01-01T00:00:00Z"])
    if schema.name.endswith("Quantity"):
        return rng.choice(QUANTITIES)
    if schema.properties:
        shown = 0.7 if depth < 2 else 0.5 if depth < DEEPEST else 0
        return {key: any_value(each, rng, depth + 1) for key, each in schema.properties.items() if rng.random() < shown}
    if schema.additional is not None:
        return {rng.choice(KEYS): any_value(schema.additional, rng, depth + 1) for _ in range(rng.randrange(3))}
    if schema.items is not None:
        return [any_value(schema.items, rng, depth + 1) for _ in range(rng.randrange(3) if depth < DEEPEST else 0)]
    plain: dict[str, tuple[Any, ...]] = {
        "integer": (0, 1, -1, 2**31 - 1),
        "boolean": (True, False),
        "string": TEXTS,
    }
    return rng.choice(plain.get(schema.type, ({},)))


@pytest.mark.parametrize("kind", sorted(forms()), ids="/".join)
def test_every_object_of_the_right_types_has_a_row(kind: tuple[str, str]) -> None:
    rng, form = Random(1), forms()[kind]
    for facts in builtin_resources():
        if (facts["group"], facts["resource"]) != kind:
            continue
        schema = builtin_schema(facts["group"], facts["version"], facts["responseKind"]["kind"])
        for _ in range(OBJECTS):
            obj = any_value(schema, rng)
            obj["metadata"] = {"name": "a", **(obj.get("metadata") or {})}
            try:
                read_builtin(schema, obj)
            except DecodeError:  # what is not stored is not shown
                continue
            assert len(form.row(obj, NOW).cells) >= len(form.columns), obj


def test_a_selector_with_an_invalid_operator_is_shown_as_an_error() -> None:
    assert selector_text({"matchExpressions": [{"key": "a", "operator": "1Gi"}]}) == "<error>"
    assert (
        selector_text({"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}) == "b=c,a"
    )
