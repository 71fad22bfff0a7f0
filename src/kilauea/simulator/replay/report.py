"""The metrics of a replay, as plain data: the same inputs and seed give the same report, byte for byte.

    {"version": 1, "trace": {...}, "settings": {...}, "configurations": [{"name": ..., "runs": [{"seed": 0, ...}]}]}

Times are in seconds, amounts in the units of Kubernetes (cores, bytes, cards), parts between 0 and 1. Percentiles are
by nearest rank. `docs/concepts/simulation.md` explains the fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kilauea.api.quantity import Unit, unit_of
from kilauea.api.times import SECOND
from kilauea.engine.model.resources import order_of
from kilauea.simulator.replay.measures import JobRecord, Measures
from kilauea.simulator.replay.replay import Outcome

VERSION = 1
PERCENTILES = (50, 90, 95, 99)
SHORT = 10.0
"""Minimum run time of a job in seconds for computing its slowdown, so that tiny jobs do not dominate."""
POINTS = 240
"""Number of points of a series."""
REASONS = 5
"""Number of listed reasons why jobs wait at the end."""

Json = dict[str, Any]


def run_report(outcome: Outcome, seed: int) -> Json:
    """Return the figures of one replay."""
    measures = outcome.measures
    records = list(measures.jobs.values())
    queues = sorted({record.queue for record in records})
    by_queue = {name: [record for record in records if record.queue == name] for name in queues}
    return {
        "seed": seed,
        "jobs": _counts(records),
        "pods_started": measures.pods_started,
        "wait": _waits(records, measures.start, outcome.end),
        "completion": spread(_seconds(r.ended - r.submitted) for r in records if r.ended and r.phase == "Completed"),
        "slowdown": spread(map(_slowdown, (r for r in records if r.ended and r.phase == "Completed"))),
        "makespan": _seconds(outcome.end),
        "stopped_at_limit": outcome.stopped,
        "utilisation": _utilisation(measures),
        "fragmentation": _fragmentation(measures),
        "fairness": _fairness(measures),
        "evictions": _evictions(measures, records),
        "lost": _hours(measures.lost_time),
        "used": _hours(measures.used_time),
        "faults": {"nodes": measures.faults, "pods": measures.pods_lost},
        "queues": {name: _queue(measures, name, found, outcome.end) for name, found in by_queue.items()},
        "waiting": [
            {"reason": reason, "example": example, "groups": count}
            for reason, example, count in outcome.waiting[:REASONS]
        ],
        "cycles": outcome.cycles,
        "series": _series(measures),
    }


def _counts(records: Sequence[JobRecord]) -> Json:
    return {
        "submitted": len(records),
        "started": sum(1 for r in records if r.started is not None),
        "completed": sum(1 for r in records if r.phase == "Completed"),
        "failed": sum(1 for r in records if r.ended is not None and r.phase != "Completed"),
        "unfinished": sum(1 for r in records if r.ended is None),
        "restarts": sum(r.restarts for r in records),
    }


def _waits(records: Iterable[JobRecord], start: int, end: int) -> Json:
    """Waiting times; a job that never started has waited until the end."""
    return spread(
        _seconds((r.started if r.started is not None else r.ended or start + end) - r.submitted) for r in records
    )


def _slowdown(record: JobRecord) -> float:
    """Bounded slowdown: time in the system by run time, at least 1 (Feitelson and Rudolph 1998)."""
    assert record.ended is not None
    run = max(_seconds(record.job.duration), SHORT)
    return max(1.0, _seconds(record.ended - record.submitted) / run)


def _queue(measures: Measures, name: str, records: Sequence[JobRecord], end: int) -> Json:
    evicted = sum(count for (_, victim, _), count in measures.evictions.items() if victim == name)
    return {
        "jobs": _counts(records),
        "wait": _waits(records, measures.start, end),
        "completion": spread(_seconds(r.ended - r.submitted) for r in records if r.ended and r.phase == "Completed"),
        "used": _hours(measures.queue_time.get(name, {})),
        "evicted": evicted,
    }


def _utilisation(measures: Measures) -> Json:
    """Used fractions: until the last submission, and until the end."""
    out: Json = {}
    for name in sorted(measures.offered_time, key=order_of):
        offered, window = measures.offered_time[name], measures.window_offered.get(name, 0)
        used = measures.used_time.get(name, 0)
        if offered and used and name != "pods":
            out[name] = {
                "window": _part(measures.window_used.get(name, 0), window),
                "whole": _part(used, offered),
                "useful": _part(used - measures.lost_time.get(name, 0), offered),
                "peak": _part(max((s.used.get(name, 0) for s in measures.samples), default=0), _total(measures, name)),
            }
    return out


def _total(measures: Measures, name: str) -> int:
    return max((sample.total.get(name, 0) for sample in measures.samples), default=0)


def _fragmentation(measures: Measures) -> Json:
    values = [s.fragmentation for s in measures.samples if s.fragmentation is not None]
    return {
        "resource": measures.fragmented_resource,
        "mean": _mean(values),
        "max": max(map(_rounded, values), default=None),
    }


def _fairness(measures: Measures) -> Json:
    values = [s.fairness for s in measures.samples if s.fairness is not None]
    short = [s.shortfall for s in measures.samples if s.shortfall is not None]
    return {"mean": _mean(values), "least": min(map(_rounded, values), default=None), "shortfall": _mean(short)}


def _evictions(measures: Measures, records: Iterable[JobRecord]) -> Json:
    entries = [
        {"action": action, "queue": victim, "for": by, "pods": count}
        for (action, victim, by), count in sorted(measures.evictions.items())
    ]
    return {"pods": sum(e["pods"] for e in entries), "jobs": sum(1 for r in records if r.evictions), "by": entries}


def _series(measures: Measures) -> Json:
    """The samples, as columns, thinned out."""
    step = max(1, -(-len(measures.samples) // POINTS))
    samples = measures.samples[::step]
    names = [name for name in sorted(measures.used_time, key=order_of) if name != "pods" and measures.used_time[name]]
    queues = sorted({queue for sample in samples for queue in sample.queues})
    main = measures.fragmented_resource
    return {
        "time": [_seconds(s.time) for s in samples],
        "used": {name: [_part(s.used.get(name, 0), s.total.get(name, 0)) for s in samples] for name in names},
        "waiting": [s.waiting for s in samples],
        "running": [s.running for s in samples],
        "fairness": [None if s.fairness is None else _rounded(s.fairness) for s in samples],
        "fragmentation": [None if s.fragmentation is None else _rounded(s.fragmentation) for s in samples],
        "queues": {
            queue: [_part(s.queues.get(queue, {}).get(main, 0), s.total.get(main, 0)) for s in samples]
            for queue in queues
        },
    }


# --- numbers


def spread(values: Iterable[float]) -> Json:
    """Return mean, percentiles and the largest of some numbers; None for each if there are none."""
    known = sorted(values)
    out: Json = {"count": len(known), "mean": _mean(known)}
    for percent in PERCENTILES:
        rank = max(0, math.ceil(percent / 100 * len(known)) - 1)
        out[f"p{percent}"] = _rounded(known[rank]) if known else None
    out["max"] = _rounded(known[-1]) if known else None
    return out


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(math.fsum(values) / len(values)) if values else None


def _seconds(us: int) -> float:
    return us / SECOND


def _part(of: float, whole: float) -> float:
    return _rounded(of / whole) if whole else 0.0


def _hours(amounts: Mapping[str, int]) -> Json:
    """Amount-hours: core-hours, byte-hours, card-hours."""
    out: Json = {}
    for name in sorted(amounts, key=order_of):
        if amounts[name] and name != "pods":
            scale = 1 if unit_of(name) == Unit.BYTES else 1000
            out[name] = _rounded(amounts[name] / scale / SECOND / 3600)
    return out


def _rounded(value: float) -> float:
    """Round to six significant digits, so that the last bits of floats do not matter."""
    return float(f"{value:.6g}")
