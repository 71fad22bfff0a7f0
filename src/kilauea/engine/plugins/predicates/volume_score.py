"""Scores of nodes by the resulting utilization of the storage that a pod's claims use (`volumebinding.shape`).

Claims with matching volumes count as their requests relative to the capacity of these volumes. If a pod has no matching
volume, the volumes to be provisioned count relative to the reported capacity that is left. Each storage class has its
own utilization, and a node gets the mean of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FULL = 100
MOST_POINTS = 10
"""The highest score in a shape; nodes get ten times as much."""

Scores = NDArray[np.float64]


def curve_of(shape: Sequence[object]) -> NDArray[np.int64]:
    """(101,) the score of each percentage of utilization.

    Args:
        shape: points, each a map of `utilization` (0 to 100, rising) and `score` (0 to 10).

    Raises:
        ValueError: the shape is invalid; the message names the point and the expected value.
    """
    points = [_point(number, each) for number, each in enumerate(shape)]
    for number, (one, other) in enumerate(pairwise(points)):
        if one[0] >= other[0]:
            raise ValueError(f"[{number + 1}].utilization: {other[0]} is not above {one[0]}; list the points in order")
    out = np.full(FULL + 1, points[-1][1], dtype=np.int64)
    out[: points[0][0] + 1] = points[0][1]
    for (start, low), (end, high) in pairwise(points):
        for use in range(start, end + 1):
            rise = abs(high - low) * (use - start) // (end - start)
            out[use] = low + rise if high >= low else low - rise
    return out


def _point(number: int, given: object) -> tuple[int, int]:
    if not isinstance(given, Mapping):
        raise ValueError(f"[{number}]: {given!r} is not a map; write {{utilization: 0, score: 0}}")
    found = []
    for name, most in (("utilization", FULL), ("score", MOST_POINTS)):
        value = given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(f"[{number}].{name}: {value!r} is not an integer from 0 to {most}")
        found.append(value)
    return found[0], found[1] * (FULL // MOST_POINTS)


def share_scores(curve: NDArray[np.int64], asked: Scores, capacity: Scores) -> Scores:
    """(N,) the score of each node for one class; that of full storage where less capacity is left than requested.

    Args:
        curve: the score of each percentage.
        asked: (N,) bytes.
        capacity: (N,) bytes.
    """
    there = (capacity > 0) & (asked <= capacity)
    use = np.floor_divide(asked * FULL, capacity, out=np.full(asked.shape, float(FULL)), where=there)
    return curve[np.where(there, use, FULL).astype(np.int64)].astype(np.float64)


def mean_of(several: Iterable[tuple[Scores, NDArray[np.bool_]]], size: int) -> Scores:
    """(N,) the rounded mean of the scores of the classes that count on each node; 0 where none counts."""
    total, count = np.zeros(size), np.zeros(size)
    for scores, counts in several:
        total += np.where(counts, scores, 0.0)
        count += counts
    mean = np.divide(total, count, out=np.zeros(size), where=count > 0)
    rounded: Scores = np.floor(mean + 0.5)
    return rounded
