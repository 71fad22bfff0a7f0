"""Histories as text: the timeline of a job, lists of jobs, and totals of usage."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kilauea.api.quantity import Unit, unit_of
from kilauea.api.times import SECOND
from kilauea.cli.histories.moments import stamp
from kilauea.cli.slurm import duration_text
from kilauea.cli.table import table

if TYPE_CHECKING:
    from kilauea.history.answers import JobAnswer, UsageAnswer
    from kilauea.history.usage import UsageRow

HOUR = 3600
GIB = 1 << 30


def job_lines(found: JobAnswer, now: int) -> list[str]:
    """The life of a job."""
    from kilauea.history.timeline import end_of, timeline

    job, pods = found.job, found.pods
    end = end_of(job, pods)
    state = job.state or (pods[-1].state if pods else "Pending")
    gone = ", deleted since" if job.deleted is not None else ""
    lines = [f"{job.kind.partition('.')[0]} {job.namespace}/{job.name}: {state}{gone}"]
    starts = [pod.bound for pod in pods if pod.bound is not None]
    if starts:
        first = min(starts)
        lines.append(
            f"It waited {_span(first - job.submitted)} and ran {_span((now if end is None else end) - first)}."
        )
    else:
        lines.append(f"It waited {_span((now if end is None else end) - job.submitted)} and did not run.")
    evicted = [event for event in found.events if event.what == "Evicted"]
    if evicted:
        lost = sum((p.ended or p.bound or 0) - (p.bound or 0) for p in pods if p.state == "Evicted")
        many = f"{len(evicted)} of its pods were" if len(evicted) > 1 else "One of its pods was"
        lines.append(f"{many} evicted, after {_span(lost)} of work{' in all' if len(evicted) > 1 else ''}.")
    rows = [[stamp(entry.time), entry.what, entry.text] for entry in timeline(job, pods, found.events)]
    lines += ["", *table(["TIME", "WHAT", "DETAILS"], rows)]
    if found.others:
        lines += ["", f"Older jobs of this name: --uid {', --uid '.join(found.others[:5])}"]
    return lines


def jobs_lines(items: Sequence[JobAnswer], now: int, *, named: bool) -> list[str]:
    """A table of jobs.

    Args:
        items: the jobs with their pods.
        now: the current time, for unfinished jobs.
        named: True to show namespaces.
    """
    from kilauea.history.timeline import end_of

    rows = []
    for each in items:
        job, pods = each.job, each.pods
        starts = [pod.bound for pod in pods if pod.bound is not None]
        end = end_of(job, pods)
        until = now if end is None else end
        waited = (min(starts) if starts else until) - job.submitted
        rows.append(
            [
                *([job.namespace] if named else []),
                job.name,
                job.queue or "-",
                job.user or "-",
                (job.state or (pods[-1].state if pods else "Pending")) + (" (deleted)" if job.deleted else ""),
                str(len({pod.name for pod in pods}) or job.pods),
                stamp(job.submitted),
                _span(waited),
                _span(until - min(starts)) if starts else "-",
                str(sum(pod.state == "Evicted" for pod in pods) or "-"),
            ]
        )
    heading = ["JOB", "QUEUE", "USER", "STATE", "PODS", "SUBMITTED", "WAITED", "RAN", "EVICTIONS"]
    return table([*(["NAMESPACE"] if named else []), *heading], rows)


def _span(time: int) -> str:
    return duration_text(max(0, time) // SECOND)


# --- usage


def usage_lines(found: UsageAnswer) -> list[str]:
    """A table of the usage, in hours."""
    names = _resources(found.rows)
    heading = [found.by.upper(), "PODS", "POD-HOURS", *(f"{_title(name)}-HOURS" for name in names)]
    rows = [
        [
            row.name or "(none)",
            str(row.pods),
            _hours(row.time / SECOND),
            *(_hours(_seconds(name, row.amounts.get(name, 0)) / (GIB if _is_bytes(name) else 1)) for name in names),
        ]
        for row in found.rows
    ]
    return table(heading, rows)


def usage_data(found: UsageAnswer) -> dict[str, Any]:
    """The usage in seconds, as data."""
    from kilauea.api.times import format_time

    return {
        "by": found.by,
        "since": format_time(found.begin),
        "until": format_time(found.end),
        "completeSince": format_time(found.since),
        "gaps": [
            {"since": format_time(start), "until": format_time(end), "reason": why} for start, end, why in found.gaps
        ],
        "rows": [
            {
                found.by: row.name,
                "pods": row.pods,
                "podSeconds": row.time / SECOND,
                "resourceSeconds": {name: _seconds(name, amount) for name, amount in sorted(row.amounts.items())},
            }
            for row in found.rows
        ],
    }


def usage_csv(found: UsageAnswer) -> str:
    """The usage as CSV: seconds of cpus, of devices, of bytes."""
    names = _resources(found.rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([found.by, "pods", "pod_seconds", *(f"{name}_seconds" for name in names)])
    for row in found.rows:
        amounts = [f"{_seconds(name, row.amounts.get(name, 0)):.6f}" for name in names]
        writer.writerow([_cell(row.name), row.pods, f"{row.time / SECOND:.6f}", *amounts])
    return text.getvalue()


def _cell(text: str) -> str:
    """A text that spreadsheets do not interpret as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def _resources(rows: Sequence[UsageRow]) -> list[str]:
    first = ("cpu", "memory")
    found = {name for row in rows for name in row.amounts}
    return [*(name for name in first if name in found), *sorted(found - set(first))]


def _title(resource: str) -> str:
    if _is_bytes(resource):
        return f"{resource.upper()}-GIB"
    return resource.rpartition("/")[2].upper()


def _is_bytes(resource: str) -> bool:
    return unit_of(resource) is Unit.BYTES


def _seconds(resource: str, amount: int) -> float:
    """Seconds of a resource: of cpus and devices, or of bytes."""
    return amount / 1000 / SECOND if unit_of(resource) is Unit.MILLI else amount / SECOND


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR:.2f}"
