"""The node of a new value with all of its content, cached for the many values with the same structure.

The node depends on the keys of a value and hardly on what they hold. So each shape remembers the nodes that it has
made, by the keys and by the nodes of what is below, and values of the same form share them. Nodes that come from here
are in order, and must not be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

from kilauea.apiserver.patch.fieldset import SELF, FieldSet, in_order
from kilauea.apiserver.patch.shape import ANY, Shape, Sort

Key = TypeVar("Key")
Found = TypeVar("Found")
LEAF: FieldSet = {}
MOST = 512
"""Nodes that a shape remembers; then it begins again.

Objects that are owned have a node for each owner, by its uid, so that memory always fills up to this number.
"""
LARGEST, LARGEST_OF_ALL = 32 * 1024, 32 * 1024 * 1024
"""Size of a node that is remembered, with all below it, since larger ones are seldom seen again; and that of all nodes
that all shapes remember. The size is in characters of steps, and some bytes for each step."""
_STEP = 64
"""Bytes of a step beside its characters, roughly."""


def whole(shape: Shape, value: Any) -> FieldSet:
    """The node of a value with all that is in it.

    Raises:
        ValueError: items of a list cannot be told apart.
    """
    if not value or shape.leaf:
        return LEAF
    sort = shape.sort
    if sort is Sort.OBJECT and isinstance(value, dict):
        return shape.flat.get(tuple(value)) or _of_object(shape, value)
    if sort is Sort.ANY and isinstance(value, dict):
        return in_order({SELF: LEAF, **{f"f:{key}": whole(ANY, each) for key, each in value.items()}})
    if isinstance(value, list) and sort is not Sort.ANY:
        below, nodes = shape.items, {}
        known = shape.steps_known
        for item in value:
            step = shape.item_step(item)
            nodes[step] = LEAF if step in nodes else whole(below, item)  # one that is there twice is owned as a whole
        if shape.steps_known != known:  # of new items, such as addresses of pods, most never come again
            return in_order({SELF: LEAF, **nodes})
        return node_of_items(shape, nodes, itself=True)
    return LEAF


def _of_object(shape: Shape, value: dict[str, Any]) -> FieldSet:
    """The node of an object; where all its fields are leaves, its keys alone tell it from then on."""
    shapes = [shape.field(key)[1] for key in value]
    parts = [LEAF if below.leaf else whole(below, each) for below, each in zip(shapes, value.values(), strict=True)]
    node = node_of_object(shape, value, parts, itself=True)
    if all(below.leaf for below in shapes):
        remember(shape, shape.flat, tuple(value), node, node)
    return node


def node_of_object(shape: Shape, keys: Iterable[str], parts: Sequence[FieldSet | None], *, itself: bool) -> FieldSet:
    """The node of an object from those of its fields.

    Args:
        shape: of the object.
        keys: of the object.
        parts: the node of each field, None for those that do not belong to the set.
        itself: True if the object itself belongs to it.
    """
    signature = (itself, *keys, *map(id, parts))
    made = shape.made.get(signature)
    if made is not None:
        return made
    nodes = {shape.field(key)[0]: part for key, part in zip(keys, parts, strict=True) if part is not None}
    return _remembered(shape, signature, nodes, itself)


def node_of_items(shape: Shape, nodes: dict[str, FieldSet], *, itself: bool) -> FieldSet:
    """The node of a list from those of its items, by step."""
    signature = (itself, *nodes, *map(id, nodes.values()))
    made = shape.made.get(signature)
    return _remembered(shape, signature, nodes, itself) if made is None else made


def _remembered(shape: Shape, signature: tuple[Any, ...], nodes: dict[str, FieldSet], itself: bool) -> FieldSet:
    """A new node in order, kept for the next time.

    The signature names the nodes below by identity. What is remembered holds on to them, so that no other node can
    come to have the identity of one of them as long as it is.
    """
    node = in_order({SELF: LEAF, **nodes} if itself else nodes)
    remember(shape, shape.made, signature, node, node)
    return node


def remember(shape: Shape, known: dict[Key, Found], key: Key, node: FieldSet, found: Found) -> None:
    """Keep an answer about a node in one of the memories of a shape, unless the node is large."""
    size = _size(node)
    if size > LARGEST:
        return
    _MEMORY.add(shape, size)
    if len(known) >= MOST:
        known.clear()
    known[key] = found


def _size(node: FieldSet) -> int:
    """The size of a node with all below it; of one that is too large, of a part that is too large already."""
    size, left = 0, [node]
    while left and size <= LARGEST:
        below = left.pop()
        size += len(below) * _STEP
        if size <= LARGEST:
            size += sum(map(len, below))
            left += filter(None, below.values())
    return size


class _Memory:
    """The size of all that shapes remember: clients may write objects of ever new forms, of every kind."""

    def __init__(self) -> None:
        self._size = 0
        self._shapes: WeakSet[Shape] = WeakSet()  # those of a definition go with it
        self._lock = Lock()  # large writes are processed outside the event loop

    def add(self, shape: Shape, size: int) -> None:
        """Count what a shape remembers from now on; where it would be too much, all shapes begin again."""
        with self._lock:
            if self._size + size > LARGEST_OF_ALL:
                for each in self._shapes:
                    each.forget()
                self._shapes.clear()
                self._size = 0
            self._shapes.add(shape)
            self._size += size


_MEMORY = _Memory()
