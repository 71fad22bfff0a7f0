"""The fields of an object, and the changes between two states of it."""

from __future__ import annotations

from typing import Any, TypeVar

from kilauea.apiserver.patch.fieldset import SELF, FieldSet, in_order
from kilauea.apiserver.patch.shape import Shape, Sort
from kilauea.apiserver.patch.values import ABSENT, same
from kilauea.apiserver.patch.whole import whole

Holder = TypeVar("Holder", dict[str, Any], list[Any])
_Repeated = dict[str, list[Any]]
"""Items by step."""


def applied_fields(shape: Shape, value: Any) -> FieldSet:
    """Return the set that an applied object owns: leaves, items and map keys; other objects only if empty."""
    out: FieldSet = {}
    if isinstance(value, dict) and shape.sort in (Sort.OBJECT, Sort.ANY):
        for key, each in value.items():
            step, below = shape.field(key)
            node = _applied_node(below, each, member=key not in shape.declared)
            if node is not None:
                out[step] = node
    elif isinstance(value, list) and shape.sort in (Sort.SET, Sort.ITEMS):
        for item in value:
            step = shape.item_step(item)
            node = _applied_node(shape.items, item, member=True)
            out[step] = {} if step in out or node is None else node
    return out


def _applied_node(shape: Shape, value: Any, member: bool) -> FieldSet | None:
    """Return the node of a value of an applied object; None if no part is owned."""
    if value is None or shape.leaf or value == {}:
        return {}
    holds = isinstance(value, dict) or (isinstance(value, list) and shape.sort is not Sort.ANY)
    if not holds:
        return {}
    below = applied_fields(shape, value)
    if not below:
        return {} if member else None
    return {SELF: {}, **below} if member else below


class Change:
    """The difference between two states of an object.

    Attributes:
        changed: new fields and fields with another value, in order.
        removed: removed fields.
    """

    __slots__ = ("changed", "removed")

    def __init__(self, changed: FieldSet, removed: FieldSet) -> None:
        self.changed = changed
        self.removed = removed


def compare(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> Change:
    """Return the changes from one state of an object to another."""
    change = Change({}, {})
    _compare_fields(shape, old, new, change)
    change.changed = in_order(change.changed)
    return change


def _compare_fields(shape: Shape, old: dict[str, Any], new: dict[str, Any], change: Change) -> None:
    for key, after in new.items():
        before = old.get(key, ABSENT)
        if before is after or (after.__class__ is str and before == after):
            continue
        step, below = shape.field(key)
        if before is ABSENT:
            before = below.zero
        if before is ABSENT:
            change.changed[step] = whole(below, after)
        else:
            compare_values(below, step, before, after, change)
    for key, before in old.items():
        if key not in new:
            step, below = shape.field(key)
            compare_values(below, step, before, below.zero, change)


def compare_values(shape: Shape, step: str, old: Any, new: Any, change: Change) -> None:
    """Compare two values at a step; either may be `ABSENT`."""
    if old is ABSENT:
        change.changed[step] = whole(shape, new)
    elif new is ABSENT:
        change.removed[step] = whole(shape, old)
    elif old == new and (shape.sort is not Sort.ANY or same(old, new)):
        return
    elif shape.leaf or (_hollow(old) and _hollow(new)):
        change.changed[step] = {}
    else:
        _compare_within(shape, step, old, new, change)


def _hollow(value: Any) -> bool:
    """Return True for null, and for an empty object or list."""
    return value is None or (not value and isinstance(value, dict | list))


def _compare_within(shape: Shape, step: str, old: Any, new: Any, change: Change) -> None:
    """Compare two different values, at least one of which has fields or items that are owned separately."""
    below = Change({}, {})
    kind: type
    if shape.sort in (Sort.SET, Sort.ITEMS):
        kind = list
        _compare_items(shape, _held(list, old), _held(list, new), below)
    else:
        kind = dict
        _compare_fields(shape, _held(dict, old), _held(dict, new), below)
    below.changed = in_order(below.changed)
    if not all(each is None or isinstance(each, kind) for each in (old, new)):
        below.changed = {SELF: {}, **below.changed} if below.changed else {}
        change.changed[step] = below.changed
    elif below.changed:
        change.changed[step] = below.changed
    if below.removed:
        change.removed[step] = below.removed


def _held(kind: type[Holder], value: Any) -> Holder:
    """Return a value if it is of this type, or else an empty one."""
    return value if isinstance(value, kind) else kind()


def _compare_items(shape: Shape, old: list[Any], new: list[Any], change: Change) -> None:
    """Compare two lists, item by item."""
    step_of, items = shape.item_step, shape.items
    before, after = {step_of(item): item for item in old}, {step_of(item): item for item in new}
    if len(before) < len(old) or len(after) < len(new):
        _compare_repeated(shape, _by_step(shape, old), _by_step(shape, new), change)
        return
    for step, item in after.items():
        compare_values(items, step, before.pop(step, ABSENT), item, change)
    for step, item in before.items():
        change.removed[step] = whole(items, item)


def _compare_repeated(shape: Shape, before: _Repeated, after: _Repeated, change: Change) -> None:
    """Compare two lists, item by item; a duplicate item is owned as a whole."""
    for step in dict.fromkeys((*before, *after)):
        olds, news = before.get(step, ()), after.get(step, ())
        if len(olds) < 2 and len(news) < 2:
            compare_values(shape.items, step, olds[0] if olds else ABSENT, news[0] if news else ABSENT, change)
        elif len(olds) > 1 and len(news) > 1:
            if not same(list(olds), list(news)):
                change.changed[step] = {}
        elif len(olds) > 1:
            change.removed[step] = {}
            if news:
                change.changed[step] = whole(shape.items, news[0])
        else:
            change.changed[step] = {}
            if olds:
                change.removed[step] = whole(shape.items, olds[0])


def _by_step(shape: Shape, items: list[Any]) -> _Repeated:
    found: _Repeated = {}
    for item in items:
        found.setdefault(shape.item_step(item), []).append(item)
    return found
