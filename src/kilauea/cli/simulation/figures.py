"""The compared metrics of a report: how to find and format them, and which direction is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Json = Mapping[str, Any]
GIB = 2**30


class Figure(NamedTuple):
    """A figure of a run.

    Attributes:
        name: its name in tables.
        get: returns it from a run; None if it does not exist.
        write: formats it.
        better: -1 if less is better, 1 if more is, 0 if neither.
    """

    name: str
    get: Callable[[Json], float | None]
    write: Callable[[float], str]
    better: int = 0


def duration(seconds: float) -> str:
    """Seconds in a suitable unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.1f}s"


def percent(part: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * part:.1f}%"


def number(value: float) -> str:
    """A count or a rate."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def at(*path: str) -> Callable[[Json], float | None]:
    """Return a function that finds a figure by its path."""

    def get(run: Json) -> float | None:
        found: Any = run
        for step in path:
            if not isinstance(found, Mapping) or step not in found:
                return None
            found = found[step]
        return None if found is None else float(found)

    return get


def figures(runs: Sequence[Json]) -> Iterator[Figure]:
    """Yield the available figures of runs, in the order of display."""
    yield Figure("jobs completed", at("jobs", "completed"), number, 1)
    yield Figure("jobs failed", at("jobs", "failed"), number, -1)
    yield Figure("jobs unfinished", at("jobs", "unfinished"), number, -1)
    for key in ("mean", "p50", "p90", "p99"):
        yield Figure(f"wait {key}", at("wait", key), duration, -1)
    for key in ("mean", "p90"):
        yield Figure(f"completion {key}", at("completion", key), duration, -1)
    yield Figure("slowdown mean", at("slowdown", "mean"), number, -1)
    yield Figure("makespan", at("makespan"), duration, -1)
    for name in resources(runs):
        yield Figure(f"utilisation {short(name)}", at("utilisation", name, "window"), percent, 1)
    yield Figure("fragmentation", at("fragmentation", "mean"), percent, -1)
    yield Figure("fairness (Jain)", at("fairness", "mean"), "{:.3f}".format, 1)
    yield Figure("due but missing", at("fairness", "shortfall"), percent, -1)
    yield Figure("pods evicted", at("evictions", "pods"), number, -1)
    yield Figure("restarts", at("jobs", "restarts"), number, -1)
    yield from (
        Figure(f"lost {hours_of(name)}", _lost(name), number, -1) for name in resources(runs) if name != "memory"
    )


def queue_figures(queue: str) -> Iterator[Figure]:
    """Yield the figures of a queue."""
    for key in ("mean", "p50", "p90", "p99"):
        yield Figure(f"wait {key}", at("queues", queue, "wait", key), duration, -1)
    yield Figure("completion mean", at("queues", queue, "completion", "mean"), duration, -1)


def _lost(name: str) -> Callable[[Json], float | None]:
    return lambda run: run["lost"].get(name, 0.0)


def resources(runs: Sequence[Json]) -> list[str]:
    """The resources in runs, cards last."""
    found = {name for run in runs for name in run["utilisation"]}
    return sorted(found, key=lambda name: ("/" in name, name))


def short(name: str) -> str:
    """A short name of a resource."""
    return name.rpartition("/")[2]


def hours_of(name: str) -> str:
    """The unit of work of a resource."""
    return {"cpu": "core-hours", "memory": "GiB-hours"}.get(name, f"{short(name)}-hours")


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def written(figure: Figure, value: float | None) -> str:
    """Format a figure; `-` if there is none."""
    return "-" if value is None else figure.write(value)
