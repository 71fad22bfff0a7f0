"""JSON text as Go writes it, for values that clients compare or that are embedded in other texts."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def go_json(value: Any, order: Literal["sorted"] | None = None) -> str:
    """The JSON of a value, in which characters that are special in HTML are escaped."""
    return msgspec.json.encode(value, order=order).decode().translate(_ESCAPES)
