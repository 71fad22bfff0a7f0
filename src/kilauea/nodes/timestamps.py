"""Times in statuses: whole seconds.

Durations based on them start at the beginning of the second, so they may end up to a second early.
"""

from __future__ import annotations

from functools import lru_cache

from kilauea.api.times import SECOND, format_time, parse_time


def second_text(now: int) -> str:
    """The second that contains a time."""
    return _text(now // SECOND)


@lru_cache(maxsize=64)
def _text(seconds: int) -> str:
    return format_time(seconds * SECOND)


def micro_text(now: int) -> str:
    """A time with microseconds, for Leases."""
    text = format_time(now)
    return text if "." in text else f"{text[:-1]}.000000Z"


def moment_of(text: str | None) -> int | None:
    """Return microseconds since 1970; None if the text is not a time."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
