"""Tables in the format of Volcano's commands: columns of fixed or fitting width, with padding in all cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from kilauea.api.ports import Obj, Resource
from kilauea.api.printing import printable
from kilauea.cli.data_text import json_text, yaml_text

NOTHING = "No resources found"


class Column(NamedTuple):
    """A column and its width: a minimum, or its longest cell and some blanks.

    Attributes:
        title: heading.
        least: minimum width.
        blanks: number of blanks after the longest cell.
        title_blanks: number of blanks after the heading; None if it may touch the next heading.
    """

    title: str
    least: int = 0
    blanks: int = 1
    title_blanks: int | None = None

    def width(self, cells: Sequence[str]) -> int:
        """The width for some cells."""
        titled = 0 if self.title_blanks is None else len(self.title) + self.title_blanks
        return max(self.least, titled, *(len(cell) + self.blanks for cell in cells), 0)


def fitting(title: str, blanks: int = 3, title_blanks: int | None = None) -> Column:
    """A column with some blanks after its longest cell."""
    return Column(title, 0, blanks, blanks if title_blanks is None else title_blanks)


@dataclass(frozen=True)
class Form:
    """The layout of a list of objects of one kind.

    Attributes:
        resource: the kind.
        columns: columns of the table.
        state: index of the column for the state, which marks deleted objects; None if there is none.
        ages: indexes of columns that change with time alone.
    """

    resource: Resource
    columns: Sequence[Column]
    state: int | None = None
    ages: tuple[int, ...] = ()


class Table:
    """A table whose column widths fit the first rows."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        self._columns = columns
        self._titles = [column.title for column in columns]
        self._widths = [column.width([printable(row[number]) for row in rows]) for number, column in enumerate(columns)]

    def heading(self) -> str:
        """The heading."""
        return self._line(self._titles)

    def line(self, row: Sequence[str]) -> str:
        """A row."""
        return self._line([printable(cell) for cell in row])

    def widen(self, row: Sequence[str]) -> None:
        """Widen the columns for a later row."""
        needed = [column.width([printable(cell)]) for column, cell in zip(self._columns, row, strict=True)]
        self._widths = [max(width, more) for width, more in zip(self._widths, needed, strict=True)]

    def _line(self, cells: Sequence[str]) -> str:
        return "".join(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], headers: bool = True) -> None:
    """Print rows with their heading, or a message if there are none."""
    if not rows:
        click.echo(NOTHING)
        return
    table = Table(columns, rows)
    click.echo("\n".join([*([table.heading()] if headers else []), *map(table.line, rows)]))


def print_objects(resource: Resource, found: Sequence[Obj], output: str) -> None:
    """Print objects as `json` or `yaml` (a List, as kubectl gives it) or their names."""
    if output == "name":
        for obj in found:
            click.echo(f"{resource.kind.lower()}{'.' * bool(resource.group)}{resource.group}/{obj['metadata']['name']}")
    else:
        click.echo(data_text({"apiVersion": "v1", "kind": "List", "items": list(map(without_fields, found))}, output))


def data_text(value: Any, output: str) -> str:
    """Plain data as `json` or `yaml`."""
    return json_text(value) if output == "json" else yaml_text(value, sort_keys=False).rstrip("\n")


def without_fields(obj: Obj) -> dict[str, Any]:
    """An object without its managed fields."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {key: metadata if key == "metadata" else value for key, value in obj.items()}


def part(obj: Mapping[str, Any], *path: str) -> Any:
    """The value at a path; None if it does not exist."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
