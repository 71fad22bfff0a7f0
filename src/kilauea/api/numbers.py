"""Numbers in texts that users choose, such as annotations: reading them is cheap, whatever their length."""

from __future__ import annotations

LARGEST = 2**63 - 1
_DIGITS = len(str(LARGEST))


def whole_number(text: str) -> int | None:
    """The number that decimal digits stand for, at most `LARGEST`; None for any other text.

    Python itself refuses to read more than 4,300 digits, with an error where none is expected.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) <= _DIGITS:
        return min(int(text), LARGEST)
    digits = text.lstrip("0") or "0"
    return min(int(digits), LARGEST) if len(digits) <= _DIGITS else LARGEST
