"""Schedules in crontab syntax: five fields, a word such as `@hourly`, in a time zone; or `@every 90m`.

schedule = parse_schedule("30 9 * * mon-fri", "Europe/Rome")
schedule.after(moment)                                          # the next half past nine of a working day
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import product
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kilauea.api.remembered import remembered_parts
from kilauea.api.times import SECOND, parse_duration

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_DAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_MOST_DAYS = 366 * 8 + 3
"""Number of days to search: a 29th of February is at most eight years away."""


@dataclass(frozen=True)
class Schedule:
    """A cron schedule.

    Attributes:
        minutes, hours, days, months, weekdays: the values of each field; Sunday is 0.
        either: True if a match of either kind of day suffices, as both are restricted.
        zone: the time zone of the fields.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    zone: tzinfo

    def after(self, moment: int, since: int = 0) -> int | None:
        """Return the first time after a moment; None if there is none in eight years.

        An hour that occurs twice, at the end of daylight saving time, counts twice; a skipped hour does not count.

        Args:
            moment: microseconds since 1970, as is the result.
            since: not used.
        """
        day = datetime.fromtimestamp(moment // SECOND, self.zone).date()
        last = day + timedelta(days=_MOST_DAYS)
        while day < last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
                continue
            if self._has(day.day, day.isoweekday() % 7) and (found := self._first_of(day, moment)) is not None:
                return found
            day += timedelta(days=1)
        return None

    def _first_of(self, day: date, moment: int) -> int | None:
        """Return the first time of a day after a moment; None if there is none."""
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        if midnight.utcoffset() != (midnight + timedelta(days=1)).utcoffset():  # clocks are set on this day
            return min((due for due in self._times_of(day) if due > moment), default=None)
        start = int(midnight.timestamp())
        hour, minute = divmod(max(moment // SECOND - start, -1) // 60, 60)
        if hour in self.hours and (later := bisect_right(self.minutes, minute)) < len(self.minutes):
            return (start + hour * 3600 + self.minutes[later] * 60) * SECOND
        if (later := bisect_right(self.hours, hour)) < len(self.hours):
            return (start + self.hours[later] * 3600 + self.minutes[0] * 60) * SECOND
        return None

    def _times_of(self, day: date) -> Iterator[int]:
        """Yield all times of a day."""
        for hour, minute in product(self.hours, self.minutes):
            for fold in (0, 1):
                shown = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                due = int(shown.timestamp())
                if fold and due == int(shown.replace(fold=0).timestamp()):
                    continue  # not a repeated hour
                told = datetime.fromtimestamp(due, self.zone)
                if (told.hour, told.minute) == (hour, minute):
                    yield due * SECOND

    def _has(self, day: int, weekday: int) -> bool:
        if self.either:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


@dataclass(frozen=True)
class Interval:
    """A schedule at a constant interval from a start.

    Attributes:
        length: the interval in microseconds, whole seconds.
    """

    length: int

    def after(self, moment: int, since: int = 0) -> int | None:
        """Return the first time after a moment and after the start, in microseconds since 1970."""
        return since + max(1, (moment - since) // self.length + 1) * self.length


@remembered_parts(1024)
def parse_schedule(text: str, zone: str = "") -> Schedule | Interval:
    """Parse a schedule; the default zone is UTC.

    Raises:
        ValueError: it is invalid, or the time zone does not exist; names the field and the value.
    """
    if text.startswith(_EVERY):
        length = parse_duration(text.removeprefix(_EVERY).strip())
        if length < 0:
            raise ValueError(f'invalid schedule "{text}": use a duration above zero such as @every 90m')
        return Interval(max(SECOND, length - length % SECOND))
    fields = _WORDS.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f'invalid schedule "{text}": use five fields such as "*/5 * * * *"')
    minutes, hours, days, months, weekdays = (
        _values(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)
    )
    return Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        not fields[2].startswith(("*", "?")) and not fields[4].startswith(("*", "?")),
        _zone(zone),
    )


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f'unknown time zone "{name}": use a name such as Europe/Rome') from None


def _values(field: str, name: str, least: int, most: int, words: dict[str, int]) -> set[int]:
    """Parse the values of one field: `*`, numbers, names, ranges, steps, and lists of them."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span in ("*", "?"):
            low, high = least, most
        else:
            low = _number(first, words)
            high = _number(last, words) if last else (most if step else low)
        every = _number(step, {}) if step else 1
        if not least <= low <= high <= most or every < 1:
            raise ValueError(f'invalid {name} "{part}": use {least} to {most}, such as {least}-{most}/2')
        found.update(range(low, high + 1, every))
    return found


def _number(text: str, words: dict[str, int]) -> int:
    """Parse a number; -1 if invalid."""
    if text.lower() in words:
        return words[text.lower()]
    return int(text) if text.isascii() and text.isdigit() else -1
