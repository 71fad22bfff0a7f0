"""The controller of Volcano's cron jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.cron import Interval, Schedule, parse_schedule
from kilauea.api.kinds import VC_CRON_JOBS, VC_JOBS
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Record, View
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.cronjobs.slots import Slots, job_name, slots
from kilauea.controllers.cronjobs.template import job_of
from kilauea.controllers.objects import (
    NOTHING,
    ItsController,
    is_going,
    name_of,
    own_key,
    owned_by,
    spec_of,
    status_patch,
    uid_of,
)
from kilauea.controllers.vccronjobs.history import deletion, forgotten, noted, running

SCHEDULED = "volcano.sh/cronjob-scheduled-timestamp"


class VcCronJobController:
    """Creates Volcano jobs by schedules."""

    name = "vccronjob-controller"
    interests = (Interest(VC_CRON_JOBS, own_key), Interest(VC_JOBS, ItsController(VC_CRON_JOBS)))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create a job if one is due, delete old ones, and update the list of active jobs."""
        cron = view.get(VC_CRON_JOBS, key)
        if cron is None or is_going(cron):
            return NOTHING
        jobs = owned_by(view, VC_JOBS, cron)
        status, operations = noted(cron, jobs)
        operations += forgotten(cron, jobs)
        again: float | None = None
        if not spec_of(cron).get("suspend"):
            schedule, errors = _schedule(cron)
            operations += errors
            if schedule is not None:
                found = slots(cron, schedule, now)
                operations += _due(cron, schedule, found, jobs, status, view)
                again = None if found.following is None else (found.following - now) / SECOND
        return Outcome([*operations, *status_patch(VC_CRON_JOBS, cron, status)], again)


def _schedule(cron: Obj) -> tuple[Schedule | Interval | None, list[Operation]]:
    """The schedule, if it is valid, and events about it."""
    text, zone = str(spec_of(cron)["schedule"]), spec_of(cron).get("timeZone") or ""
    errors: list[Operation] = []
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, text = text.partition(" ")
        zone = prefix.partition("=")[2]
        message = f"{prefix} in the schedule is not supported: write timeZone: {zone}"
        errors.append(Record(cron, "Warning", "UnsupportedSchedule", message))
    try:
        parse_schedule(text)
    except ValueError as error:
        message = f"unparseable schedule for cronjob: {text}: {error}"
        return None, [*errors, Record(cron, "Warning", "UnParseableCronJobSchedule", message)]
    try:
        return parse_schedule(text, zone), errors
    except ValueError as error:
        message = f'Invalid time zone "{zone}": {error}'
        return None, [*errors, Record(cron, "Warning", "InvalidTimeZone", message)]


def _due(
    cron: Obj, schedule: Schedule | Interval, found: Slots, jobs: Sequence[Obj], status: dict[str, Any], view: View
) -> list[Operation]:
    """Create the job of the latest due time that has none; updates the status accordingly."""
    if found.latest is None:
        return []
    operations: list[Operation] = []
    if found.many:
        message = "too many missed start times: set startingDeadlineSeconds, or check the clocks of the cluster"
        operations.append(Record(cron, "Warning", "TooManyMissedTimes", message))
    name, active = job_name(cron, schedule, found.latest), running(jobs)
    job = job_of(cron, VC_CRON_JOBS, VC_JOBS, name, found.latest, SCHEDULED)
    there = view.get(VC_JOBS, Key(cron["metadata"]["namespace"], name))
    if there is not None:
        if any(uid_of(there) == uid_of(each) for each in jobs):  # created, but the status was not written
            status["lastScheduleTime"] = format_time(found.latest)
            return operations
        message = f"job {name} exists and does not belong to this cron job: delete or rename it"
        return [*operations, Record(cron, "Warning", "ForeignJob", message)]
    policy = spec_of(cron).get("concurrencyPolicy") or "Allow"
    if policy == "Forbid" and active:
        message = "Skipping job creation because another job is already running"
        return [*operations, Record(cron, "Warning", "ForbidConcurrent", message)]
    if policy == "Replace" and active:
        operations.append(Record(cron, "Warning", "ReplaceConcurrent", "Replacing active job for CronJob"))
        for each in active:
            operations += [] if is_going(each) else deletion(cron, each)
        status["active"] = None
    status["lastScheduleTime"] = format_time(found.latest)
    message = f"Created job {name} for CronJob {cron['metadata']['namespace']}/{name_of(cron)}"
    return [*operations, Create(VC_JOBS, job, about=cron), Record(cron, "Normal", "SuccessfulCreate", message)]
