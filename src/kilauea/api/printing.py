"""Escaping of text from objects for terminals and logs."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text on one line, escaping non-printing characters (`\x1b`, line ends, direction marks)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
