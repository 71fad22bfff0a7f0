"""The jobs of a cron job: running ones, and finished ones, which are deleted beyond a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Delete, Obj, Operation, Record, key_of
from kilauea.controllers.objects import is_going, name_of, object_reference, spec_of, status_of, uid_of

LIMITS = (
    (frozenset({"Completed"}), "successfulJobsHistoryLimit", 3),
    (frozenset({"Failed", "Terminated"}), "failedJobsHistoryLimit", 1),
)
"""By final phases of jobs: the field for the number to keep, and its default."""
OVER = LIMITS[0][0] | LIMITS[1][0]


def phase_of(job: Obj) -> str:
    """The phase of a job."""
    return (status_of(job).get("state") or {}).get("phase") or ""


def running(jobs: Sequence[Obj]) -> list[Obj]:
    """The unfinished jobs; an aborted job may be resumed, so it counts."""
    return [job for job in jobs if phase_of(job) not in OVER]


def noted(cron: Obj, jobs: Sequence[Obj]) -> tuple[dict[str, Any], list[Operation]]:
    """Return the status for the jobs, and events about listed jobs that have ended."""
    known = {each.get("uid", ""): each for each in status_of(cron).get("active") or ()}
    staying = [job for job in running(jobs) if not is_going(job)]
    active = {uid_of(job): known.get(uid_of(job)) or object_reference(VC_JOBS, job) for job in staying}
    there = {uid_of(job): job for job in jobs}
    told: list[Operation] = []
    for uid, each in known.items():
        name = each.get("name", "")
        if uid not in there:
            told.append(Record(cron, "Warning", "StaleReference", f"Active job {name} is gone, remove"))
        elif phase_of(there[uid]) in OVER:
            told.append(Record(cron, "Normal", "SawCompletedJob", f"Saw completed job: {name} in active, remove"))
    status: dict[str, Any] = {"active": list(active.values()) or None}
    done = [status_of(job)["state"].get("lastTransitionTime") or "" for job in jobs if phase_of(job) == "Completed"]
    latest = max([*done, status_of(cron).get("lastSuccessfulTime") or ""])
    if latest:
        status["lastSuccessfulTime"] = latest
    return status, told


def forgotten(cron: Obj, jobs: Sequence[Obj]) -> list[Operation]:
    """Delete the oldest finished jobs beyond the limits."""
    operations: list[Operation] = []
    for ends, field, usual in LIMITS:
        given = spec_of(cron).get(field)
        limit = usual if given is None else int(given)
        over = sorted((job for job in jobs if phase_of(job) in ends and not is_going(job)), key=_age)
        for job in over[: max(0, len(over) - limit)]:
            operations += deletion(cron, job)
    return operations


def _age(job: Obj) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], name_of(job)


def deletion(cron: Obj, job: Obj) -> list[Operation]:
    """Delete a job, with an event."""
    message = f'Deleted job "{name_of(job)}"'
    return [Delete(VC_JOBS, key_of(job), uid_of(job)), Record(cron, "Normal", "SuccessfulDelete", message)]
