"""Indexes of the pods of a job, as text such as `1,3-5,7`."""

from __future__ import annotations

from kilauea.api.numbers import whole_number

INDEXED = "Indexed"
"""The completion mode of jobs whose pods have indexes."""


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a text.

    Args:
        text: indexes and intervals of indexes.
        completions: the number of indexes of the job.

    Raises:
        ValueError: it has another format, an index that the job does not have, or is not in order.
    """
    total, last = 0, None
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last is not None and last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def shared_index(completed: str, failed: str, completions: int) -> int | None:
    """Return an index in both texts, or None; invalid intervals are skipped."""
    ours, others = _intervals(completed, completions), _intervals(failed, completions)
    left = right = 0
    while left < len(ours) and right < len(others):
        (first, last), (other_first, other_last) = ours[left], others[right]
        if first <= other_last and other_first <= last:
            return max(first, other_first)
        left, right = (left + 1, right) if first <= other_first else (left, right + 1)
    return None


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except ValueError:
            continue
    return found


def _interval(text: str, completions: int) -> tuple[int, int]:
    """Return the first and the last index of an interval.

    Raises:
        ValueError: the job does not have this interval.
    """
    parts = text.split("-")
    if len(parts) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" {rule}')
    ends = [_index(part, completions) for part in parts]
    if len(ends) == 2 and ends[0] >= ends[1]:
        raise ValueError(f"non-increasing order, previous: {ends[0]}, current: {ends[1]}")
    return ends[0], ends[-1]


def _index(text: str, completions: int) -> int:
    index = whole_number(text)
    if index is None:
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if index >= completions:
        raise ValueError(f'too large index: "{text}"')
    return index
