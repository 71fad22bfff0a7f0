"""Sets of fields: their algebra, and how they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.patch.widgets import WIDGET, widgets
from kilauea.apiserver.patch.compare import applied_fields, compare
from kilauea.apiserver.patch.fieldset import (
    difference,
    fields,
    from_fields_v1,
    has,
    intersection,
    ordered,
    path_text,
    paths,
    union,
    without,
)
from kilauea.apiserver.patch.shape import shape_of
from kilauea.apiserver.patch.whole import whole

SHAPE = shape_of(WIDGET)
SETS = widgets.map(lambda obj: applied_fields(SHAPE, obj)) | st.tuples(widgets, widgets).map(
    lambda pair: compare(SHAPE, *pair).changed
)


def members(owned: Any) -> set[tuple[str, ...]]:
    """The paths of a set."""
    return set(paths(owned))


@given(SETS, SETS)
def test_the_operations_are_those_of_sets_of_paths(one: Any, other: Any) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert members(difference(one, other)) == members(one) - members(other)


@given(SETS, SETS)
def test_without_also_takes_what_is_below(one: Any, other: Any) -> None:
    taken = members(other)
    kept = {path for path in members(one) if not any(path[:length] in taken for length in range(1, len(path) + 1))}
    assert members(without(one, other)) == kept


@given(SETS)
def test_a_set_is_the_same_after_it_was_written_and_read(owned: Any) -> None:
    assert from_fields_v1(ordered(owned)) == owned
    assert all(has(owned, path) for path in paths(owned))


@given(SETS.map(ordered), SETS.map(ordered))
def test_what_is_made_of_sets_in_order_is_in_order(one: Any, other: Any) -> None:
    for result in (union(one, other), intersection(one, other), difference(one, other), without(one, other)):
        assert json.dumps(result) == json.dumps(ordered(result))


@given(widgets, widgets)
def test_differences_are_found_in_order(old: Any, new: Any) -> None:
    changed = compare(SHAPE, old, new).changed
    assert json.dumps(changed) == json.dumps(ordered(changed))


@given(SETS, SETS)
def test_no_operation_leaves_nodes_that_lead_nowhere(one: Any, other: Any) -> None:
    for result in (union(one, other), intersection(one, other), difference(one, other), without(one, other)):
        assert from_fields_v1(result) == result
        assert (result == {}) == (members(result) == set())


@given(widgets)
def test_what_is_applied_is_part_of_everything(obj: Any) -> None:
    assert members(applied_fields(SHAPE, obj)) <= members(whole(SHAPE, obj))


@given(widgets, widgets)
def test_a_comparison_with_itself_finds_nothing_and_every_difference_is_found(old: Any, new: Any) -> None:
    change = compare(SHAPE, old, new)
    assert (change.changed, change.removed) == ({}, {}) or old != new
    assert members(change.changed) & members(change.removed) == set()
    if not (change.changed or change.removed):
        same_but_for_order = compare(SHAPE, new, old)
        assert (same_but_for_order.changed, same_but_for_order.removed) == ({}, {})


def test_steps_are_written_in_the_order_of_the_real_server() -> None:
    ports: dict[str, Any] = {
        f'k:{{"port":{port},"protocol":"{name}"}}': {} for port, name in ((443, "TCP"), (80, "UDP"), (80, "TCP"))
    }
    written = ordered({"f:b": {}, "f:a": {**ports, ".": {}}, 'v:"y"': {}, 'v:"x"': {}})
    assert list(written) == ["f:a", "f:b", 'v:"x"', 'v:"y"']
    assert [step[2:] for step in written["f:a"]] == [
        "",
        '{"port":80,"protocol":"TCP"}',
        '{"port":80,"protocol":"UDP"}',
        '{"port":443,"protocol":"TCP"}',
    ]


def test_paths_read_as_in_messages() -> None:
    owned: dict[str, Any] = {"f:spec": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}, 'v:"x"': {}, "i:2": {}}}
    texts = [path_text(path) for path in paths(owned)]
    assert texts == [".spec[2]", '.spec[="x"]', '.spec[port=80,protocol="TCP"].name']


@pytest.mark.parametrize("document", [[], {"f": {}}, {"spec": {}}, {"f:a": 1}])
def test_what_is_no_set_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="fieldsV1"):
        from_fields_v1(document)


def test_steps_of_a_client_get_the_one_form_and_unknown_ones_are_left_out() -> None:
    document: dict[str, Any] = {'k:{"b": 1, "a": "<"}': {}, "x:new": {}, 'v: "a"': {}}
    assert from_fields_v1(document) == {'k:{"a":"\\u003c","b":1}': {}, 'v:"a"': {}}


def test_fields_of_objects_are_named_by_dots() -> None:
    assert fields("metadata", "metadata.name", "spec") == {"f:metadata": {".": {}, "f:name": {}}, "f:spec": {}}
