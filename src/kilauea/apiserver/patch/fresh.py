"""The fields of a new object, cached for the many objects with the same structure.

The result equals that of `compare` with an absent object, in order, but is built from nodes that shapes cache, see
`kilauea.apiserver.patch.whole`. Returned sets must not be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.patch.compare import Change, compare_values
from kilauea.apiserver.patch.fieldset import FieldSet, difference, without
from kilauea.apiserver.patch.shape import Shape, Sort, shape_of
from kilauea.apiserver.patch.values import ABSENT
from kilauea.apiserver.patch.whole import LEAF, node_of_items, node_of_object, remember, whole
from kilauea.apiserver.schema.nodes import Schema


def fresh_fields(
    shape: Shape,
    obj: dict[str, Any],
    reset: FieldSet,
    never: FieldSet,
    known_parts: Mapping[str, FieldSet | None] | None = None,
) -> FieldSet:
    """Return the fields that the writer of a new object owns, in order.

    Args:
        shape: the shape of the kind.
        obj: the object.
        reset: fields that the write does not set, with everything below them.
        never: fields without an owner.
        known_parts: the results of `fields_of_part` for similar parts, by field.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    node = _object(shape, obj, known_parts or _NONE)
    known = shape.reduced.get(id(node))
    if known is not None and known[1] is reset and known[2] is never:
        return known[3]
    left = difference(without(node, reset), never)
    # The cached entry refers to the node, so that its identity is not reused.
    remember(shape, shape.reduced, id(node), node, (node, reset, never, left))
    return left


def fields_of_part(schema: Schema, field: str, value: Any) -> FieldSet | None:
    """Return the fields of one part of a new object, or None if it has none; the result must not be changed.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    return _changed(shape_of(schema).field(field)[1], value)


_NONE: Mapping[str, FieldSet | None] = {}


def _object(shape: Shape, obj: dict[str, Any], known: Mapping[str, FieldSet | None] = _NONE) -> FieldSet:
    """Return the node of an object, or of a part of one, which is not itself a member of the set."""
    parts: list[FieldSet | None] = []
    for key, each in obj.items():
        if key in known:
            parts.append(known[key])
            continue
        below = shape.field(key)[1]
        parts.append(LEAF if below.leaf and below.zero is ABSENT else _changed(below, each))
    return node_of_object(shape, obj, parts, itself=False)


def _changed(shape: Shape, value: Any) -> FieldSet | None:
    """Return the node of a value; None if it is the value that Go writes for an unset field."""
    zero = shape.zero
    if zero is ABSENT:
        return whole(shape, value)
    if shape.sort is Sort.OBJECT and value and value.__class__ is dict and (zero is None or zero == {}):
        return _object(shape, value) or None
    if shape.sort is Sort.ITEMS and value and value.__class__ is list and not zero:
        nodes = {shape.item_step(item): whole(shape.items, item) for item in value}
        if len(nodes) == len(value):
            return node_of_items(shape, nodes, itself=False)
    change = Change({}, {})
    compare_values(shape, "", zero, value, change)
    return (change.changed[""] or LEAF) if "" in change.changed else None
