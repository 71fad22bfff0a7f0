"""Model of a chart of usage over time: stacked bars, one for each interval, with the largest queues at the bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import NamedTuple

MOST_NAMES = 6
"""Number of queues with a separate color; the others share one."""
OTHERS = "others"
HEIGHT = 100.0
"""Height of the chart, in its own units; each bar is one unit wide."""


class Bar(NamedTuple):
    """The usage of one queue in one interval.

    Attributes:
        x, y, height: position and height in the chart.
        rank: number of the queue among those shown, which selects the colour.
    """

    x: int
    y: float
    height: float
    rank: int


class Line(NamedTuple):
    """A queue in the legend: its rank, name and total usage."""

    rank: int
    name: str
    total: float


class Chart(NamedTuple):
    """Stacked bars.

    Attributes:
        bars: bars of all intervals and queues.
        lines: the legend, the largest first.
        top: the amount at the upper edge.
        width: number of intervals.
    """

    bars: Sequence[Bar]
    lines: Sequence[Line]
    top: float
    width: int


_TOPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
"""Possible upper edges of charts, times a power of ten: half of each is a short number, too."""


def ranks(charts: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, int]:
    """The colors of queues, the same in several charts: ranked by their mean fraction of each chart."""
    parts: dict[str, float] = {}
    for chart in charts:
        totals = _totals(chart)
        whole = sum(totals.values()) or 1.0
        for name, total in totals.items():
            parts[name] = parts.get(name, 0.0) + total / whole
    order = sorted((name for name in parts if parts[name] > 0), key=lambda name: (-parts[name], name))
    return {name: rank for rank, name in enumerate(order[:MOST_NAMES])}


def _totals(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            totals[name] = totals.get(name, 0.0) + amount
    return totals


def usage_chart(parts: Sequence[Mapping[str, float]], colours: Mapping[str, int] | None = None) -> Chart:
    """The chart of amounts by queue, for intervals of equal length, the oldest first.

    Args:
        parts: the amounts of each interval, by queue.
        colours: the queues that are shown by name, with their ranks; None for the largest of this chart.
    """
    totals = _totals(parts)
    ranks_ = ranks([parts]) if colours is None else colours
    order = sorted((name for name in totals if totals[name] > 0), key=lambda name: (-totals[name], name))
    shown, others = [name for name in order if name in ranks_], [name for name in order if name not in ranks_]
    lines = [Line(ranks_[name], name, totals[name]) for name in shown]
    if others:
        lines.append(Line(MOST_NAMES, OTHERS, sum(totals[name] for name in others)))
    top = _edge(max((sum(part.values()) for part in parts), default=0.0))
    bars = []
    for x, part in enumerate(parts):
        y = HEIGHT
        for rank, amount in [
            *((ranks_[name], part.get(name, 0.0)) for name in shown),
            (MOST_NAMES, sum(part.get(name, 0.0) for name in others)),
        ]:
            if amount > 0:
                height = round(HEIGHT * amount / top, 2)
                y -= height
                bars.append(Bar(x, round(y, 2), height, rank))
    return Chart(bars, lines, top, len(parts))


def _edge(amount: float) -> float:
    """The upper edge of a chart that fits an amount."""
    if amount <= 0:
        return 0.0
    power = 10.0 ** floor(log10(amount))
    return next((top * power for top in _TOPS if top * power >= amount), amount)
