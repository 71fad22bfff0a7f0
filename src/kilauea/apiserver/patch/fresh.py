"""The fields of a new object, cached for the many objects with the same structure.

The answer is that of `compare` with nothing, in order; but it is made of nodes that shapes remember, see
`kilauea.apiserver.patch.whole`. Sets that come from here must not be changed.
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
        shape: of the kind.
        obj: the object.
        reset: fields that the write does not set, with all below them.
        never: fields that have no owner.
        known_parts: what `fields_of_part` said of parts like those of the object, by field.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    node = _object(shape, obj, known_parts or _NONE)
    known = shape.reduced.get(id(node))
    if known is not None and known[1] is reset and known[2] is never:
        return known[3]
    left = difference(without(node, reset), never)
    # What is remembered holds on to the node, so that the identity stays its own.
    remember(shape, shape.reduced, id(node), node, (node, reset, never, left))
    return left


def fields_of_part(schema: Schema, field: str, value: Any) -> FieldSet | None:
    """Return the fields of one part of a new object; it must not be changed. None if it has none.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    return _changed(shape_of(schema).field(field)[1], value)


_NONE: Mapping[str, FieldSet | None] = {}


def _object(shape: Shape, obj: dict[str, Any], known: Mapping[str, FieldSet | None] = _NONE) -> FieldSet:
    """The node of an object, or of a part of one, that does not itself belong to the set."""
    parts: list[FieldSet | None] = []
    for key, each in obj.items():
        if key in known:
            parts.append(known[key])
            continue
        below = shape.field(key)[1]
        parts.append(LEAF if below.leaf and below.zero is ABSENT else _changed(below, each))
    return node_of_object(shape, obj, parts, itself=False)


def _changed(shape: Shape, value: Any) -> FieldSet | None:
    """The node of a value; None if it is what Go writes where nothing was said."""
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
