"""Charts as SVG: lines over time, and bars. No script, no font, nothing to load.

Every text goes through `escape`, since names come from traces. Colours are those of Okabe and Ito, which people with
colour-blindness can tell apart; lines differ in their dashes, too, and each chart has a title that screen readers read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D00")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
TICKS = 5


class Line(NamedTuple):
    """A series.

    Attributes:
        name: in the legend.
        points: x and y; a y of None interrupts the line.
    """

    name: str
    points: Sequence[tuple[float, float | None]]


class Bar(NamedTuple):
    """A group of bars: what it is about, and a value of each series; None for no bar."""

    name: str
    values: Sequence[float | None]


def line_chart(
    title: str,
    lines: Sequence[Line],
    across: Callable[[float], str],
    up: Callable[[float], str],
    top: float | None = None,
) -> str:
    """Return a chart of lines.

    Args:
        title: what it shows.
        lines: the series.
        across: writes a value of x.
        up: writes a value of y.
        top: the largest y of the axis; None for the largest there is.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if y is not None]
    if not xs or not ys:
        return _figure(title, "<p>Nothing to show.</p>")
    low, high, most = min(xs), max(xs), top or _round_up(max(ys))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> str:
        return f"{LEFT + wide * (x - low) / ((high - low) or 1):.1f},{TOP + tall * (1 - min(y / most, 1)):.1f}"

    parts = _axes(low, high, most, across, up)
    for number, line in enumerate(lines):
        dash = DASHES[number // len(COLOURS) % len(DASHES)] if len(lines) > len(COLOURS) else DASHES[number % 4]
        style = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-dasharray="{dash}"'
        for run in _runs(line.points):
            path = " ".join(place(x, y) for x, y in run)
            name = f"<title>{escape(line.name)}</title>"
            parts.append(f'<polyline points="{path}" fill="none" stroke-width="1.6" {style}>{name}</polyline>')
    return _figure(title, _svg(title, parts), [line.name for line in lines])


def bar_chart(title: str, names: Sequence[str], bars: Sequence[Bar], write: Callable[[float], str]) -> str:
    """Return a chart of bars to the right, in groups; `names` are those of the series."""
    values = [value for bar in bars for value in bar.values if value is not None]
    if not values:
        return _figure(title, "<p>Nothing to show.</p>")
    most, thick, gap, left = _round_up(max(values)), 14, 10, 150
    parts, y = [], 6
    wide = WIDTH - left - 70
    for bar in bars:
        middle = y + thick * len(bar.values) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.0f}" text-anchor="end">{escape(bar.name[:20])}</text>')
        for number, value in enumerate(bar.values):
            if value is not None:
                length = max(1.0, wide * value / most)
                colour = COLOURS[number % len(COLOURS)]
                parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{thick - 2}" fill="{colour}"/>')
                parts.append(f'<text x="{left + length + 5:.1f}" y="{y + thick - 4}">{escape(write(value))}</text>')
            y += thick
        y += gap
    return _figure(title, _svg(title, parts, y), names)


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The parts of a line between its gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]


def _axes(
    low: float, high: float, most: float, across: Callable[[float], str], up: Callable[[float], str]
) -> list[str]:
    parts = []
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    for number in range(TICKS):
        part = number / (TICKS - 1)
        y, x = TOP + tall * (1 - part), LEFT + wide * part
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(up(most * part))}</text>')
        anchor = "start" if number == 0 else "end" if number == TICKS - 1 else "middle"
        words = escape(across(low + (high - low) * part))
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{words}</text>')
    return parts


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{inner}</svg>'


def _figure(title: str, content: str, names: Sequence[str] = ()) -> str:
    """A chart with its title and its legend."""
    items = "".join(
        f'<li><span style="background:{COLOURS[number % len(COLOURS)]}"></span>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    legend = f"<ul>{items}</ul>" if len(names) > 1 else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{content}{legend}</figure>"


def _round_up(value: float) -> float:
    """The next number with one or two digits, for the end of an axis."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size * 10 <= value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * step >= value)
