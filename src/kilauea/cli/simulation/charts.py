"""Charts as SVG: lines over time, and bars. No script, no font, nothing to load.

All text is escaped, since names come from traces. Colours are based on those of Okabe and Ito, which people with colour
blindness can distinguish. Series also differ without colour: lines by dashes, bars by hatching, as the legend shows.
Each chart has a title for screen readers. `STYLE` and `PATTERNS` belong on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 40
COLOURS = ("#0072B2", "#D55E00", "#008A65", "#B65C8D", "#A97400", "#2E86B8", "#000000", "#8C6D00")
DARK_COLOURS = ("#4DA6E0", "#F08A4B", "#2FC79A", "#E19CC3", "#E6B34D", "#8CCBF0", "#FFFFFF", "#C9A93A")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
_HATCHES = ("", "M0 6 6 0", "M3 0V6", "M0 6 6 0M0 0 6 6")
"""Hatching paths over bars, in squares of 6 by 6; as many as dash patterns."""
TICKS = 5
ACROSS = "time since the start of the trace"
LONGEST_NAME = 20
"""Maximum number of characters of a name beside an axis."""
STYLE = (
    ".line{stroke:var(--c)}.bar{fill:var(--c)}"
    + "".join(f".s{number}{{--c:{colour}}}" for number, colour in enumerate(COLOURS))
    + "@media(prefers-color-scheme:dark){"
    + "".join(f".s{number}{{--c:{colour}}}" for number, colour in enumerate(DARK_COLOURS))
    + "}"
)
PATTERNS = (
    '<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs>'
    + "".join(
        f'<pattern id="hatch-{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" class="hatch"/></pattern>'
        for number, path in enumerate(_HATCHES)
        if path
    )
    + "</defs></svg>"
)


class Line(NamedTuple):
    """A series.

    Attributes:
        name: in the legend.
        points: x and y; a y of None interrupts the line.
    """

    name: str
    points: Sequence[tuple[float, float | None]]


class Bar(NamedTuple):
    """A group of bars: its name, and a value for each series; None for no bar."""

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
        title: its title.
        lines: the series.
        across: formats a value of x.
        up: formats a value of y.
        top: the largest y of the axis; None for the largest value.
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
        style = _stroke(number, len(lines))
        for run in _runs(line.points):
            path = " ".join(place(x, y) for x, y in run)
            name = f"<title>{escape(line.name)}</title>"
            parts.append(f'<polyline points="{path}" fill="none" stroke-width="1.6" {style}>{name}</polyline>')
    keys = [
        f'<line x1="0" x2="28" y1="6" y2="6" stroke-width="2" {_stroke(n, len(lines))}/>' for n in range(len(lines))
    ]
    return _figure(title, _svg(title, parts), [(key, line.name) for key, line in zip(keys, lines, strict=True)])


def bar_chart(title: str, names: Sequence[str], bars: Sequence[Bar], write: Callable[[float], str]) -> str:
    """Return a horizontal bar chart, in groups; `names` are those of the series."""
    values = [value for bar in bars for value in bar.values if value is not None]
    if not values:
        return _figure(title, "<p>Nothing to show.</p>")
    most, thick, gap, left = _round_up(max(values)), 14, 10, 150
    parts, y = [], 6
    wide = WIDTH - left - 70
    for bar in bars:
        middle = y + thick * len(bar.values) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.0f}" text-anchor="end">{_label(bar.name)}</text>')
        for number, value in enumerate(bar.values):
            if value is not None:
                length = max(1.0, wide * value / most)
                parts.append(_bar(number, left, y, length, thick - 2, names[number]))
                parts.append(f'<text x="{left + length + 5:.1f}" y="{y + thick - 4}">{escape(write(value))}</text>')
            y += thick
        y += gap
    return _figure(title, _svg(title, parts, y), [(_bar(n, 0, 1, 28, 10, ""), name) for n, name in enumerate(names)])


def _stroke(number: int, count: int) -> str:
    """Attributes of the line of a series: its colour, and its dashes."""
    turn = number // len(COLOURS) if count > len(COLOURS) else number
    return f'class="line s{number % len(COLOURS)}" stroke-dasharray="{DASHES[turn % len(DASHES)]}"'


def _bar(number: int, x: float, y: float, length: float, thick: float, name: str) -> str:
    """The bar of a series, with its hatching."""
    place = f'x="{x}" y="{y}" width="{length:.1f}" height="{thick}"'
    title = f"<title>{escape(name)}</title>" if name else ""
    turn = number % len(_HATCHES)
    over = f'<rect {place} fill="url(#hatch-{turn})"/>' if turn else ""
    return f'<rect {place} class="bar s{number % len(COLOURS)}">{title}</rect>{over}'


def _label(name: str) -> str:
    """A name beside an axis: truncated if it is long, with the full name as a title."""
    if len(name) <= LONGEST_NAME:
        return escape(name)
    return f"{escape(name[: LONGEST_NAME - 1])}…<title>{escape(name)}</title>"


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
        words = escape(across(low + (high - low) * part)) if number or low else "0"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{words}</text>')
    parts.append(f'<text x="{LEFT + wide / 2:.1f}" y="{HEIGHT - 5}" text-anchor="middle">{ACROSS}</text>')
    return parts


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{inner}</svg>'


def _figure(title: str, content: str, legend_of: Sequence[tuple[str, str]] = ()) -> str:
    """A chart with its title and its legend: a sample of each series, and its name."""
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 28 12" aria-hidden="true">{key}</svg>{escape(name)}</li>'
        for key, name in legend_of
    )
    legend = f"<ul>{items}</ul>" if len(legend_of) > 1 else ""
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
