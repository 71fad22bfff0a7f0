"""Times and amounts of memory in the syntax of `sbatch`, in addition to that of Kubernetes."""

from __future__ import annotations

import re
from typing import Any

import click

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_WORDS = frozenset({"unlimited", "infinite"})
_CLOCK = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)
_MEMORY = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,6})?)(?P<unit>[kmgt])b?", re.ASCII | re.IGNORECASE)
_BARE = re.compile(r"\d+(\.\d*)?", re.ASCII)


class TimeLimit(click.ParamType[Any]):
    """A time limit in microseconds: `90` minutes, `1:30:00`, `2-12`, or a duration such as `1h30m`; 0 for none."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds."""
        from kilauea.api.times import SECOND, parse_duration

        if isinstance(value, int):
            return value
        if str(value).lower() in _WORDS:
            return 0
        seconds = clock_seconds(value)
        if seconds is not None:
            return seconds * SECOND
        try:
            return parse_duration(value)
        except ValueError:
            self.fail(f'invalid time "{value}": use minutes (90), [D-]HH:MM:SS (01:30:00) or 1h30m', param, ctx)


def clock_seconds(text: str) -> int | None:
    """Seconds of a time in one of Slurm's formats; None for any other text.

    Without days, these are `M`, `M:S` and `H:M:S`, with days `D-H`, `D-H:M` and `D-H:M:S`.
    """
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:
        units = [HOUR, MINUTE, 1]
    else:
        units = [HOUR, MINUTE, 1] if len(parts) == 3 else [MINUTE, 1]
    return int(found["days"] or 0) * DAY + sum(part * unit for part, unit in zip(parts, units, strict=False))


def memory(text: str) -> str:
    """An amount of memory as a Kubernetes quantity; K, M, G and T are powers of 1024, as in Slurm.

    Raises:
        ValueError: the amount has no unit: it could mean megabytes or bytes.
    """
    if _BARE.fullmatch(text):
        raise ValueError(f'--memory: "{text}" has no unit: use {text}G or {text}M')
    found = _MEMORY.fullmatch(text)
    if found is None:
        return text
    return f"{found['number']}{found['unit'].upper()}i"


def duration_text(seconds: int) -> str:
    """A time for people: `1h30m`, `2d12h`."""
    found = []
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")):
        number, seconds = divmod(seconds, unit)
        if number:
            found.append(f"{number}{letter}")
    return "".join(found) or "0s"
