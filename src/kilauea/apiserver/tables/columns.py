"""The parts of tables, and the format of lists and labels in a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]
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


@dataclass(slots=True)
class Row:
    """The cells of an object; `conditions` mark rows of things that have ended."""

    cells: list[Any]
    conditions: list[Object] = field(default_factory=list)


@dataclass(frozen=True)
class TableForm:
    """The table of a kind: its columns, and the cells between its name and its end."""

    columns: tuple[Column, ...]
    row: Callable[[Object, int], Row]


def simple(columns: Iterable[Column], cells: Callable[[Object, int], list[Any]]) -> TableForm:
    """A form whose rows begin with the name."""

    def row(obj: Object, now: int) -> Row:
        return Row([obj["metadata"].get("name", ""), *cells(obj, now)])

    return TableForm((NAME, *columns), row)


def listed(values: Iterable[str]) -> str:
    """Values with commas, or `<none>`."""
    return ",".join(values) or NONE


def pairs(values: Mapping[str, Any] | None) -> str:
    """`key=value` with commas, or `<none>`."""
    return listed(f"{key}={value}" for key, value in sorted((values or {}).items()))


_OPERATORS = ("Exists", "DoesNotExist", "In", "NotIn")


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as text; `<error>` if an operator is invalid, as in objects of older versions."""
    if selector is None:
        return NONE
    if any(term.get("operator") not in _OPERATORS for term in selector.get("matchExpressions") or []):
        return "<error>"
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
