"""Schedules."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.cron import Schedule, parse_schedule
from kilauea.api.times import SECOND, format_time, parse_time


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "due"),
    [
        ("*/5 * * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"),
        ("0 0 29 2 *", "", "2025-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("30 9 * * mon-fri", "", "2026-01-02T10:00:00Z", "2026-01-05T09:30:00Z"),
        ("0 0 13 * fri", "", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 12 * * 7", "", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"),
        ("@monthly", "", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("0 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
        ("0 * * * *", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", "2026-10-04T15:15:00Z"),
        ("10-20/5,50 3 * jan,jun *", "", "2026-01-31T03:20:00Z", "2026-01-31T03:50:00Z"),
    ],
)
def test_a_schedule_says_when_it_is_due_next(schedule: str, zone: str, after: str, due: str) -> None:
    found = parse_schedule(schedule, zone).after(parse_time(after))
    assert found is not None
    assert format_time(found) == due


@pytest.mark.parametrize(
    "schedule", ["* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "a * * * *", "@never", "@every x", "@every -1m"]
)
def test_an_invalid_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"invalid (schedule|minute)|is not a duration"):
        parse_schedule(schedule)


def test_a_day_that_never_comes_is_never_due() -> None:
    assert parse_schedule("0 0 31 2 *").after(0) is None


@pytest.mark.parametrize(
    ("text", "moment", "due"), [("@every 90m", 0, 5400), ("@every 90m", 5400, 10800), ("@every 1500ms", 10, 11)]
)
def test_an_interval_counts_from_its_beginning(text: str, moment: int, due: int) -> None:
    assert parse_schedule(text).after(moment * SECOND) == due * SECOND
    since = 7 * SECOND
    assert parse_schedule(text).after(moment * SECOND + since, since) == due * SECOND + since


def test_an_interval_is_a_second_at_least() -> None:
    assert parse_schedule("@every 1ns").after(0) == SECOND
    assert parse_schedule("@every 0s").after(0) == SECOND


ZONES = (
    "UTC",
    "Europe/Rome",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Havana",
    "Asia/Beirut",
)


@given(
    schedule=st.sampled_from(
        ["* * * * *", "*/7 1-3 * * *", "30 0,23 * * *", "59 23 1,15 * 0", "0 2 29 2 *", "15 1 31 * *"]
    ),
    zone=st.sampled_from(ZONES),
    day=st.dates(date(2022, 1, 1), date(2027, 1, 1))
    | st.sampled_from([date(2024, 3, 31), date(2024, 10, 27), date(2024, 11, 3)]),
    second=st.integers(0, 86399),
)
def test_a_time_is_the_first_of_all_minutes_that_match(schedule: str, zone: str, day: date, second: int) -> None:
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) + second
    read = parse_schedule(schedule, zone)
    assert isinstance(read, Schedule)
    after = read.after(begin * SECOND)
    assert after is not None
    minutes = itertools.count(begin // 60 + 1)
    shown = (datetime.fromtimestamp(each * 60, ZoneInfo(zone)) for each in itertools.islice(minutes, 3 * 24 * 60))
    expected = next((each for each in shown if matches(read, each)), None)
    if expected is not None:
        assert after == int(expected.timestamp()) * SECOND
    else:
        assert after >= (begin + 3 * 86400 - 60) * SECOND
        assert matches(read, datetime.fromtimestamp(after // SECOND, ZoneInfo(zone)))


def matches(schedule: Schedule, time: datetime) -> bool:
    in_month, in_week = time.day in schedule.days, time.isoweekday() % 7 in schedule.weekdays
    of_day = time.minute in schedule.minutes and time.hour in schedule.hours and time.month in schedule.months
    return of_day and (in_month or in_week if schedule.either else in_month and in_week)


class Counting(tzinfo):
    """UTC, which counts how often it is asked."""

    asked = 0

    def utcoffset(self, _: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None) -> str:
        return "UTC"


@pytest.mark.parametrize("schedule", ["* * * * *", "0 0 31 2 *", "59 23 * * *"])
def test_the_next_time_is_found_without_a_look_at_every_minute_or_day(schedule: str) -> None:
    read, zone = parse_schedule(schedule), Counting()
    assert isinstance(read, Schedule)
    replace(read, zone=zone).after(1_700_000_000 * SECOND)
    assert zone.asked < 20
