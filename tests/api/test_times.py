"""Times and durations: RFC 3339 and Go's syntax to integers of microseconds, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.times import SECOND, format_time, parse_duration, parse_time

FIRST = -62_135_596_800 * SECOND
LAST = 253_402_300_800 * SECOND - 1


@pytest.mark.parametrize(
    ("text", "us"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the beginning"),
        pytest.param("2025-01-31T12:00:00Z", 1_738_324_800 * SECOND, id="whole seconds"),
        pytest.param("2025-01-31T14:30:00+02:30", 1_738_324_800 * SECOND, id="an offset to the east is taken off"),
        pytest.param("2025-01-31T04:00:00-08:00", 1_738_324_800 * SECOND, id="an offset to the west is put on"),
        pytest.param("1970-01-01T00:00:00.5Z", 500_000, id="one digit of a second"),
        pytest.param("1970-01-01T00:00:00.000001Z", 1, id="a microsecond"),
        pytest.param("1970-01-01T00:00:00.123456789Z", 123_456, id="nanoseconds are cut off"),
        pytest.param("1969-12-31T23:59:59.999999Z", -1, id="before the beginning"),
        pytest.param("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND, id="a leap day"),
        pytest.param("0001-01-01T00:00:00Z", FIRST, id="the first time"),
        pytest.param("9999-12-31T23:59:59.999999Z", LAST, id="the last time"),
    ],
)
def test_time_in_microseconds(text: str, us: int) -> None:
    assert parse_time(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2025-01-31",
        "2025-01-31 12:00:00Z",
        "2025-01-31T12:00:00",
        "2025-02-29T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z",
        "2025-01-01T00:00:60Z",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00.1234567890Z",
        "2025-01-01T00:00:00+24:00",
        "2025-01-01T00:00:00+00:60",
        "2025-01-01T00:00:00+0200",
        "0000-01-01T00:00:00Z",
        "2025-01-01T00:00:00Z\n",
        "٢٠٢٥-01-01T00:00:00Z",
    ],
)
def test_text_that_is_no_time_is_refused_by_name_with_the_right_form(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: use RFC 3339 such as 2025-01-31T12:00:00Z") as caught:
        parse_time(text)
    assert str(caught.value).startswith(f'"{text}"')


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)),
    st.integers(-23 * 60, 23 * 60),
)
def test_times_agree_with_the_standard_library(moment: datetime, offset: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_time(zoned.isoformat()) == expected


@given(st.integers(FIRST, LAST))
def test_text_of_a_time_reads_back_to_it(us: int) -> None:
    assert parse_time(format_time(us)) == us


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1, "1970-01-01T00:00:00.000001Z"), (1500000, "1970-01-01T00:00:01.500000Z")],
)
def test_text_of_a_time(us: int, text: str) -> None:
    assert format_time(us) == text


@pytest.mark.parametrize("us", [FIRST - 1, LAST + 1])
def test_a_time_outside_the_calendar_has_no_text(us: int) -> None:
    with pytest.raises(ValueError, match=f"^{us} microseconds since 1970 is not a time: use the years 1 to 9999$"):
        format_time(us)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("10s", 10 * SECOND),
        ("500ms", 500_000),
        ("7us", 7),
        ("5000us", 5000),
        ("5000\u00b5s", 5000),
        ("5000\u03bcs", 5000),
        ("5000000ms", 5000 * SECOND),
        ("1500ns", 1),
        ("999ns", 0),
        ("1us999ns1ns", 2),
        ("-1500ns", -1),
        (".5s", 500_000),
        ("1.s", SECOND),
        ("0", 0),
        ("-0", 0),
        ("+2m", 120 * SECOND),
        ("-2m", -120 * SECOND),
        ("0.0000005s", 0),
        ("2562047h", 2562047 * 3600 * SECOND),
    ],
)
def test_duration_in_microseconds(text: str, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", ".s", "1d", "1h 3m", "h1", "1h3", "--1s", "1e3s", "1S", "9" * 500 + "s"]
)
def test_text_that_is_no_duration_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not a duration: use numbers with units such as 1h30m, 10s, 500ms"
    ) as caught:
        parse_duration(text)
    assert str(caught.value).startswith(f'"{text[:32]}')


def test_a_duration_of_more_than_292_years_is_refused() -> None:
    with pytest.raises(ValueError, match=r'^"2562048h" is too long a duration: use at most 2562047h$'):
        parse_duration("2562048h")


@given(st.integers(0, 1000), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int, micros: int) -> None:
    total = ((hours * 60 + minutes) * 60 + seconds) * SECOND + micros
    assert parse_duration(f"{hours}h{minutes}m{seconds}s{micros}us") == total
    assert parse_duration(f"-{hours}h{minutes}m{seconds}.{micros:06d}s") == -total
