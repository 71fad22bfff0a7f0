"""Decoding of stored objects."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def decode(value: bytes) -> dict[str, Any]:
    """Decode a stored object into a new dict that may be changed."""
    obj: dict[str, Any] = _decode(value)
    return obj
