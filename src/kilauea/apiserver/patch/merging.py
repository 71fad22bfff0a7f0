"""The two halves of an apply: merging the applied object into the live one, and removing fields."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from kilauea.apiserver.patch.fieldset import SELF, FieldSet
from kilauea.apiserver.patch.shape import Shape, Sort
from kilauea.apiserver.patch.values import ABSENT


def merged(shape: Shape, live: Any, applied: Any) -> Any:
    """Return the live value with the applied one merged in; it shares parts with both, which are not changed."""
    if applied is ABSENT or (applied is None and live and _holds(shape, live)):
        return live
    if shape.sort in (Sort.OBJECT, Sort.ANY) and isinstance(live, dict) and isinstance(applied, dict):
        return _merged_fields(shape, live, applied) if live or applied else applied
    if shape.sort in (Sort.SET, Sort.ITEMS) and isinstance(live, list) and isinstance(applied, list):
        return _merged_items(shape, live, applied) if live or applied else applied
    return applied


def _holds(shape: Shape, value: Any) -> bool:
    """Return True if a value has fields or items that are owned separately."""
    kind = list if shape.sort in (Sort.SET, Sort.ITEMS) else dict
    return shape.sort is not Sort.LEAF and isinstance(value, kind)


def _merged_fields(shape: Shape, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    out = dict(live)
    for key, value in applied.items():
        out[key] = merged(shape.field(key)[1], live.get(key, ABSENT), value)
    return out


def _merged_items(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Return items in the order of the applied list; items only in the live list stay between their neighbours."""
    ours = [shape.item_step(item) for item in live]
    wanted = {shape.item_step(item): item for item in applied}
    counts = Counter(ours)
    single = {step: item for step, item in zip(ours, live, strict=True) if counts[step] == 1}
    order = list(wanted)
    places = {step: at for at, step in enumerate(order)}
    shared = deque(step for step in order if step in counts)
    out: list[Any] = []
    done = 0
    for step, item in zip(ours, live, strict=True):
        if step not in wanted:
            out.append(item)
        elif shared and step == shared[0]:
            until = places[step] + 1
            out += [merged(shape.items, single.get(each, ABSENT), wanted[each]) for each in order[done:until]]
            done = until
            shared.popleft()
    return out + [merged(shape.items, single.get(each, ABSENT), wanted[each]) for each in order[done:]]


def pruned(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """Return a value without the fields and items of a set; null if nothing is left."""
    if shape.sort in (Sort.OBJECT, Sort.ANY) and isinstance(value, dict):
        out = {}
        for key, each in value.items():
            step, below = shape.field(key)
            kept = _kept(below, each, fields.get(step))
            if kept is not ABSENT:
                out[key] = kept
        return out or None
    if shape.sort in (Sort.SET, Sort.ITEMS) and isinstance(value, list):
        items = [_kept(shape.items, each, fields.get(shape.item_step(each))) for each in value]
        return [each for each in items if each is not ABSENT] or None
    return value


def _kept(shape: Shape, value: Any, node: FieldSet | None) -> Any:
    """Return the rest of a value after removing the set of fields at its node."""
    if node is None:
        return value
    if not node or SELF in node:
        return ABSENT
    return pruned(shape, value, node)


def with_fields_on_the_way(shape: Shape, fields: FieldSet) -> FieldSet:
    """Return the set extended with the described fields that lead to its members."""
    out: FieldSet = {}
    for step, node in fields.items():
        if not node:
            out[step] = node
            continue
        below, named = _below(shape, step)
        inner = with_fields_on_the_way(below, node)
        out[step] = {SELF: {}, **inner} if named else inner
    return out


def _below(shape: Shape, step: str) -> tuple[Shape, bool]:
    """Return the shape at a step, and True if the step is a described field."""
    if step[:2] == "f:" and shape.sort in (Sort.OBJECT, Sort.ANY):
        return shape.field(step[2:])[1], step[2:] in shape.declared
    return (shape.items, False) if step[:2] == "k:" and shape.sort is Sort.ITEMS else (shape, False)
