"""Text for terminals: aligned tables, without control characters.

Names and messages come from files and plugins, so all output for people goes through `printable`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kilauea.api.printing import printable

NUMBER = re.compile(r"-|(\d[\d.]*([KMGTP]i)?)?")
"""Right-aligned cells: numbers, with or without a unit, and the sign for none."""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, gap: int = 3) -> list[str]:
    """Lines of a table; columns are as wide as their widest cell, numbers are right-aligned. Empty without rows."""
    if not rows:
        return []
    cells = [list(heading), *[[printable(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heading))]
    numeric = [all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(heading))]
    lines = []
    for row in cells:
        parts = [cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric, strict=True)]
        lines.append((" " * gap).join(parts).rstrip())
    return lines
