"""Two configurations of reports, metric by metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from kilauea.api.printing import printable
from kilauea.cli.simulation.figures import Figure, Json, figures, queue_figures, written
from kilauea.cli.table import table
from kilauea.simulator.replay.comparing import Difference, difference

ENOUGH = 2
"""Minimum number of traces for statements about random variation."""


class Line(NamedTuple):
    """A figure of a queue, or of all queues (empty name), under two configurations."""

    queue: str
    figure: Figure
    found: Difference


def compared(first: Json, second: Json) -> list[Line]:
    """Compare the figures of two configurations on the same traces."""
    one, other = first["runs"], second["runs"]
    lines = [Line("", figure, found) for figure in figures([*one, *other]) if (found := _found(figure, one, other))]
    queues = sorted({name for run in (*one, *other) for name in run["queues"]})
    for queue in queues:
        of_queue = ((figure, _found(figure, one, other)) for figure in queue_figures(queue))
        lines += [Line(queue, figure, found) for figure, found in of_queue if found]
    return lines


def _found(figure: Figure, one: Sequence[Json], other: Sequence[Json]) -> Difference | None:
    return difference([figure.get(run) for run in one], [figure.get(run) for run in other], figure.better)


def comparison_lines(first: Json, second: Json) -> list[str]:
    """Return the comparison as lines of text."""
    lines = compared(first, second)
    names = first["name"], second["name"]
    happened = [line for line in lines if not line.queue and (line.found.first or line.found.second)]
    out = ["Over all queues:", *_table(happened, names, "")]
    per_queue = [line for line in lines if line.queue and line.found.verdict != "same"]
    if per_queue:
        out += ["", "By queue, where something changes:", *_table(per_queue, names, "QUEUE")]
    return [*out, "", *conclusion(lines, names)]


def _table(lines: Sequence[Line], names: tuple[str, str], which: str) -> list[str]:
    heading = [*([which] if which else []), "FIGURE", *names, "DIFFERENCE", "95% INTERVAL", "VERDICT"]
    rows = []
    for queue, figure, found in lines:
        interval = "-"
        if found.low is not None and found.high is not None:
            interval = f"{written(figure, found.low)} to {written(figure, found.high)}"
        cells = [figure.name, written(figure, found.first), written(figure, found.second)]
        change = f"{written(figure, found.mean)}{relative(found)}"
        rows.append([*([queue] if which else []), *cells, change, interval, found.verdict])
    return table(heading, rows)


def relative(found: Difference) -> str:
    """The difference as a fraction of the first, in parentheses."""
    return f" ({100 * found.mean / found.first:+.0f}%)" if found.first and found.mean else ""


def conclusion(lines: Sequence[Line], names: tuple[str, str]) -> Iterator[str]:
    """Yield the conclusions of a comparison."""
    pairs = max((line.found.pairs for line in lines), default=0)
    if pairs < ENOUGH:
        yield "One trace does not show random variation: simulate with --seeds 10 or more for intervals."
        return
    yield f"Intervals: Student's t at 95% over the differences on {pairs} traces, in pairs."
    for verdict in ("better", "worse"):
        told = [
            f"{f'{line.queue}: ' if line.queue else ''}{line.figure.name}{relative(line.found)}"
            for line in lines
            if line.found.verdict == verdict
        ]
        if told:
            yield printable(f"{names[1]} is {verdict} than {names[0]} in: {', '.join(told)}")
    if not any(line.found.verdict in ("better", "worse") for line in lines):
        yield printable(f"No figure differs by more than random variation between {names[0]} and {names[1]}.")


def comparison_data(first: Json, second: Json) -> dict[str, Any]:
    """Return the comparison as plain data."""
    return {
        "first": first["name"],
        "second": second["name"],
        "method": "Student's t at 95% over paired differences",
        "figures": [
            {"queue": queue or None, "figure": figure.name, **asdict(found)}
            for queue, figure, found in compared(first, second)
        ],
    }
