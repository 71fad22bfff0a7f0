"""Parsing of numbers in user-defined texts such as annotations, which is cheap for any length."""

from __future__ import annotations

LARGEST = 2**63 - 1
_DIGITS = len(str(LARGEST))


def whole_number(text: str) -> int | None:
    """Parse decimal digits, at most `LARGEST`; return None for any other text.

    Python raises an unexpected error for more than 4,300 digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) <= _DIGITS:
        return min(int(text), LARGEST)
    digits = text.lstrip("0") or "0"
    return min(int(digits), LARGEST) if len(digits) <= _DIGITS else LARGEST
