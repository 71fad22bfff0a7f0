"""Indexes of pods, and their compact form: `0-2,5`."""

from __future__ import annotations

from collections.abc import Collection

from kilauea.api.numbers import whole_number
from kilauea.api.ports import Obj
from kilauea.controllers.objects import annotations_of

INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Obj) -> int | None:
    """The index of a pod; None if missing or invalid."""
    return whole_number(annotations_of(pod).get(INDEX, ""))


def parse_indexes(text: str, completions: int) -> set[int]:
    """Parse the indexes below `completions`; invalid parts are ignored."""
    found: set[int] = set()
    for part in text.split(","):
        start, _, end = part.partition("-")
        first, last = whole_number(start), whole_number(end or start)
        if first is not None and last is not None:
            found.update(range(first, min(last, completions - 1) + 1))
    return found


def format_indexes(indexes: Collection[int]) -> str:
    """Format indexes: runs of three or more with a hyphen, others with commas."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join(_run(part[0], part[-1]) for part in parts)


def _run(first: int, last: int) -> str:
    if last == first:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
