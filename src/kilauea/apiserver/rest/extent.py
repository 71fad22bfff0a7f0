"""Limits on the size and depth of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver import status

LARGEST = 1536 * 1024
"""Bytes of one object; the default limit of etcd, and so of the real server."""
DEEPEST = 200
"""Levels of nested lists and objects. Code that reads objects recurses once per level."""


def check_size(value: bytes, kind: str, metadata: Mapping[str, Any]) -> None:
    """Reject an object, in JSON, that is too large to be stored.

    Raises:
        ApiFault: 413.
    """
    if len(value) > LARGEST:
        name = metadata.get("name", "")
        raise status.ApiFault(
            413,
            "RequestEntityTooLarge",
            f'{kind} "{name}" is too large: it would take {len(value)} bytes, the limit is {LARGEST}: '
            "split it, or keep large data elsewhere",
        )


def is_deep(obj: dict[str, Any]) -> bool:
    """Return True if an object has too many levels.

    They are walked level by level: no single step takes long, so a large object does not hold up other threads.
    """
    level: list[Any] = [obj]
    for _ in range(DEEPEST):
        inside = [held.values() if isinstance(held, dict) else held for held in level]
        level = [each for held in inside for each in held if isinstance(each, (dict, list))]
        if not level:
            return False
    return True


def too_deep() -> status.ApiFault:
    """Return the error for an object that is nested too deeply."""
    return status.bad_request(f"the object is nested too deep: use at most {DEEPEST} levels")
