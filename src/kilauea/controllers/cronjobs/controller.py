"""The controller of cron jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.cron import Interval, Schedule, parse_schedule
from kilauea.api.kinds import CRON_JOBS, JOBS
from kilauea.api.ports import Create, Delete, Interest, Key, Obj, Operation, Outcome, Record, View, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.cronjobs.slots import job_name, slots
from kilauea.controllers.cronjobs.template import job_of
from kilauea.controllers.jobs.ending import ended
from kilauea.controllers.objects import (
    NOTHING,
    ItsController,
    is_going,
    is_true,
    name_of,
    object_reference,
    own_key,
    owned_by,
    spec_of,
    status_of,
    status_patch,
    uid_of,
)

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
LIMITS = {"Complete": ("successfulJobsHistoryLimit", 3), "Failed": ("failedJobsHistoryLimit", 1)}
"""Numbers of finished jobs to keep, by their result."""


class CronJobController:
    """Creates jobs by schedules."""

    name = "cronjob-controller"
    interests = (Interest(CRON_JOBS, own_key), Interest(JOBS, ItsController(CRON_JOBS)))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create a job if one is due, delete old ones, and update the list of active jobs."""
        cron = view.get(CRON_JOBS, key)
        if cron is None or is_going(cron):
            return NOTHING
        jobs = owned_by(view, JOBS, cron)
        status, operations = _running(cron, jobs)
        operations += _forgotten(cron, jobs)
        again: float | None = None
        spec = spec_of(cron)
        try:
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
        except ValueError as error:
            operations.append(Record(cron, "Warning", "UnparseableSchedule", f"unparseable schedule: {error}"))
        else:
            if not spec.get("suspend"):
                found = slots(cron, schedule, now)
                operations += _due(cron, schedule, found.latest, jobs, status)
                again = None if found.following is None else (found.following - now) / SECOND
        return Outcome([*operations, *status_patch(CRON_JOBS, cron, status)], again)


def _running(cron: Obj, jobs: Sequence[Obj]) -> tuple[dict[str, Any], list[Operation]]:
    """The unfinished jobs for the status, and the events about jobs that have finished or are unexpected."""
    active = _active(cron, jobs)
    there = {uid_of(job) for job in active}
    strange = [job for job in jobs if ended(job) is None and uid_of(job) not in there]
    unexpected = "Saw a job that the controller did not create or forgot"
    told: list[Operation] = [
        Record(cron, "Warning", "UnexpectedJob", f"{unexpected}: {name_of(job)}") for job in strange
    ]
    for reference in status_of(cron).get("active") or ():
        if reference["uid"] not in there:
            over = next((job for job in jobs if uid_of(job) == reference["uid"]), None)
            if over is None:
                told.append(Record(cron, "Normal", "MissingJob", f"Active job went missing: {reference['name']}"))
            else:
                how = "Complete" if is_true(over, "Complete") else "Failed"
                message = f"Saw completed job: {reference['name']}, condition: {how}"
                told.append(Record(cron, "Normal", "SawCompletedJob", message))
    done = [status_of(job).get("completionTime") or "" for job in jobs if is_true(job, "Complete")]
    status: dict[str, Any] = {"active": [object_reference(JOBS, job) for job in active] or None}
    latest = max([*done, status_of(cron).get("lastSuccessfulTime") or ""])
    if latest:
        status["lastSuccessfulTime"] = latest
    return status, told


def _active(cron: Obj, jobs: Sequence[Obj]) -> list[Obj]:
    """The unfinished jobs of the schedule; the concurrency policy does not count jobs created by users."""
    known = {each["uid"] for each in status_of(cron).get("active") or ()}
    running = [job for job in jobs if ended(job) is None]
    return [job for job in running if SCHEDULED in (job["metadata"].get("annotations") or {}) or uid_of(job) in known]


def _forgotten(cron: Obj, jobs: Sequence[Obj]) -> list[Operation]:
    """Delete the oldest finished jobs beyond the limits."""
    operations: list[Operation] = []
    for how, (field, usual) in LIMITS.items():
        limit = int(spec_of(cron).get(field, usual))
        over = sorted((job for job in jobs if is_true(job, how) and not is_going(job)), key=_age)
        for job in over[: max(0, len(over) - limit)]:
            operations.append(_deletion(job))
            operations.append(Record(cron, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}"))
    return operations


def _age(job: Obj) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], name_of(job)


def _deletion(job: Obj) -> Delete:
    return Delete(JOBS, key_of(job), uid_of(job), propagation="Background")


def _due(
    cron: Obj, schedule: Schedule | Interval, due: int | None, jobs: Sequence[Obj], status: dict[str, Any]
) -> list[Operation]:
    """Create the job of the latest due time that has none; updates the status accordingly."""
    if due is None:
        return []
    active = _active(cron, jobs)
    policy = spec_of(cron).get("concurrencyPolicy", "Allow")
    if policy == "Forbid" and active:
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return [Record(cron, "Normal", "JobAlreadyActive", message)]
    operations: list[Operation] = []
    if policy == "Replace":
        for job in active:
            operations.append(_deletion(job))
            operations.append(Record(cron, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}"))
    job = job_of(cron, CRON_JOBS, JOBS, job_name(cron, schedule, due), due, SCHEDULED)
    name = job["metadata"]["name"]
    status["lastScheduleTime"] = format_time(due)
    operations.append(Create(JOBS, job, about=cron))
    return [*operations, Record(cron, "Normal", "SuccessfulCreate", f"Created job {name}")]
