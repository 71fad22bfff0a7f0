"""Job arrays: one job with a copy for each element; copies start and fail independently."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_ELEMENTS = 10_000
ARRAY = "kilauea.dev/array"
"""Annotation of a job with the elements of its array, in the order of its copies."""
PARALLELISM = "kilauea.dev/parallelism"
"""Annotation of a job with the maximum number of its unfinished pods at a time."""
INDEX_VARIABLES = ("KILAUEA_ARRAY_INDEX", "SLURM_ARRAY_TASK_ID")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def split_limit(text: str) -> tuple[str, int]:
    """Split `0-99%4` into the array and the number of its elements that run at a time; 0 for no limit.

    Raises:
        ValueError: the limit is not a number above 0.
    """
    spec, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) < 10 and int(limit)):
        raise ValueError(f'--array: invalid limit in "{text}": use {spec}%4 for 4 elements at a time')
    return spec, int(limit or 0)


def parse_array(text: str) -> tuple[int, ...]:
    """Parse the elements of an array in the syntax of `sbatch --array`: `0-99`, `0-30:10`, `1,3,7`.

    Raises:
        ValueError: the text is not an array.
    """
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f'--array: invalid array "{text}": use 0-99, 0-30:10, 1,3,7 or 0-99%4')
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            raise ValueError(f'--array: "{part}" has no elements: use FIRST-LAST with FIRST <= LAST and a step above 0')
        if (last - first) // step >= MOST_ELEMENTS:
            raise ValueError(f'--array: "{text}" has more than {MOST_ELEMENTS} elements: submit several arrays')
        found += range(first, last + 1, step)
    elements = sorted(set(found))
    if len(elements) > MOST_ELEMENTS:
        raise ValueError(f'--array: "{text}" has more than {MOST_ELEMENTS} elements: submit several arrays')
    return tuple(elements)


def array_text(elements: Sequence[int]) -> str:
    """Format elements: `0-99`, `0-30:10`, `1,3,7`."""
    parts = []
    at = 0
    while at < len(elements):
        step = elements[at + 1] - elements[at] if at + 1 < len(elements) else 0
        end = at
        while end + 1 < len(elements) and elements[end + 1] - elements[end] == step:
            end += 1
        if end - at >= 2 or (step == 1 and end > at):
            parts.append(f"{elements[at]}-{elements[end]}{f':{step}' if step > 1 else ''}")
            at = end + 1
        else:
            parts.append(str(elements[at]))
            at += 1
    return ",".join(parts)


def index_script(elements: Sequence[int]) -> str:
    """Shell commands that set variables to the element of a copy; empty if the element equals its index."""
    if tuple(elements) == tuple(range(len(elements))):
        return ""
    first, second = INDEX_VARIABLES
    return (
        f'kilauea_n=0; for kilauea_id in {" ".join(map(str, elements))}; do if [ "$kilauea_n" -eq "$VC_TASK_INDEX" ]; '
        f"then {first}=$kilauea_id; {second}=$kilauea_id; fi; kilauea_n=$((kilauea_n+1)); done; "
        f"export {first} {second}; "
    )
