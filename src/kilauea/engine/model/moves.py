"""Pods that were added to and removed from nodes in a session, in order, for counts that are updated on demand.

A cycle may keep a thousand counts and place ten thousand pods, and each count concerns few of them. So a placement is
recorded once, and each count processes the records since its last update.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FEW = 4
"""Up to this many moves are processed one by one, which is faster than arrays."""

_NUMBERS = "i"
"""Type of the numbers: 32 bits."""


class Moves:
    """Moves: a number for the moved thing, such as its label class; the node; 1 if added, -1 if removed."""

    def __init__(self) -> None:
        self._flat = array(_NUMBERS)

    def __len__(self) -> int:
        return len(self._flat) // 3

    def add(self, what: int, node: int, by: int) -> None:
        """Record a move."""
        self._flat.extend((what, node, by))

    def few_since(self, seen: int) -> Iterable[tuple[int, int, int]]:
        """The moves after the first `seen`, one by one."""
        flat = self._flat
        return ((flat[at], flat[at + 1], flat[at + 2]) for at in range(3 * seen, len(flat), 3))

    def since(self, seen: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """(k,) numbers of the moved things, their nodes, and 1 or -1, after the first `seen` moves."""
        columns = np.array(self._flat[3 * seen :], dtype=np.int32).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]
