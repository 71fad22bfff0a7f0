"""Reports of simulations as tables for people; several seeds are shown by their mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kilauea.api.numbers import plural
from kilauea.api.printing import printable
from kilauea.cli.simulation.figures import Figure, Json, duration, figures, mean, number, percent, written
from kilauea.cli.table import table

MOST_QUEUES = 20
"""Maximum number of listed queues, those with the most jobs first."""


def report_lines(report: Json) -> list[str]:
    """Return the lines of a report."""
    configurations = report["configurations"]
    lines = [*_about(report), ""]
    runs = [run for each in configurations for run in each["runs"]]
    heading = ["", *(each["name"] for each in configurations)]
    rows = []
    for figure in figures(runs):
        values = [_mean(figure, each["runs"]) for each in configurations]
        if any(value is not None for value in values) and not (figure.better == -1 and _is_idle(figure, values)):
            rows.append([figure.name, *(written(figure, value) for value in values)])
    lines += table(heading, rows)
    lines += ["", *_queue_lines(configurations)]
    for each in configurations:
        lines += _end_lines(each, several=len(configurations) > 1)
    return lines


def _is_idle(figure: Figure, values: Sequence[float | None]) -> bool:
    """True for figures of events that did not occur, which are not shown."""
    rare = ("jobs failed", "jobs unfinished", "pods evicted", "restarts", "lost")
    return figure.name.startswith(rare) and not any(values)


def _about(report: Json) -> Iterator[str]:
    trace, settings = report["trace"], report["settings"]
    left = f", {plural(trace['left_out'], 'line')} left out" if trace["left_out"] else ""
    yield printable(
        f"trace {trace['source']} ({trace['format']}): {plural(trace['jobs'], 'job')}, {plural(trace['pods'], 'pod')} "
        f"over {duration(trace['span'])}{left}"
    )
    notes = []
    if settings["load"] != 1:
        notes.append(f"arrivals {settings['load']:g} times as frequent")
    if settings["failures_every"]:
        every, repair = duration(settings["failures_every"]), duration(settings["repair"])
        notes.append(f"each node fails every {every} on average, for {repair}")
    if settings["seeds"] > 1:
        notes.append(f"means of {settings['seeds']} traces: this one, and others drawn from it in blocks of time")
    if notes:
        yield "; ".join(notes)


def _mean(figure: Figure, runs: Sequence[Json]) -> float | None:
    return mean([figure.get(run) for run in runs])


def _queue_lines(configurations: Sequence[Json]) -> list[str]:
    first: Any = configurations[0]["runs"][0]["queues"]
    names = sorted(first, key=lambda name: (-first[name]["jobs"]["submitted"], name))
    rows = []
    for name in names[:MOST_QUEUES]:
        for each in configurations:
            queue = [run["queues"][name] for run in each["runs"] if name in run["queues"]]
            if not queue:
                continue
            waits = [_written(mean([q["wait"][key] for q in queue])) for key in ("mean", "p50", "p90", "p99")]
            jobs, evicted = mean([q["jobs"]["submitted"] for q in queue]), mean([q["evicted"] for q in queue])
            unfinished = mean([q["jobs"]["unfinished"] for q in queue])
            cells = [name, *([each["name"]] if len(configurations) > 1 else []), number(jobs or 0), *waits]
            rows.append([*cells, number(evicted or 0), number(unfinished or 0)])
    which = ["CONFIGURATION"] if len(configurations) > 1 else []
    heading = ["QUEUE", *which, "JOBS", "WAIT MEAN", "P50", "P90", "P99", "EVICTED", "UNFINISHED"]
    more = [f"and {plural(len(names) - MOST_QUEUES, 'more queue')}: see -o json"] if len(names) > MOST_QUEUES else []
    return table(heading, rows) + more


def _written(value: float | None) -> str:
    return "-" if value is None else duration(value)


def _end_lines(configuration: Json, *, several: bool) -> list[str]:
    """The jobs that still wait at the end of the given trace."""
    run = configuration["runs"][0]
    lines = []
    name = f"{configuration['name']}: " if several else ""
    if run["stopped_at_limit"]:
        lines.append(f"{name}stopped at {duration(run['makespan'])}: jobs restart or wait without end")
    if run["jobs"]["unfinished"]:
        count = run["jobs"]["unfinished"]
        lines.append(f"{name}{plural(count, 'job')} never ended. What waits at the end, and why:")
        for each in run["waiting"]:
            groups = f"{each['groups']} pod groups, such as " if each["groups"] > 1 else ""
            lines.append(f"  {printable(each['reason'])} ({groups}{printable(each['example'])})")
    return ["", *lines] if lines else []


__all__ = ["percent", "report_lines"]
