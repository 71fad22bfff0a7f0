"""The parts of tables, and the formatting of lists and labels in a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]
NONE = "<none>"


class Column(NamedTuple):
    """A column; those with a priority above 0 are only shown with `-o wide`."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> Object:
        """Return the column definition of a Table."""
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
    """The cells of an object; `conditions` mark rows of finished objects."""

    cells: list[Any]
    conditions: list[Object] = field(default_factory=list)


@dataclass(frozen=True)
class TableForm:
    """The table of a kind: its columns, and the function that creates rows."""

    columns: tuple[Column, ...]
    row: Callable[[Object, int], Row]


def simple(columns: Iterable[Column], cells: Callable[[Object, int], list[Any]]) -> TableForm:
    """Return a form whose rows begin with the name."""

    def row(obj: Object, now: int) -> Row:
        return Row([obj["metadata"].get("name", ""), *cells(obj, now)])

    return TableForm((NAME, *columns), row)


def listed(values: Iterable[str]) -> str:
    """Return values separated by commas, or `<none>`."""
    return ",".join(values) or NONE


def pairs(values: Mapping[str, Any] | None) -> str:
    """Return `key=value` pairs separated by commas, or `<none>`."""
    return listed(f"{key}={value}" for key, value in sorted((values or {}).items()))


_OPERATORS = ("Exists", "DoesNotExist", "In", "NotIn")


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector; `<error>` if an operator is invalid, as in objects of older versions."""
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
    """Return the value at a path; None if missing."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
