"""The scheduled time to serve now, which is the latest that has passed, and the name of its job."""

from __future__ import annotations

from typing import NamedTuple

from kilauea.api.cron import Interval, Schedule
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, parse_time
from kilauea.controllers.objects import name_of, spec_of, status_of

MINUTE = 60 * SECOND
MANY_MISSED = 100
"""Number of missed times from which a warning is issued; more are not counted one by one."""


class Slots(NamedTuple):
    """Times of a schedule around now, in microseconds since 1970.

    Attributes:
        latest: the latest time that has passed and was not served yet; None without one, or if it is too late for it.
        many: True if many have been missed.
        following: the next time.
    """

    latest: int | None
    many: bool
    following: int | None


def slots(cron: Obj, schedule: Schedule | Interval, now: int) -> Slots:
    """The times of a cron job around now, counted from its creation or its last run."""
    since = parse_time(status_of(cron).get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])
    if isinstance(schedule, Interval) and since > now + schedule.length:
        # The clock was set back. An interval is a wait, which must not get longer by that: it counts from now on.
        since = now - now % SECOND
        return Slots(since, False, since + schedule.length)
    following = schedule.after(max(now, since), since)
    deadline = spec_of(cron).get("startingDeadlineSeconds")
    start = since if deadline is None else max(since, now - int(deadline) * SECOND)
    due, found = schedule.after(start, since), None
    for _ in range(MANY_MISSED):
        if due is None or due > now:
            return Slots(found, False, following)
        found, due = due, schedule.after(due, since)
    return Slots(_shortly_before(schedule, now, since), True, following)


def job_name(cron: Obj, schedule: Schedule | Interval, due: int) -> str:
    """The name of the job for a time: with the minute since 1970, or the second if several can be due in a minute."""
    often = isinstance(schedule, Interval) and schedule.length < MINUTE
    return f"{name_of(cron)}-{due // (SECOND if often else MINUTE)}"


def _shortly_before(schedule: Schedule | Interval, now: int, since: int) -> int | None:
    """The latest time that has passed, searched backwards from now in growing steps."""
    step = MINUTE
    while True:
        due = schedule.after(now - step, since)
        if due is not None and due <= now:
            following = schedule.after(due, since)
            while following is not None and following <= now:
                due, following = following, schedule.after(following, since)
            return due
        step *= 2
