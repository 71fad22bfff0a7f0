"""Text from objects in a form that is safe for terminals and logs."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text on one line, with characters that do not print (`\x1b`, line ends, marks of direction) spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
