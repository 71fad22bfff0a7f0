"""Times and durations as integers: microseconds since 1970, and microseconds.

Kubernetes writes times as RFC 3339 text and durations in Go's syntax. Integers compare and add exactly, which floats
and `datetime` with its time zones do not make easy. No clock is read here.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from kilauea.api.remembered import remembered

SECOND = 1_000_000
"""One second in microseconds."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (date.min.toordinal() - _EPOCH_DAY) * 86_400 * SECOND
_LAST = (date.max.toordinal() + 1 - _EPOCH_DAY) * 86_400 * SECOND - 1
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_PART = re.compile("(?=[.]?[0-9])([0-9]*)(?:[.]([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign; Go takes it and the Greek letter
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONGEST_TEXT = 128


def _shown(text: str) -> str:
    """Format the value for messages."""
    return f'"{text}"' if len(text) <= _LONGEST_TEXT else f'"{text[:32]}..."'


def _bad_time(text: str) -> ValueError:
    """Return the error for an invalid time."""
    return ValueError(f"{_shown(text)} is not a time: use RFC 3339 such as 2025-01-31T12:00:00Z")


@remembered(4096)
def parse_time(text: str) -> int:
    """Parse an RFC 3339 time with `Z` or an offset to microseconds since 1970-01-01T00:00:00Z.

    One to nine fractional digits are accepted, and truncated to microseconds (towards the past). Times
    before 1970 are negative.

    Raises:
        ValueError: not RFC 3339, or no such day or hour; names the value and the right form.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise _bad_time(text)
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = found.groups("0")
    hours, minutes, seconds = int(hour), int(minute), int(second)
    offset = int(off_hour) * 60 + int(off_minute)
    if hours > 23 or minutes > 59 or seconds > 59 or int(off_hour) > 23 or int(off_minute) > 59:
        raise _bad_time(text)
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise _bad_time(text) from None
    minutes += hours * 60 + (offset if sign == "-" else -offset)
    return (days * 86_400 + minutes * 60 + seconds) * SECOND + int(fraction[:6].ljust(6, "0"))


@lru_cache(maxsize=1024)
def format_time(us: int) -> str:
    """Format microseconds since 1970 as RFC 3339 in UTC, with six fractional digits unless they are all zero.

    Raises:
        ValueError: before the year 1 or after the year 9999.
    """
    if not _FIRST <= us <= _LAST:
        raise ValueError(f"{us} microseconds since 1970 is not a time: use the years 1 to 9999")
    moment = _EPOCH + timedelta(microseconds=us)
    return moment.replace(tzinfo=None).isoformat() + "Z"


@remembered(4096)
def parse_duration(text: str) -> int:
    """Parse a duration in Go's syntax to microseconds: `1h30m`, `1.5s`, `500ms`, `-2m`, `0`.

    It is truncated to microseconds, towards zero.

    Raises:
        ValueError: not a duration, or longer than 2**63 - 1 nanoseconds (292 years); names the value and the form.
    """
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    total, end = 0, 0
    for found in _PART.finditer(unsigned) if len(text) <= _LONGEST_TEXT else ():
        if found.start() != end:
            break
        whole, fraction, unit = found.groups("")
        total += int(whole + fraction) * _NANOSECONDS[unit] // 10 ** len(fraction)
        end = found.end()
    if not unsigned or end != len(unsigned):
        raise ValueError(f"{_shown(text)} is not a duration: use numbers with units such as 1h30m, 10s, 500ms")
    if total >= 2**63:
        raise ValueError(f"{_shown(text)} is too long a duration: use at most 2562047h")
    return -(total // 1000) if text[0] == "-" else total // 1000
