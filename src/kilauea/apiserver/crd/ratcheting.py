"""Ratcheting: an update may keep values that were invalid before, so that a stricter schema does not block updates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.apiserver.patch.values import same
from kilauea.apiserver.status import Cause, first_causes

Raw = Mapping[str, Any]

_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_ABSENT = object()


def new_causes(raw: Raw, causes: Iterable[Cause], obj: Any, old: Any) -> list[Cause]:
    """Return the first causes in parts of the object that the update has changed."""
    items = _OldItems()
    return first_causes(each for each in causes if _changed(raw, each, obj, old, items))


class _OldItems:
    """The items of old lists by their keys. A list is read once: each of thousands of items may have errors."""

    def __init__(self) -> None:
        self._read: dict[int, dict[bytes, Any]] = {}

    def find(self, item: Any, old: list[Any], keys: list[str]) -> Any:
        """Return the first old item with the keys of a new one."""
        read = self._read.get(id(old))
        if read is None:
            read = self._read[id(old)] = {_key(each, keys): each for each in reversed(old) if isinstance(each, dict)}
        return read.get(_key(item, keys), _ABSENT)


def _key(item: Mapping[str, Any], keys: list[str]) -> bytes:
    return msgspec.json.encode([item.get(key) for key in keys])


def _changed(raw: Raw, cause: Cause, obj: Any, old: Any, items: _OldItems) -> bool:
    steps: list[str | int] = [int(found[1]) if found[1] else found[2] for found in _STEP.finditer(cause.field)]
    if cause.reason in ("FieldValueRequired", "FieldValueDuplicate"):
        steps = steps[:-1]  # the error is in the object that contains the field, or the list with the duplicates
    for step in steps:
        raw, obj, old = _below(raw, step, obj, old, items)
        if obj is _ABSENT or old is _ABSENT:
            return True
        if same(obj, old):  # nothing below has changed either, even in a list without keys
            return False
    return not same(obj, old)


def _below(raw: Raw, step: str | int, obj: Any, old: Any, known: _OldItems) -> tuple[Raw, Any, Any]:
    """Return the schema, the new and the old value one step below."""
    if isinstance(step, int):
        items = raw.get("items") or {}
        item = obj[step] if isinstance(obj, list) and step < len(obj) else _ABSENT
        return items, item, _old_item(raw, item, old, known)
    others = raw.get("additionalProperties")
    child = raw.get("properties", {}).get(step, others if isinstance(others, dict) else {})
    new = obj.get(step, _ABSENT) if isinstance(obj, dict) else _ABSENT
    return child, new, old.get(step, _ABSENT) if isinstance(old, dict) else _ABSENT


def _old_item(raw: Raw, item: Any, old: Any, known: _OldItems) -> Any:
    """Return the old item that corresponds to a new one, in lists with keys only."""
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(item, dict) or not isinstance(old, list):
        return _ABSENT
    return known.find(item, old, keys)
