"""Ages in the format of Kubernetes tables and Volcano: `45s`, `5m30s`, `3h`, `2d5h`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.times import SECOND, parse_time

UNKNOWN = "<unknown>"


def age(obj: Mapping[str, Any], now: int) -> str:
    """Return the human-readable age of an object; `now` in microseconds since 1970."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(time: str | None, now: int) -> str:
    """Return the human-readable duration since an RFC 3339 time."""
    if not time:
        return UNKNOWN
    try:
        return human_duration((now - parse_time(time)) // SECOND)
    except ValueError:
        return "<invalid>"


def human_duration(seconds: int) -> str:
    """Format a duration with at most two units, finer for shorter ones: `90s`, `5m30s`, `3h`, `2d5h`, `400d`."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if days < 8 * 365 else f"{years}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}" + (f"{small}{small_unit}" if small else "")
