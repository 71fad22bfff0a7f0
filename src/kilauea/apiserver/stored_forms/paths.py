"""Values at paths such as `target.averageValue` in objects."""

from __future__ import annotations

from typing import Any


def value_at(obj: Any, path: str) -> Any:
    """Return the value at a path; None if missing."""
    for step in path.split("."):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def set_at(obj: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path, creating missing objects above it."""
    *above, last = path.split(".")
    for step in above:
        obj = obj.setdefault(step, {})
    obj[last] = value
