"""Times in options: absolute, or relative to now."""

from __future__ import annotations

import re
from typing import Any

import click

_AGO = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[dw])", re.ASCII)
_DAYS = {"d": 1, "w": 7}
_LOCAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?", re.ASCII)


class Moment(click.ParamType[Any]):
    """A time in microseconds since 1970: `7d` or `1h30m` ago, `2026-11-23`, `2026-11-23T10:00` here, or RFC 3339."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds since 1970."""
        from kilauea.cli.vcctl.cluster import now

        try:
            return value if isinstance(value, int) else moment(str(value), now())
        except ValueError as error:
            self.fail(str(error), param, ctx)


def moment(text: str, now: int) -> int:
    """Parse a time in one of these forms into microseconds since 1970.

    Raises:
        ValueError: it has none of these forms; the message lists them.
    """
    from datetime import datetime

    from kilauea.api.times import SECOND, parse_duration, parse_time

    if found := _AGO.fullmatch(text):
        return now - int(found["number"]) * _DAYS[found["unit"]] * 86_400 * SECOND
    try:
        if _LOCAL.fullmatch(text):
            return int(datetime.fromisoformat(text).timestamp()) * SECOND
        return parse_time(text) if "T" in text.upper() else now - parse_duration(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f'invalid time "{text}": use how long ago it was (7d, 12h, 1h30m), a local time '
            "(2026-11-23, 2026-11-23T10:00) or RFC 3339 (2026-11-23T10:00:00Z)"
        ) from None


def midnight() -> int:
    """The start of the current day in the local time zone, in microseconds since 1970."""
    from datetime import datetime

    from kilauea.api.times import SECOND

    return int(datetime.now().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * SECOND


def stamp(at: int) -> str:
    """A time in the local time zone."""
    import time

    from kilauea.api.times import SECOND

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at // SECOND))
