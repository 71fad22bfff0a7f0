"""Recent metrics: used and deserved amounts of each queue, in samples at regular intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.times import SECOND

KEPT = 360
"""Number of samples to keep."""
PERIOD_SECONDS = 10
"""Seconds between two samples, for an hour in total."""
MOST_QUEUES = 5000
"""Maximum number of queues with a series."""
FIGURES = ("used", "deserved")


class Sample(NamedTuple):
    """A sample of a queue: amounts by resource, in the engine's units; NaN for no limit."""

    used: Mapping[str, float]
    deserved: Mapping[str, float]


class Series:
    """Samples of all queues, as float32 in blocks of queues x figures x samples, one for each resource.

    A deleted queue keeps its samples until they expire.
    """

    def __init__(self) -> None:
        self._times = np.zeros(KEPT, dtype=np.int64)
        self._blocks: dict[str, NDArray[np.float32]] = {}
        self._rows: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._free: list[int] = []
        self._count = 0
        self.version = 0

    def __len__(self) -> int:
        return min(self._count, KEPT)

    def add(self, at: int, resources: Iterable[str], samples: Mapping[str, Sample]) -> None:
        """Add a sample of each queue.

        Args:
            at: the time, in microseconds since 1970.
            resources: resources to keep.
            samples: by queue.
        """
        column = self._count % KEPT
        self._count += 1
        self.version += 1
        self._times[column] = at
        for block in self._blocks.values():
            block[:, :, column] = np.nan
        rows = [row for name in samples if (row := self._row(name)) is not None]
        known = [sample for name, sample in samples.items() if name in self._rows]
        for name in resources:
            block = self._block(name)
            values = [[s.used.get(name, 0.0), s.deserved.get(name, np.nan)] for s in known]
            if values:
                block[rows, :, column] = values
        self._forget(samples)

    def times(self) -> list[int]:
        """Times of the samples in seconds since 1970, the oldest first."""
        return [int(at) for at in self._times[self._columns()] // SECOND]

    def of(self, queue: str, resource: str) -> tuple[list[float | None], list[float | None]]:
        """Used and deserved amounts of a resource in a queue, by sample; None without a sample or limit."""
        row, block = self._rows.get(queue), self._blocks.get(resource)
        if row is None or block is None:
            none: list[float | None] = [None] * len(self)
            return none, list(none)
        found = block[row][:, self._columns()].astype(np.float64)
        used, deserved = ([None if isnan(value) else value for value in line] for line in found.tolist())
        return used, deserved

    def _columns(self) -> NDArray[np.intp]:
        return np.arange(max(0, self._count - KEPT), self._count) % KEPT

    def _row(self, name: str) -> int | None:
        row = self._rows.get(name)
        if row is None and len(self._rows) < MOST_QUEUES:
            row = self._rows[name] = self._free.pop() if self._free else len(self._rows)
            for resource, block in self._blocks.items():
                if row < len(block):
                    block[row] = np.nan
                else:
                    self._blocks[resource] = np.concatenate([block, _empty(max(16, len(block)))])
        if row is not None:
            self._seen[name] = self._count
        return row

    def _block(self, resource: str) -> NDArray[np.float32]:
        block = self._blocks.get(resource)
        if block is None:
            block = self._blocks[resource] = _empty(max([*self._rows.values(), 15]) + 1)
        return block

    def _forget(self, samples: Mapping[str, Sample]) -> None:
        gone = [name for name in self._rows if name not in samples and self._count - self._seen[name] >= KEPT]
        for name in gone:
            self._free.append(self._rows.pop(name))
            del self._seen[name]


def _empty(rows: int) -> NDArray[np.float32]:
    return np.full((rows, len(FIGURES), KEPT), np.nan, dtype=np.float32)
