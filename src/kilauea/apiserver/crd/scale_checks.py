"""Checks of the values in custom resources from which their scale is derived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.patch.values import go_text, go_type
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import ScalePaths

MOST_REPLICAS = 2**31 - 1


def check_scale_spec(paths: ScalePaths, obj: dict[str, Any]) -> Iterator[Cause]:
    """Check the desired number of replicas."""
    return _check_replicas(paths.replicas, obj)


def check_scale_status(paths: ScalePaths, obj: dict[str, Any]) -> Iterator[Cause]:
    """Check the current number of replicas, and the selector."""
    yield from _check_replicas(paths.current, obj)
    if paths.selector:
        value, fault = _read(paths.selector, obj, str)
        if fault:
            yield invalid_value(f".{paths.selector}", value, fault)


def _check_replicas(path: str, obj: dict[str, Any]) -> Iterator[Cause]:
    value, fault = _read(path, obj, int)
    if fault:
        yield invalid_value(f".{path}", value, fault)
    elif value < 0:
        yield invalid_value(f".{path}", value, "should be a non-negative integer")
    elif value > MOST_REPLICAS:
        yield invalid_value(f".{path}", value, f"should be less than or equal to {MOST_REPLICAS}")


def _read(path: str, obj: dict[str, Any], kind: type) -> tuple[Any, str]:
    """Return the value at a path, or the zero value if missing or invalid, and the error."""
    steps = path.split(".")
    value: Any = obj
    for index, step in enumerate(steps):
        if value is None:
            return kind(), ""
        if not isinstance(value, dict):
            return kind(), _wrong(steps[:index], value, "map[string]interface {}")
        if step not in value:
            return kind(), ""
        value = value[step]
    if type(value) is kind:
        return value, ""
    return kind(), _wrong(steps, value, "int64" if kind is int else "string")


def _wrong(steps: list[str], value: Any, wanted: str) -> str:
    given = "<nil>" if value is None else go_type(value)
    return f".{'.'.join(steps)} accessor error: {go_text(value)} is of the type {given}, expected {wanted}"
