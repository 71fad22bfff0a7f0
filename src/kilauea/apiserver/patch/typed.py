"""Validation of an applied object against its schema; errors are worded as by the real server."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.fieldset import path_text
from kilauea.apiserver.patch.shape import Shape, Sort
from kilauea.apiserver.patch.values import go_syntax, go_text, go_type

Problem = tuple[str, str]
"""A path (`.spec.replicas`) and the error there."""


def problems(shape: Shape, value: Any, path: str = "") -> list[Problem]:
    """Return the type errors in a value; at most one unknown field per object."""
    if value is None or shape.sort is Sort.ANY:
        return []
    if shape.scalar:
        return _of_scalar(shape.scalar, value, path)
    if shape.is_list:
        if not isinstance(value, list):
            return [(path, f"expected list, got &{{{go_text(value)}}}")]
        return _of_items(shape, value, path)
    if not isinstance(value, dict):
        return [(path, f"expected map, got &{{{go_text(value)}}}")]
    return _of_fields(shape, value, path)


def text_of(found: list[Problem]) -> str:
    """Return all problems as one text."""
    lines = [f"{path}: {what}" if path else what for path, what in found]
    return lines[0] if len(lines) == 1 else "\n  ".join(["errors:", *lines])


def _of_scalar(kind: str, value: Any, path: str) -> list[Problem]:
    """Check the type of a plain value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "numeric" and not number:
        return [(path, f"expected numeric (int or float), got {go_type(value)}")]
    if kind == "string" and not isinstance(value, str):
        return [(path, f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}")]
    if kind == "boolean" and not isinstance(value, bool):
        return [(path, f"expected boolean, got &{{{go_text(value)}}}")]
    if kind == "untyped" and isinstance(value, dict | list):
        return [(path, f"expected any scalar, got &{{{go_text(value)}}}")]
    return []


def _of_items(shape: Shape, items: list[Any], path: str) -> list[Problem]:
    """Check that items can be distinguished, and check each item."""
    found: list[Problem] = []
    seen = set()
    for at, item in enumerate(items):
        step = f"i:{at}"
        if shape.sort is not Sort.LEAF:
            try:
                step = shape.item_step(item)
            except ValueError as error:
                return [*found, (path, f"element {at}: {error}")]
            if step in seen:
                found.append((path, f"duplicate entries for key {path_text((step,))}"))
            seen.add(step)
        found += problems(shape.items, item, path + path_text((step,)))
    return found


def _of_fields(shape: Shape, value: dict[str, Any], path: str) -> list[Problem]:
    """Check that fields are described, and check each field."""
    found: list[Problem] = []
    for key in sorted(value):
        if not shape.knows(key):
            return [*found, (f"{path}.{key}", "field not declared in schema")]
        found += problems(shape.field(key)[1], value[key], f"{path}.{key}")
    return found
