"""Tables of text that line up."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER = re.compile(r"-|(\d[\d.]*([KMGTP]i)?)?")
"""Cells that are set to the right: numbers, with a unit or not, and what stands for none."""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, gap: int = 3) -> list[str]:
    """Lines of a table; columns are as wide as their widest cell, numbers stand to the right. No rows, no lines."""
    if not rows:
        return []
    cells = [list(heading), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heading))]
    numeric = [all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(heading))]
    lines = []
    for row in cells:
        parts = [cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric, strict=True)]
        lines.append((" " * gap).join(parts).rstrip())
    return lines
