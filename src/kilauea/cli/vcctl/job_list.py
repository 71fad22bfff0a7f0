"""Filters of a list of jobs, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kilauea.api.ages import age
from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, parse_time
from kilauea.cli.vcctl.tables import Column, Form, fitting, part

TYPE_LABEL = "volcano.sh/job-type"
NAMED = fitting("Name")
NAMESPACED = fitting("Namespace")
FIGURES = (
    Column("Creation", 15),
    Column("Phase", 12),
    Column("JobType", 12),
    Column("Replicas", 12),
    Column("Min", 6),
    Column("Pending", 10),
    Column("Running", 10),
    Column("Succeeded", 12),
    Column("Failed", 10),
    Column("Unknown", 12),
    Column("RetryCount", 10),
)
WIDE = (fitting("", 1, 1), fitting("Queue"), fitting("PriorityClass"), fitting("Version"), fitting("Age"))


class Filter(NamedTuple):
    """Filters of a list of jobs; an empty filter matches all."""

    queue: str = ""
    scheduler: str = ""
    part_of_name: str = ""
    phases: frozenset[str] = frozenset()
    """Phases in lower case."""

    def takes(self, job: Obj) -> bool:
        """True if a job matches."""
        spec = job.get("spec") or {}
        return (
            (not self.queue or spec.get("queue") == self.queue)
            and (not self.scheduler or spec.get("schedulerName") == self.scheduler)
            and self.part_of_name in job["metadata"]["name"]
            and (not self.phases or phase_of(job).lower() in self.phases)
        )


def phases_of(text: str) -> frozenset[str]:
    """Phases from `Pending,Running`."""
    return frozenset(word.strip().lower() for word in text.split(",") if word.strip())


def phase_of(job: Obj) -> str:
    """The phase of a job; empty before the controller has seen it."""
    return str(part(job, "status", "state", "phase") or "")


def job_form(all_namespaces: bool, wide: bool) -> Form:
    """The columns of a list of jobs."""
    first = (NAMESPACED, NAMED) if all_namespaces else (NAMED,)
    columns = (*first, *FIGURES, *(WIDE if wide else ()))
    return Form(VC_JOBS, columns, state=len(first) + 1, ages=(len(columns) - 1,) if wide else ())


def job_row(job: Obj, now: int, all_namespaces: bool, wide: bool) -> list[str]:
    """The cells of a job."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    figures = [status.get(key) or 0 for key in ("minAvailable", "pending", "running", "succeeded", "failed", "unknown")]
    row = [
        *([metadata["namespace"]] if all_namespaces else []),
        metadata["name"],
        local_time(metadata.get("creationTimestamp"), "%Y-%m-%d"),
        phase_of(job),
        (metadata.get("labels") or {}).get(TYPE_LABEL) or "Batch",
        str(replicas_of(job)),
        *map(str, figures),
        str(status.get("retryCount") or 0),
    ]
    if wide:
        row += ["", spec.get("queue") or "", spec.get("priorityClassName") or ""]
        row += [str(status.get("version") or 0), age(job, now)]
    return row


def tasks_of(job: Obj) -> Sequence[Obj]:
    """The tasks of a job."""
    return part(job, "spec", "tasks") or []


def replicas_of(job: Obj) -> int:
    """Number of pods of a job."""
    return sum(int(task.get("replicas") or 0) for task in tasks_of(job))


def local_time(text: str | None, form: str) -> str:
    """An RFC 3339 time in the local time zone; empty for none."""
    import time

    return time.strftime(form, time.localtime(parse_time(text) // SECOND)) if text else ""
