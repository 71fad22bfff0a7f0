"""Abbreviated lists of nodes: `node-[0-3,7],gpu-1`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d+)", re.ASCII | re.DOTALL)


def host_list(names: Iterable[str]) -> str:
    """Combine names with the same prefix, with their numbers in brackets."""
    numbers: dict[tuple[str, int], list[int]] = {}
    plain = []
    for name in sorted(set(names)):
        found = _NUMBERED.fullmatch(name)
        if found is None or len(found[2]) > 9:
            plain.append(name)
            continue
        padded = len(found[2]) if found[2].startswith("0") and len(found[2]) > 1 else 0
        numbers.setdefault((found[1], padded), []).append(int(found[2]))
    return ",".join([*(_short(start, width, found) for (start, width), found in sorted(numbers.items())), *plain])


def _short(start: str, width: int, numbers: list[int]) -> str:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    parts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges]
    return f"{start}{parts[0]}" if len(numbers) == 1 else f"{start}[{','.join(parts)}]"
