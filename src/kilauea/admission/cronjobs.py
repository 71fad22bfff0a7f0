"""Volcano's CronJob: its schedule and time zone must be valid, and its name must leave room for those of its jobs."""

from __future__ import annotations

import json
import re

from kilauea.admission.reading import name_fault, name_of, read
from kilauea.admission.review import Denied, Review, Settings
from kilauea.api.batch import CronJob
from kilauea.api.cron import parse_schedule
from kilauea.api.ports import View

LONGEST_NAME = 52
"""Characters; the moment of a job is put behind it, and names of jobs have 63."""
_YEARLY = "@yearly"
"""A schedule to try a zone with."""
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate(review: Review, _view: View, _settings: Settings) -> list[str]:
    """No warnings.

    Raises:
        Denied: the cron job may not be as it is.
    """
    cron = read(review.obj, CronJob)
    spec = (_schedule_fault(cron.spec.schedule) + _zone_fault(cron.spec.time_zone)).strip()
    faults = [each for each in (spec, *_name_faults(name_of(cron, review.obj))) if each]
    if faults:
        raise Denied("; ".join(faults))
    return []


def _schedule_fault(schedule: str) -> str:
    if not schedule:
        return " schedule is required, but got empty"
    if "TZ" in schedule:
        return " schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    return "" if _can_be_read(schedule) else "schedule is not a valid cron expression"


def _zone_fault(zone: str | None) -> str:
    if zone is None:
        return ""
    if not zone:
        return " timeZone must be nil or non-empty string, got empty string"
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return " unknown timeZone"
    if zone.lower() == "local":
        return " timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
    return "" if _can_be_read(_YEARLY, zone) else " invalid timeZone"


def _can_be_read(schedule: str, zone: str = "") -> bool:
    try:
        parse_schedule(schedule, zone)
    except ValueError:
        return False
    return True


def _name_faults(name: str) -> list[str]:
    long = f"cronJob name must be no more than {LONGEST_NAME} characters to accommodate job name suffix (max 63 total)"
    fault = name_fault(name)
    quoted = json.dumps(name, ensure_ascii=False)
    return ([long] if len(name) > LONGEST_NAME else []) + ([f"invalid cronJob name {quoted}: {fault}"] if fault else [])
