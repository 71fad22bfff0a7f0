"""What is read of a stored object is what a whole decoder finds at the same paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kilauea.apiserver.strategies.base import text_at
from kilauea.apiserver.strategies.path_reader import reader_of

STEPS = some.sampled_from(["a", "b", "c"])
PATHS = some.lists(some.lists(STEPS, min_size=1, max_size=3).map(".".join), min_size=1, max_size=5)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=3),
    lambda below: some.lists(below, max_size=2) | some.dictionaries(STEPS, below, max_size=3),
    max_leaves=12,
)


@given(paths=PATHS, value=some.dictionaries(STEPS, VALUES, max_size=3))
def test_values_at_the_paths_are_those_of_the_object(paths: list[str], value: dict[str, Any]) -> None:
    read = reader_of(paths)(json.dumps(value).encode())
    for path in paths:
        assert text_at(read, path) == text_at(value, path)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"spec": {"a": "x", "b": ["long"]}, "status": {"c": 1}}, {"spec": {"a": "x"}}),
        ({"spec": None}, {"spec": None}),
        ({"status": {}}, {}),
        ({"spec": "text"}, {"spec": "text"}),
    ],
    ids=["the rest is skipped", "null on the way", "nothing on the way", "a text on the way keeps the whole object"],
)
def test_only_the_values_at_the_paths_are_read(value: dict[str, Any], found: dict[str, Any]) -> None:
    assert reader_of(["spec.a"])(json.dumps(value).encode()) == found
