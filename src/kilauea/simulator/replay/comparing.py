"""Comparison of two configurations: the better one, and whether the difference exceeds random variation.

Both have run on the same traces, so the comparison is paired: it uses the difference on each trace. The interval is
that of Student's t over these differences, at 95 %. A single trace does not allow statements about random variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 % for 1 to 30 degrees of freedom."""
NORMAL = 1.959964
Verdict = Literal["better", "worse", "same", "unclear", "changed"]


@dataclass(frozen=True)
class Difference:
    """A figure under two configurations.

    Attributes:
        first: mean under the first.
        second: mean under the second.
        mean: mean of the differences, the second less the first.
        low: lower end of the interval; None for a single trace.
        high: upper end of the interval; None for a single trace.
        pairs: number of traces.
        verdict: of the second: `better` or `worse` if the interval does not contain 0, `unclear` if it does or if there
            is a single trace, `same` if they do not differ at all, `changed` if neither way is better.
    """

    first: float
    second: float
    mean: float
    low: float | None
    high: float | None
    pairs: int
    verdict: Verdict


def difference(first: Sequence[float | None], second: Sequence[float | None], better: int) -> Difference | None:
    """Compare a figure on the same traces; None if it is never known for both.

    Args:
        first: of each trace, under the first configuration.
        second: of each trace, under the second.
        better: -1 if less is better, 1 if more is, 0 if neither.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    count = len(pairs)
    changes = [b - a for a, b in pairs]
    mean = math.fsum(changes) / count
    before, after = (math.fsum(column) / count for column in zip(*pairs, strict=True))
    low = high = None
    if count > 1:
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in changes) / (count - 1))
        half = quantile(count - 1) * spread / math.sqrt(count)
        low, high = mean - half, mean + half
    return Difference(before, after, mean, low, high, count, _verdict(changes, mean, low, high, better))


def _verdict(changes: Sequence[float], mean: float, low: float | None, high: float | None, better: int) -> Verdict:
    if not any(changes):
        return "same"
    if low is None or high is None or low <= 0 <= high:
        return "unclear"
    if better == 0:
        return "changed"
    return "better" if mean * better > 0 else "worse"


def quantile(freedom: int) -> float:
    """Return Student's t at 97.5 % for some degrees of freedom."""
    if freedom <= len(QUANTILES):
        return QUANTILES[freedom - 1]
    # Expansion of Cornish and Fisher, accurate to three digits from here on.
    return NORMAL + (NORMAL**3 + NORMAL) / (4 * freedom)
