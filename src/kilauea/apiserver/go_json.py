"""JSON as Go encodes it, for values that clients compare or that are embedded in other texts."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

GO_KINDS = {list: "array", str: "string", bool: "bool", dict: "object"}
"""Names of types of JSON in errors of Go; others are numbers."""
_ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def go_json(value: Any, order: Literal["sorted"] | None = None) -> str:
    """Encode a value as JSON, escaping HTML special characters."""
    return msgspec.json.encode(value, order=order).decode().translate(_ESCAPES)
