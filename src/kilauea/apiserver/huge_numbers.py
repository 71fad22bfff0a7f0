"""Integers beyond the range of floats: no client in Go can read an object with one, nor a list with that object."""

from __future__ import annotations

from typing import Any

DIGITS = 309
"""Digits of the largest float; larger integers have at least as many."""
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)


def may_have_huge_number(body: bytes) -> bool:
    """Return True if JSON may have such an integer; its digits may also be in a string."""
    return len(body) >= DIGITS and b"0" * DIGITS in body.translate(_ZEROS)


def huge_number(value: Any) -> str:
    """Return the reason why Go could not read a JSON value, worded as by Go; empty if it can."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            return f"json: cannot unmarshal number {value} into Go value of type float64"
        return ""
    elif not isinstance(value, list):
        return ""
    return next(filter(None, map(huge_number, value)), "")
