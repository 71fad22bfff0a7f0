"""The parts of tables, and how ages, lists and labels are written in a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kilauea.api.times import SECOND, parse_time

Object = dict[str, Any]
UNKNOWN = "<unknown>"
NONE = "<none>"


class Column(NamedTuple):
    """A column; those of a priority above 0 are shown with `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> Object:
        """The column as a Table defines it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


NAME = Column("Name", format="name", description="Name of the object, unique among its kind and namespace.")
AGE = Column("Age", description="Time since the object was created.")
CREATED = Column("Created At", "date", description="Time at which the object was created.")


@dataclass(slots=True)
class Row:
    """The cells of an object; `conditions` mark rows of things that have ended."""

    cells: list[Any]
    conditions: list[Object] = field(default_factory=list)


@dataclass(frozen=True)
class TableForm:
    """How a kind becomes a table: its columns, and the cells between its name and its end."""

    columns: tuple[Column, ...]
    row: Callable[[Object, int], Row]


def simple(columns: Iterable[Column], cells: Callable[[Object, int], list[Any]]) -> TableForm:
    """A form whose rows begin with the name."""

    def row(obj: Object, now: int) -> Row:
        return Row([obj["metadata"].get("name", ""), *cells(obj, now)])

    return TableForm((NAME, *columns), row)


def age(obj: Mapping[str, Any], now: int) -> str:
    """Time since an object was created, as people read it."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(time: str | None, now: int) -> str:
    """Time since an RFC 3339 time."""
    if not time:
        return UNKNOWN
    try:
        return human_duration((now - parse_time(time)) // SECOND)
    except ValueError:
        return "<invalid>"


def human_duration(seconds: int) -> str:
    """A duration with at most two units, the finer the shorter it is: `90s`, `5m30s`, `3h`, `2d5h`, `400d`."""
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


def listed(values: Iterable[str]) -> str:
    """Values with commas, or `<none>`."""
    return ",".join(values) or NONE


def pairs(values: Mapping[str, Any] | None) -> str:
    """`key=value` with commas, or `<none>`."""
    return listed(f"{key}={value}" for key, value in sorted((values or {}).items()))


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as text."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or []:
        key, values = term.get("key", ""), ",".join(term.get("values") or [])
        parts.append(
            {
                "Exists": key,
                "DoesNotExist": f"!{key}",
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
            }[term["operator"]]
        )
    return ",".join(parts) or NONE


def part(obj: Mapping[str, Any], *path: str) -> Any:
    """The value at a path, None if it is not there."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
