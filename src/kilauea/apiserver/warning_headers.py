"""The `Warning` headers of a response: escaped, and limited to the size that clients accept."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 4096
"""Maximum characters of all warnings of a response; beyond, each is truncated, and the last ones are dropped."""
CUT = 256
MOST_HEADERS = 50
"""Maximum warnings of a response: common clients reject one with more than a hundred headers."""


def warning_headers(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the headers for warnings, without duplicates."""
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
    """Escape a text for a quoted header; an invalid character is shown by its number."""
    shown = "".join(each if each.isprintable() else _number(ord(each)) for each in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _number(point: int) -> str:
    return f"\\x{point:02x}" if point < 128 else f"\\u{point:04x}" if point < 65536 else f"\\U{point:08x}"
