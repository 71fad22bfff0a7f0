"""The capacity that a driver reports for new volumes of a storage class, and how much of it this session has reserved.

A driver reports its capacity by segments of the cluster: one CSIStorageCapacity for each class and group of nodes. For
the first claim, the maximum volume size of a segment counts, as in Kubernetes. Claims of the same session also share
the capacity, so ten claims are not placed where only one fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import NodeTerm
from kilauea.engine.model.nodes import natural
from kilauea.engine.model.volumes import Capacity
from kilauea.engine.plugins.predicates.volume_reach import Reach, Rows

NOWHERE, SEVERAL = -1, -2
"""Used instead of the segment of a node."""


class Rooms:
    """The segments of one storage class.

    Args:
        capacities: the driver's reports, by key.
        reach: finds nodes.
        nodes: the number of nodes.
    """

    def __init__(self, capacities: Sequence[tuple[str, Capacity]], reach: Reach, nodes: int) -> None:
        self._segments = [each for _, each in sorted(capacities, key=lambda item: natural(item[0]))]
        self._rows = [_rows(each, reach, nodes) for each in self._segments]
        self._booked = [0] * len(self._segments)
        self._left = np.array([inf if of.capacity is None else of.capacity for of in self._segments] + [0.0, 0.0])
        """Bytes left in each segment, infinite if it does not report any; two zeros for SEVERAL and NOWHERE."""
        self._able: dict[int, tuple[list[bool], NDArray[np.int64]]] = {}
        """By size: the segments with room for one more, and (N,) the number of them that each node reaches."""
        self._size = nodes
        self._segment_of: NDArray[np.int64] | None = None
        self._several: dict[tuple[int, ...], list[int]] = {}
        """By numbers of segments: the rows that reach several."""
        self._numbers: dict[int, tuple[int, ...]] = {}
        """The inverse."""

    def fits(self, size: int) -> NDArray[np.bool_]:
        """(N,) nodes that reach a segment with room for a volume."""
        if size not in self._able:
            able = [self._takes(number, [size]) for number in range(len(self._segments))]
            count = np.zeros(self._size, dtype=np.int64)
            for number in np.flatnonzero(able):
                count[self._rows[number]] += 1
            self._able[size] = (able, count)
        fits: NDArray[np.bool_] = self._able[size][1] > 0
        return fits

    def fit_together(self, sizes: Sequence[int], wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(N,) nodes with room for all the volumes that are wanted there.

        Args:
            sizes: sizes of the volumes of one pod, descending.
            wanted: (V, N) True for volumes that would have to be provisioned on each node.
        """
        segment = self._segments_of_nodes()
        total = np.array(sizes, dtype=np.float64) @ wanted
        out: NDArray[np.bool_] = (wanted.sum(axis=0) < 2) | (total <= self._left[segment])
        for numbers, rows in self._several.items():
            known: dict[tuple[bool, ...], bool] = {}
            for row in rows:
                asked = tuple(wanted[:, row].tolist())
                if asked not in known:
                    known[asked] = self._hold(
                        [size for size, wants in zip(sizes, asked, strict=True) if wants], numbers
                    )
                out[row] = known[asked]
        return out

    def book(self, size: int, row: int) -> int:
        """Reserve capacity for a volume on a node; returns the number of the segment, or -1 if none has room."""
        numbers = self._numbers_at(row)
        able = [number for number in numbers if self._takes(number, [size])]
        number = min(able, key=lambda n: (self._left[n], n), default=NOWHERE)
        if number >= 0:
            self.change(number, size)
        return number

    def left(self) -> NDArray[np.float64]:
        """(N,) bytes left in the segment with the most room that each node reaches; 0 where it reaches none.

        A segment without a reported capacity has room for its maximum volume size.
        """
        out = np.zeros(self._size)
        for number, of in enumerate(self._segments):
            room = max(0.0, float(of.largest if of.capacity is None else self._left[number]))
            rows = self._rows[number]
            out[rows] = np.maximum(out[rows], room)
        return out

    def change(self, number: int, by: int) -> None:
        """Change the reservation of a segment."""
        self._booked[number] += by
        self._left[number] -= by
        for size, (able, count) in self._able.items():
            now = self._takes(number, [size])
            count[self._rows[number]] += int(now) - int(able[number])
            able[number] = now

    # --- segments

    def _takes(self, number: int, sizes: Sequence[int]) -> bool:
        """Return True if a segment has room for volumes in addition to its reservations."""
        of, booked = self._segments[number], self._booked[number]
        if max(sizes) > of.largest:
            return False
        alone = not booked and len(sizes) == 1
        return alone or of.capacity is None or booked + sum(sizes) <= of.capacity

    def _hold(self, sizes: Sequence[int], numbers: tuple[int, ...]) -> bool:
        """Return True if volumes (descending by size) fit into segments, each into the one with the least room left."""
        promised: dict[int, list[int]] = {number: [] for number in numbers}
        for size in sizes:
            able = [n for n in numbers if self._takes(n, [*promised[n], size])]
            if not able:
                return False
            promised[min(able, key=lambda n: (self._left[n] - sum(promised[n]), n))].append(size)
        return True

    def _segments_of_nodes(self) -> NDArray[np.int64]:
        """(N,) the number of the segment that each node reaches, or NOWHERE or SEVERAL."""
        if self._segment_of is None:
            segment = self._segment_of = np.full(self._size, NOWHERE, dtype=np.int64)
            for number, rows in enumerate(self._rows):
                segment[rows] = np.where(segment[rows] == NOWHERE, number, SEVERAL)
            several: dict[int, list[int]] = {row: [] for row in np.flatnonzero(segment == SEVERAL).tolist()}
            for number, rows in enumerate(self._rows if several else ()):
                for row in rows[segment[rows] == SEVERAL].tolist():
                    several[row].append(number)
            self._numbers = {row: tuple(numbers) for row, numbers in several.items()}
            for row, those in self._numbers.items():
                self._several.setdefault(those, []).append(row)
        return self._segment_of

    def _numbers_at(self, row: int) -> tuple[int, ...]:
        """The segments that a node reaches."""
        number = int(self._segments_of_nodes()[row])
        if number == SEVERAL:
            return self._numbers[row]
        return () if number == NOWHERE else (number,)


def _rows(of: Capacity, reach: Reach, nodes: int) -> Rows:
    """Ascending rows of the nodes of a segment."""
    if of.nodes is None:
        return np.empty(0, dtype=np.intp)
    found = reach.rows((NodeTerm(of.nodes, ()),)) if of.nodes else None
    return np.arange(nodes) if found is None else found
