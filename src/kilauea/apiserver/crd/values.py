"""Values as rules see them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Raw = Mapping[str, Any]
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def as_cel(raw: Raw, value: Any) -> Any:
    """A value with times as times, and fields under names that expressions can hold."""
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
    if isinstance(value, str) and raw.get("format") == "date-time":
        return _time(value)
    return value


def _time(text: str) -> datetime | str:
    """A time; text that is invalid, which an older schema may have let in, stays text."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def escaped(name: str) -> str:
    """The name of a field in expressions: `a-b` is `a__dash__b`, `namespace` is `__namespace__`."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape) if text == "__" or text in name else name
    return name
