"""The fields of a new object, for the many objects that are made alike.

The answer is that of `compare` with nothing, in order; but it depends on the keys of an object and hardly on its
values. So each shape remembers the sets that it has made, by the keys and by the sets of what is below, and objects of
the same form share them. Sets that come from here must not be changed.
"""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.compare import Change, compare, compare_values, everything
from kilauea.apiserver.patch.fieldset import SELF, FieldSet, difference, ordered, without
from kilauea.apiserver.patch.shape import Shape, Sort
from kilauea.apiserver.patch.values import ABSENT

_LEAF: FieldSet = {}
_MOST = 4096
"""Sets that a shape remembers; then it begins again."""
_SMALL = frozenset({"apiVersion", "kind", "metadata"})


def fresh_fields(shape: Shape, obj: dict[str, Any], reset: FieldSet, never: FieldSet) -> FieldSet:
    """What the writer of a new object owns, in order.

    Args:
        shape: of the kind.
        obj: the object.
        reset: fields that the write does not set, with all below them.
        never: fields that nobody owns.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    small = {key: each for key, each in obj.items() if key in _SMALL or f"f:{key}" in reset}
    found = difference(without(compare(shape, {}, small).changed, reset), never)
    nodes = {step: ordered(node) for step, node in found.items()}
    for key, value in obj.items():
        if key not in small:
            step, below = shape.field(key)
            node = _changed(below, value)
            if node is not None:
                nodes[step] = node
    return {step: nodes[step] for step in sorted(nodes)}


def _changed(shape: Shape, value: Any) -> FieldSet | None:
    """The node of a value; None if it is what Go writes where nothing was said."""
    zero = shape.zero
    if zero is ABSENT:
        return _whole(shape, value)
    if shape.sort is Sort.OBJECT and value and value.__class__ is dict and (zero is None or zero == {}):
        return _made(shape, value, [_changed(shape.field(key)[1], each) for key, each in value.items()], whole=False)
    if shape.sort is Sort.ITEMS and value and value.__class__ is list and not zero:
        return _items(shape, value, whole=False)
    change = Change({}, {})
    compare_values(shape, "", zero, value, change)
    return ordered(change.changed[""]) if "" in change.changed else None


def _whole(shape: Shape, value: Any) -> FieldSet:
    """The node of a value with all that is in it."""
    if not value or shape.sort is Sort.LEAF:
        return _LEAF
    if shape.sort is Sort.OBJECT and value.__class__ is dict:
        field = shape.field
        parts: list[FieldSet | None] = []
        for key, each in value.items():
            below = field(key)[1]
            parts.append(_LEAF if below.sort is Sort.LEAF else _whole(below, each))
        return _made(shape, value, parts, whole=True) or _LEAF
    if shape.sort is Sort.ITEMS and value.__class__ is list:
        return _items(shape, value, whole=True)
    return ordered(everything(shape, value))


def _items(shape: Shape, items: list[Any], *, whole: bool) -> FieldSet:
    """The node of a list whose items have keys; of a whole one it is also in the set itself."""
    below = shape.items
    nodes = {shape.item_step(item): _whole(below, item) for item in items}
    if len(nodes) < len(items):  # an item that is there twice is owned as a whole
        change = Change({}, {})
        compare_values(shape, "", ABSENT if whole else None, items, change)
        return ordered(change.changed[""])
    signature = (whole, *nodes, *map(id, nodes.values()))
    made = shape.made.get(signature)
    return _remembered(shape, signature, {SELF: _LEAF, **nodes} if whole else nodes) if made is None else made


def _made(shape: Shape, value: dict[str, Any], parts: list[FieldSet | None], *, whole: bool) -> FieldSet | None:
    """The node of an object from those of its fields; None if there are none."""
    signature = (whole, *value, *map(id, parts))
    made = shape.made.get(signature)
    if made is None:
        fields = zip(value, parts, strict=True)
        nodes = {shape.field(key)[0]: part for key, part in fields if part is not None}
        made = _remembered(shape, signature, {SELF: _LEAF, **nodes} if whole else nodes)
    return made or None


def _remembered(shape: Shape, signature: tuple[Any, ...], nodes: FieldSet) -> FieldSet:
    """A new node in order, kept for the next time.

    The signature names the nodes below by identity. What is remembered holds on to them, so that no other node can
    come to have the identity of one of them as long as it is.
    """
    if len(shape.made) >= _MOST:
        shape.made.clear()
    node = {step: nodes[step] for step in ordered(dict.fromkeys(nodes, _LEAF))}
    shape.made[signature] = node
    return node
