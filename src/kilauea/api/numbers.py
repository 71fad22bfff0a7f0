"""Numbers in texts: parsing of user-defined ones, which is cheap for any length, and counts in messages."""

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


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
