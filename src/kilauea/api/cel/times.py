"""Times and durations in CEL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kilauea.api.cel.values import CelError

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:h|m|s|ms|us|µs|ns))+)", re.ASCII)
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def timestamp(value: Any) -> datetime:
    """Return the time of a text, or of seconds since 1970."""
    if value.__class__ is datetime:
        return value
    if value.__class__ is int:
        return datetime.fromtimestamp(value, UTC)
    if value.__class__ is not str:
        raise CelError("no such overload")
    if len(value) > 40 or not _TIME.fullmatch(value):
        raise CelError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"')
    return datetime.fromisoformat(value.upper())


def duration(value: Any) -> timedelta:
    """Parse a duration such as `1h30m`."""
    if value.__class__ is timedelta:
        return value
    if value.__class__ is int:
        return timedelta(seconds=value)
    if value.__class__ is not str:
        raise CelError("no such overload")
    if len(value) > 128 or not _DURATION.fullmatch(value):
        raise CelError(f'time: invalid duration "{value}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    return timedelta(seconds=-seconds if value[0] == "-" else seconds)


def text_of_time(value: datetime) -> str:
    """Format a time as RFC 3339."""
    text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}{f'.{value.microsecond:06d}'.rstrip('0') if value.microsecond else ''}Z"


def text_of_duration(value: timedelta) -> str:
    """Format a duration in seconds."""
    return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"


def _zone(name: str) -> tzinfo:
    found = _OFFSET.fullmatch(name)
    if found:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _part(of_time: Callable[[datetime], int], seconds: float | None = None) -> Callable[..., int]:
    """Return a function for a part of a time in a zone, or for a whole duration in the given unit."""

    def run(value: Any, zone: str = "UTC") -> int:
        if value.__class__ is timedelta and seconds is not None:
            return int(value.total_seconds() / seconds)
        if value.__class__ is not datetime:
            raise CelError("no such overload")
        return of_time(value.astimezone(_zone(zone)))

    return run


METHODS: Mapping[str, Callable[..., Any]] = {
    "getDate": _part(lambda time: time.day),
    "getDayOfMonth": _part(lambda time: time.day - 1),
    "getDayOfWeek": _part(lambda time: time.isoweekday() % 7),
    "getDayOfYear": _part(lambda time: time.timetuple().tm_yday - 1),
    "getFullYear": _part(lambda time: time.year),
    "getHours": _part(lambda time: time.hour, 3600),
    "getMilliseconds": _part(lambda time: time.microsecond // 1000, 0.001),
    "getMinutes": _part(lambda time: time.minute, 60),
    "getMonth": _part(lambda time: time.month - 1),
    "getSeconds": _part(lambda time: time.second, 1),
}
