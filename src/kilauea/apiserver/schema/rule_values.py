"""Conversion of values for CEL rules."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kilauea.api.cel.times import duration, timestamp

Raw = Mapping[str, Any]
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def as_cel(raw: Raw, value: Any) -> Any:
    """Return a value with times converted, and fields under their names in expressions."""
    if isinstance(value, dict):
        described = raw.get("properties", {})
        others = raw.get("additionalProperties")
        others = others if isinstance(others, dict) else {}
        return {
            (escaped(key) if key in described else key): as_cel(described.get(key, others), each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        items = raw.get("items") or {}
        return [as_cel(items, each) for each in value]
    if value.__class__ is int and raw.get("type") == "number":
        return float(value)
    read = _FORMATS.get(raw.get("format", ""))
    if read is None or not isinstance(value, str):
        return value
    try:
        return read(value)
    except ValueError:
        return value  # an older schema may have allowed it


def _midnight(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}T00:00:00+00:00")


_FORMATS: Mapping[str, Callable[[str], Any]] = {
    "byte": lambda text: base64.b64decode(text, validate=True),
    "date": _midnight,
    "date-time": timestamp,
    "duration": duration,
}
"""Conversions of strings to another type, by their format."""


def escaped(name: str) -> str:
    """Return the name of a field in expressions: `a-b` is `a__dash__b`, `namespace` is `__namespace__`."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape) if text == "__" or text in name else name
    return name
