"""Holds back statuses that change with every cycle, such as those of a gang whose pods are being created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

LONGEST = 10
"""Rounds after which a value passes although it keeps changing."""

T = TypeVar("T")


class Debounce(Generic[T]):
    """Passes values that are the same as in the previous round."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[T, int]] = {}

    def stable(self, values: Mapping[str, T]) -> dict[str, T]:
        """Return the values, by object, that equal those of the previous round, or keep changing for long."""
        seen: dict[str, tuple[T, int]] = {}
        out: dict[str, T] = {}
        for name, value in values.items():
            before, rounds = self._seen.get(name, (None, 0))
            seen[name] = (value, rounds + 1)
            if value == before or rounds >= LONGEST:
                out[name] = value
        self._seen = seen
        return out
