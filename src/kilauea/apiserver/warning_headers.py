"""Warnings of a response as its `Warning` headers: escaped, and limited to the size that clients accept."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 4096
"""Characters of all warnings of an answer; if there are more, each is cut, and those at the end are left out."""
CUT = 256
MOST_HEADERS = 50
"""Warnings of an answer: common clients refuse one with more than a hundred headers."""


def warning_headers(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The headers for some warnings, each told once."""
    told = list(dict.fromkeys(texts))[:MOST_HEADERS]
    if sum(map(len, told)) > MOST:
        told = [text[:CUT] for text in told]
    headers, total = [], 0
    for text in told:
        total += len(text)
        if total > MOST:
            break
        headers.append(("Warning", f'299 - "{_escaped(text)}"'))
    return headers


def _escaped(text: str) -> str:
    """A text within the quotes of a header; a character that may not stand there is shown by its number."""
    shown = "".join(each if each.isprintable() else _number(ord(each)) for each in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _number(point: int) -> str:
    return f"\\x{point:02x}" if point < 128 else f"\\u{point:04x}" if point < 65536 else f"\\U{point:08x}"
