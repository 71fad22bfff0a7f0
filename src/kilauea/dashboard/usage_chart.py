"""Model of a chart of usage over time: stacked bars, one for each part of the time, the largest queues below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_NAMES = 6
"""Queues with a colour of their own; the others are one."""
OTHERS = "others"
HEIGHT = 100.0
"""Height of the chart, in its own units; each bar is one unit wide."""


class Bar(NamedTuple):
    """The usage of one queue in one part of the time.

    Attributes:
        x, y, height: place and height in the chart.
        rank: number of the queue among those shown, which selects the colour.
    """

    x: int
    y: float
    height: float
    rank: int


class Line(NamedTuple):
    """A queue in the legend: its rank, name and whole usage."""

    rank: int
    name: str
    total: float


class Chart(NamedTuple):
    """Stacked bars.

    Attributes:
        bars: of all parts and queues.
        lines: the legend, the largest first.
        top: the amount at the upper edge.
        width: number of parts.
    """

    bars: Sequence[Bar]
    lines: Sequence[Line]
    top: float
    width: int


def usage_chart(parts: Sequence[Mapping[str, float]]) -> Chart:
    """The chart of amounts by queue, for parts of equal length, the oldest first."""
    totals: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            totals[name] = totals.get(name, 0.0) + amount
    order = sorted((name for name in totals if totals[name] > 0), key=lambda name: (-totals[name], name))
    shown, others = order[:MOST_NAMES], order[MOST_NAMES:]
    lines = [Line(rank, name, totals[name]) for rank, name in enumerate(shown)]
    if others:
        lines.append(Line(MOST_NAMES, OTHERS, sum(totals[name] for name in others)))
    top = max((sum(part.values()) for part in parts), default=0.0)
    bars = []
    for x, part in enumerate(parts):
        y = HEIGHT
        for rank, amount in [
            *((rank, part.get(name, 0.0)) for rank, name in enumerate(shown)),
            (MOST_NAMES, sum(part.get(name, 0.0) for name in others)),
        ]:
            if amount > 0:
                height = round(HEIGHT * amount / top, 2)
                y -= height
                bars.append(Bar(x, round(y, 2), height, rank))
    return Chart(bars, lines, top, len(parts))
