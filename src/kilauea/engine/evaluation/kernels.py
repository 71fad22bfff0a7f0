"""The array math of the hot loop, and nothing else. No other module does such math while tasks are being placed.

Shapes: resources are rows, nodes are columns. Integers are exact int64; the floor of a quotient is computed in float64,
which is exact as long as the numerator is below 2**53.

After each placement, a few nodes are evaluated again. An array operation on so few costs ten times as much as one on
plain numbers, so the functions of the usual case, two resources that every node has, have a second form for up to `FEW`
nodes. Its results are identical: both divide in float64.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


NEVER = -np.inf
"""Score of a node that cannot be chosen."""
FEW = 8
"""Up to this many nodes, plain numbers are faster than arrays: three times at 2, by a quarter at 8."""


def fits(used: IntArray, need: IntArray, allocatable: IntArray) -> BoolArray:
    """(n,) True where `need` (R, 1) fits beside `used` (R, n) in `allocatable` (R, n)."""
    out: BoolArray = np.logical_and.reduce(used + need <= allocatable, axis=0)
    return out


def all_finite(scores: FloatArray) -> bool:
    """Return True if every score is a number."""
    # NaN counts as the highest; finding the extremes is faster than adding all up.
    return not len(scores) or (math.isfinite(scores[scores.argmax()]) and math.isfinite(scores[scores.argmin()]))


def best(scores: FloatArray) -> int:
    """Index of the highest score, the first among equals; -1 if no node can be chosen."""
    if not len(scores):
        return -1
    # argmax returns the first among equals, so ties are broken by the order of the nodes.
    index = int(scores.argmax())
    return index if scores[index] > NEVER else -1


def floor(values: FloatArray) -> FloatArray:
    """The largest whole numbers that are not above the values."""
    out: FloatArray = np.floor(values)
    return out


def hundredths(part: IntArray, whole: IntArray, complete: bool) -> tuple[FloatArray, BoolArray | None]:
    """(2, n) `100 * part // whole`, 0 where `whole` is 0; and True where it is not.

    With `complete` it is nonzero everywhere, and the second result is None.
    """
    if complete:
        # The usual case, without a mask: these few operations run once for each node that changed.
        return floor(part * 100 / whole), None
    has = whole != 0
    out = np.zeros(part.shape)
    np.divide(part * 100, whole, out=out, where=has)
    return floor(out), has


def mean_hundredths(part: IntArray, whole: IntArray, complete: bool) -> FloatArray:
    """(n,) floor of the mean of the `hundredths` of two resources (2, n), over the resources of each node."""
    if complete and part.shape[1] <= FEW:
        columns = zip(*part.tolist(), *whole.tolist(), strict=True)
        return np.array([float((math.floor(a * 100.0 / c) + math.floor(b * 100.0 / d)) // 2) for a, b, c, d in columns])
    return mean_of_two(*hundredths(part, whole, complete))


def mean_of_two(scores: FloatArray, has: BoolArray | None) -> FloatArray:
    """(n,) floor of the mean over two resources (2, n), only over those of each node; 0 if it has neither."""
    total: FloatArray = scores[0] + scores[1]
    if has is None:
        return floor(total / 2)
    return floor(total / np.maximum(has.sum(axis=0), 1))


def balance_gain(used: IntArray, asked: IntArray, allocatable: IntArray, complete: bool) -> FloatArray:
    """(n,) `50 + (50 + after - before) // 2`, where both are `int(100 * (1 - deviation))` of the used fractions.

    `used`, `allocatable` are (r, n), `asked` is (r, 1). The deviation is that of the population; resources that a node
    lacks are left out; with `complete` it lacks none. Spec of the node plugins, 2.2.
    """
    if complete and used.shape[0] == 2 and used.shape[1] <= FEW:
        return _balance_gain_of_few(used, asked, allocatable)
    if complete and used.shape[0] == 2:
        # The deviation of two fractions is half their distance. This is exact where the general formula rounds; a
        # rounding error would change a floor, and thereby a placement.
        fractions = np.empty((2, 2, used.shape[1]))
        np.divide(used, allocatable, out=fractions[0])
        np.divide(used + asked, allocatable, out=fractions[1])
        np.minimum(fractions, 1.0, out=fractions)
        deviation = np.abs(fractions[:, 0] - fractions[:, 1]) / 2
    else:
        deviation = _deviation(np.array([used, used + asked]), allocatable)
    before, after = np.floor((1 - deviation) * 100)
    return 50 + floor((50 + after - before) / 2)


def _balance_gain_of_few(used: IntArray, asked: IntArray, allocatable: IntArray) -> FloatArray:
    """(n,) `balance_gain` of a few nodes with two resources."""
    (more_cpu,), (more_memory,) = asked.tolist()
    out = []
    for cpu, memory, all_cpu, all_memory in zip(*used.tolist(), *allocatable.tolist(), strict=True):
        before = abs(min(cpu / all_cpu, 1.0) - min(memory / all_memory, 1.0)) / 2
        after = abs(min((cpu + more_cpu) / all_cpu, 1.0) - min((memory + more_memory) / all_memory, 1.0)) / 2
        gain = math.floor((1 - after) * 100) - math.floor((1 - before) * 100)
        out.append(50.0 + (50 + gain) // 2)
    return np.array(out)


def _deviation(used: IntArray, allocatable: IntArray) -> FloatArray:
    """(k, n) deviation of the used fractions (k, r, n) over the resources that a node has."""
    has = allocatable != 0
    if len(has) > 2 and has.all():
        part = np.minimum(used / allocatable, 1.0)
        away = part - (np.add.reduce(part, axis=1) / len(has))[:, None]
        return np.sqrt(np.add.reduce(away * away, axis=1) / len(has))  # type: ignore[no-any-return]  # an array
    part = np.zeros(used.shape)
    np.divide(used, allocatable, out=part, where=has)
    np.minimum(part, 1.0, out=part)
    count = np.add.reduce(has, axis=0)
    mean = np.add.reduce(part, axis=1) / np.maximum(count, 1)
    away = part - mean[:, None]
    away *= away
    away *= has
    spread: FloatArray = np.sqrt(np.add.reduce(away, axis=1) / np.maximum(count, 1))
    if (few := count <= 2).any():
        # For one or two resources, the exact values are used instead, for the same reason as above.
        low, high = np.where(has, part, np.inf).min(axis=1), np.where(has, part, -np.inf).max(axis=1)
        spread[:, few] = np.where(count == 2, (high - low) / 2, np.where(count == 1, 0.0, spread))[:, few]
    return spread


def to_hundred(raw: IntArray) -> IntArray:
    """`100 * raw // max(raw)`; all 0 stay 0."""
    top = int(raw.max(initial=0))
    return raw * 100 // top if top else np.zeros_like(raw)


def to_hundred_reversed(raw: IntArray) -> IntArray:
    """`100 - 100 * raw // max(raw)`; all 0 become 100."""
    return 100 - to_hundred(raw)


def fullness(used: IntArray, asked: IntArray, allocatable: IntArray, weights: FloatArray, complete: bool) -> FloatArray:
    """(n,) sum over resources (r) of weight * (used + asked) / allocatable; 0 where any would overflow.

    `used`, `allocatable` are (r, n), `asked`, `weights` (r, 1). A resource that a node lacks counts 0 and does not
    overflow; with `complete` it lacks none.
    """
    if complete and used.shape[0] == 2 and used.shape[1] <= FEW:
        return _fullness_of_few(used, asked, allocatable, weights)
    after = used + asked
    over = after > allocatable
    if complete:
        part = after / allocatable
    else:
        has = allocatable != 0
        over &= has
        part = np.zeros(after.shape)
        np.divide(after, allocatable, out=part, where=has)
    total: FloatArray = np.add.reduce(part * weights, axis=0)
    total[np.logical_or.reduce(over, axis=0)] = 0.0
    return total


def _fullness_of_few(used: IntArray, asked: IntArray, allocatable: IntArray, weights: FloatArray) -> FloatArray:
    """(n,) `fullness` of a few nodes with two resources."""
    ((more_cpu,), (more_memory,)), ((by_cpu,), (by_memory,)) = asked.tolist(), weights.tolist()
    return np.array(
        [
            0.0
            if cpu + more_cpu > all_cpu or memory + more_memory > all_memory
            else (cpu + more_cpu) / all_cpu * by_cpu + (memory + more_memory) / all_memory * by_memory
            for cpu, memory, all_cpu, all_memory in zip(*used.tolist(), *allocatable.tolist(), strict=True)
        ]
    )
