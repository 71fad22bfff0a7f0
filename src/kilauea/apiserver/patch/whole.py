"""The node of a new value with all its content, cached for the many values with the same structure.

The node depends on the keys of a value and hardly on the values. So each shape caches the nodes that it has created, by
the keys and the nodes below, and values with the same structure share them. Returned nodes are in order, and must not
be changed.
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
"""Maximum number of nodes that a shape caches before it clears its cache.

Objects with owner references have a node for each owner, by its UID, so that the cache always fills up.
"""
LARGEST, LARGEST_OF_ALL = 32 * 1024, 32 * 1024 * 1024
"""Maximum size of a cached node with everything below, since larger ones seldom recur; and of all cached nodes of all
shapes. The size is in characters of steps, plus some bytes for each step."""
_STEP = 64
"""Approximate bytes of a step in addition to its characters."""


def whole(shape: Shape, value: Any) -> FieldSet:
    """Return the node of a value with all its content.

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
            nodes[step] = LEAF if step in nodes else whole(below, item)  # a duplicate is owned as a whole
        if shape.steps_known != known:  # most new items, such as pod IPs, never recur
            return in_order({SELF: LEAF, **nodes})
        return node_of_items(shape, nodes, itself=True)
    return LEAF


def _of_object(shape: Shape, value: dict[str, Any]) -> FieldSet:
    """Return the node of an object; if all its fields are leaves, its keys alone identify it from then on."""
    shapes = [shape.field(key)[1] for key in value]
    parts = [LEAF if below.leaf else whole(below, each) for below, each in zip(shapes, value.values(), strict=True)]
    node = node_of_object(shape, value, parts, itself=True)
    if all(below.leaf for below in shapes):
        remember(shape, shape.flat, tuple(value), node, node)
    return node


def node_of_object(shape: Shape, keys: Iterable[str], parts: Sequence[FieldSet | None], *, itself: bool) -> FieldSet:
    """Return the node of an object from those of its fields.

    Args:
        shape: the shape of the object.
        keys: the keys of the object.
        parts: the node of each field, None for those not in the set.
        itself: True if the object itself is a member of the set.
    """
    signature = (itself, *keys, *map(id, parts))
    made = shape.made.get(signature)
    if made is not None:
        return made
    nodes = {shape.field(key)[0]: part for key, part in zip(keys, parts, strict=True) if part is not None}
    return _remembered(shape, signature, nodes, itself)


def node_of_items(shape: Shape, nodes: dict[str, FieldSet], *, itself: bool) -> FieldSet:
    """Return the node of a list from those of its items, by step."""
    signature = (itself, *nodes, *map(id, nodes.values()))
    made = shape.made.get(signature)
    return _remembered(shape, signature, nodes, itself) if made is None else made


def _remembered(shape: Shape, signature: tuple[Any, ...], nodes: dict[str, FieldSet], itself: bool) -> FieldSet:
    """Return a new node in order, and cache it.

    The signature has the identities of the nodes below. The cached entry refers to them, so that their identities
    are not reused as long as it exists.
    """
    node = in_order({SELF: LEAF, **nodes} if itself else nodes)
    remember(shape, shape.made, signature, node, node)
    return node


def remember(shape: Shape, known: dict[Key, Found], key: Key, node: FieldSet, found: Found) -> None:
    """Cache a result for a node in one of the caches of a shape, unless the node is large."""
    size = _size(node)
    if size > LARGEST:
        return
    _MEMORY.add(shape, size)
    if len(known) >= MOST:
        known.clear()
    known[key] = found


def _size(node: FieldSet) -> int:
    """Return the size of a node with everything below, or of a part that is already too large."""
    size, left = 0, [node]
    while left and size <= LARGEST:
        below = left.pop()
        size += len(below) * _STEP
        if size <= LARGEST:
            size += sum(map(len, below))
            left += filter(None, below.values())
    return size


class _Memory:
    """The total size of the caches of shapes, since clients may write objects of ever new structure, of every kind."""

    def __init__(self) -> None:
        self._size = 0
        self._shapes: WeakSet[Shape] = WeakSet()  # those of a definition are released with it
        self._lock = Lock()  # large writes are processed outside the event loop

    def add(self, shape: Shape, size: int) -> None:
        """Add to the size of the caches; if it becomes too large, clear the caches of all shapes."""
        with self._lock:
            if self._size + size > LARGEST_OF_ALL:
                for each in self._shapes:
                    each.forget()
                self._shapes.clear()
                self._size = 0
            self._shapes.add(shape)
            self._size += size


_MEMORY = _Memory()
