"""Schedules."""

from __future__ import annotations

import pytest

from kilauea.api.cron import parse_schedule
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
