"""Which time of a schedule is to be served."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.cron import parse_schedule
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.cronjobs.slots import slots

DAY = 86_400
BEGIN = parse_time("2026-03-28T12:00:00Z")


def cron(last: int | None = None, deadline: int | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": "c", "creationTimestamp": format_time(BEGIN)},
        "spec": {} if deadline is None else {"startingDeadlineSeconds": deadline},
        "status": {} if last is None else {"lastScheduleTime": format_time(last)},
    }


@pytest.mark.parametrize(
    ("text", "seconds", "latest", "following", "many"),
    [
        ("0 * * * *", 1800, None, 3600, False),
        ("0 * * * *", 3600, 3600, 7200, False),
        ("0 * * * *", 5 * 3600 + 1, 5 * 3600, 6 * 3600, False),
        ("* * * * *", DAY, DAY, DAY + 60, True),
        ("@every 7m", 60 * 20, 60 * 14, 60 * 21, False),
        ("@every 1s", DAY, DAY, DAY + 1, True),
    ],
)
def test_the_latest_time_that_has_passed_is_served(
    text: str, seconds: int, latest: int | None, following: int, many: bool
) -> None:
    found = slots(cron(), parse_schedule(text), BEGIN + seconds * SECOND)
    assert found.latest == (None if latest is None else BEGIN + latest * SECOND)
    assert (found.following, found.many) == (BEGIN + following * SECOND, many)


def test_a_clock_that_was_set_back_serves_nothing_twice() -> None:
    found = slots(cron(last=BEGIN + 2 * DAY * SECOND), parse_schedule("0 * * * *"), BEGIN)
    assert found == (None, False, BEGIN + (2 * DAY + 3600) * SECOND)


@pytest.mark.parametrize("back", [60, 600])
def test_an_interval_goes_on_when_the_clock_was_set_back(back: int) -> None:
    last, now = BEGIN + DAY * SECOND, BEGIN + (DAY - back) * SECOND + 7
    assert slots(cron(last), parse_schedule("@every 5s"), now) == (now - 7, False, now - 7 + 5 * SECOND)
    assert slots(cron(last), parse_schedule("@every 90m"), now).following == (last + 5400 * SECOND), (
        "a wait that grows by less than itself is left as it is"
    )


def test_a_day_that_never_comes_has_no_times() -> None:
    assert slots(cron(), parse_schedule("0 0 30 2 *"), BEGIN) == (None, False, None)


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15 3 * * sun", "@every 11m", "@every 37h"]),
    st.sampled_from(["", "Europe/Rome", "America/New_York", "Australia/Lord_Howe"]),
    st.integers(0, 40 * DAY),
    st.integers(0, 3 * DAY) | st.none(),
)
def test_there_is_no_time_between_the_latest_and_the_following(
    text: str, zone: str, seconds: int, deadline: int | None
) -> None:
    schedule, now = parse_schedule(text, zone), BEGIN + seconds * SECOND
    found = slots(cron(deadline=deadline), schedule, now)
    assert found.following is not None
    assert found.following > now
    if found.latest is None:
        start = BEGIN if deadline is None else max(BEGIN, now - deadline * SECOND)
        assert schedule.after(start, BEGIN) == found.following
    else:
        assert BEGIN < found.latest <= now
        assert schedule.after(found.latest, BEGIN) == found.following
