"""Expected starts as sentences and as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kilauea.api.times import SECOND, format_time
from kilauea.cli.group_names import Owners, short
from kilauea.cli.slurm import DAY, duration_text

if TYPE_CHECKING:
    from kilauea.simulator.expected_start import ExpectedStart

SHOWN = 3
"""Maximum number of jobs to name."""
DECLARE = "declare it with spec.runningEstimate, activeDeadlineSeconds or the annotation kilauea.dev/run-time"


def expected_text(found: ExpectedStart, now: int, owners: Owners) -> str:
    """The start of a group and its basis, as a sentence without a full stop."""
    unknown = _unknown(found, owners)
    if found.verdict == "unknown":
        return f"unknown: {unknown}; {DECLARE}"
    if found.verdict == "never":
        return "unknown: it would not start even if everything that runs ended"
    if found.verdict == "far" or found.time is None:
        return "unknown: too much happens before it"
    parts = [f"about {_moment(found.time, now)} (in {_span(found.time - now)})"]
    if found.latest is None:
        parts.append(f"{_moment(found.earliest or found.time, now)} at the earliest")
    elif found.earliest != found.latest and found.earliest is not None:
        parts.append(f"between {_moment(found.earliest, now)} and {_moment(found.latest, now)}")
    text = ", ".join(parts)
    if found.freed:
        ends = [f"{short(each.group, owners)} ({each.source})" for each in found.freed[:SHOWN]]
        more = f" and {len(found.freed) - SHOWN} more" if len(found.freed) > SHOWN else ""
        text += f", when these end: {', '.join(ends)}{more}"
    if unknown:
        text += f"; sooner if one ends before, as {unknown}"
    return text


def expected_data(found: ExpectedStart) -> dict[str, Any]:
    """An expected start as data."""
    return {
        "verdict": found.verdict,
        "time": _text(found.time),
        "earliest": _text(found.earliest),
        "latest": _text(found.latest),
        "follows": [{"group": e.group, "end": format_time(e.end), "source": e.source} for e in found.freed],
        "unknown": list(found.unknown),
    }


def _unknown(found: ExpectedStart, owners: Owners) -> str:
    """The running jobs whose end is unknown."""
    if not found.unknown:
        return ""
    names: Sequence[str] = sorted({short(each, owners) for each in found.unknown})
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    many, verb = ("jobs", "declare") if len(names) > 1 else ("job", "declares")
    return f"{len(names)} running {many} {verb} no run time ({', '.join(names[:SHOWN])}{more})"


def _text(at: int | None) -> str | None:
    return format_time(at) if at is not None else None


def _span(span: int) -> str:
    return duration_text(max(0, span) // SECOND)


def _moment(at: int, now: int) -> str:
    """A time in the local time zone, with its day if that is not today."""
    form = "%H:%M:%S" if abs(at - now) < DAY * SECOND // 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at // SECOND))
