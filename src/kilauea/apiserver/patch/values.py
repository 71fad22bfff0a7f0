"""Comparison and formatting of JSON values as in Kubernetes, which differ from Python.

In JSON `true` is not a number; in Python `True == 1`. Messages of the real server show values as Go prints them.
"""

from __future__ import annotations

import json
from typing import Any


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""The value of a field that is missing; None is JSON's null."""


def same(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        return all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def is_leaf(value: Any) -> bool:
    """Return True if a value is neither an object nor a list."""
    return not isinstance(value, dict | list)


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each) for each in value]
    return value


def go_text(value: Any) -> str:
    """Format a value as Go's `%v`: `map[image:nginx ports:[80 443]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def go_syntax(value: Any) -> str:
    """Format a composite value as Go's `%#v`: `map[string]interface {}{"image":"nginx"}`."""
    if isinstance(value, dict):
        parts = ", ".join(f"{go_syntax(key)}:{go_syntax(value[key])}" for key in sorted(value))
        return f"{go_type(value)}{{{parts}}}"
    if isinstance(value, list):
        return f"{go_type(value)}{{{', '.join(map(go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False)


def go_type(value: Any) -> str:
    """Return the Go type of a decoded JSON value."""
    if isinstance(value, bool):
        return "bool"
    return _GO_TYPES.get(type(value), "%!s(<nil>)")


_GO_TYPES: dict[type, str] = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    int: "int64",
    float: "float64",
}


def json_type(value: Any) -> str:
    """Return the type of a JSON value as named in errors of Go's decoder."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return _JSON_TYPES.get(type(value), "number")


_JSON_TYPES: dict[type, str] = {dict: "object", list: "array", str: "string"}
