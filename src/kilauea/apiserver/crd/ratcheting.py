"""Ratcheting: an update may keep values that were invalid before, so that a stricter schema does not block updates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]

_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_ABSENT = object()


def new_causes(raw: Raw, causes: Iterable[Cause], obj: Any, old: Any) -> list[Cause]:
    """Return the causes in parts of the object that the update has changed."""
    return [each for each in causes if _changed(raw, each, obj, old)]


def _changed(raw: Raw, cause: Cause, obj: Any, old: Any) -> bool:
    steps: list[str | int] = [int(found[1]) if found[1] else found[2] for found in _STEP.finditer(cause.field)]
    if cause.reason == "FieldValueRequired":
        steps = steps[:-1]  # the error is in the object that contains the field
    for step in steps:
        raw, obj, old = _below(raw, step, obj, old)
        if obj is _ABSENT or old is _ABSENT:
            return True
        if obj == old:  # nothing below has changed either, even in a list without keys
            return False
    return bool(obj != old)


def _below(raw: Raw, step: str | int, obj: Any, old: Any) -> tuple[Raw, Any, Any]:
    """Return the schema, the new and the old value one step below."""
    if isinstance(step, int):
        items = raw.get("items") or {}
        item = obj[step] if isinstance(obj, list) and step < len(obj) else _ABSENT
        return items, item, _old_item(raw, item, old)
    others = raw.get("additionalProperties")
    child = raw.get("properties", {}).get(step, others if isinstance(others, dict) else {})
    new = obj.get(step, _ABSENT) if isinstance(obj, dict) else _ABSENT
    return child, new, old.get(step, _ABSENT) if isinstance(old, dict) else _ABSENT


def _old_item(raw: Raw, item: Any, old: Any) -> Any:
    """Return the old item that corresponds to a new one, in lists with keys only."""
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(item, dict) or not isinstance(old, list):
        return _ABSENT
    wanted = [item.get(key) for key in keys]
    same = (each for each in old if isinstance(each, dict) and [each.get(key) for key in keys] == wanted)
    return next(same, _ABSENT)
