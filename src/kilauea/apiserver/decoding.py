"""Objects from bytes."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def decode(value: bytes) -> dict[str, Any]:
    """A stored object as a dict of its own, free to change."""
    obj: dict[str, Any] = _decode(value)
    return obj
