"""Lists of objects: as a table, as data, or as a table that follows changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kilauea.api.ports import Key, Obj, key_of
from kilauea.cli.vcctl.cluster import now, objects
from kilauea.cli.vcctl.tables import Form, Table, print_objects, print_table
from kilauea.cli.vcctl.watching import changes_of

if TYPE_CHECKING:
    from kilauea.api.ports import Api

GONE = "Deleted"
"""State of a deleted object in a list that follows changes."""


@dataclass(frozen=True)
class Listing:
    """A list of one kind.

    Attributes:
        form: the columns.
        row: the cells of an object, at a time.
        takes: filter that returns True for objects to show.
        heading_alone: True to print the heading even if no object matches.
    """

    form: Form
    row: Callable[[Obj, int], list[str]]
    takes: Callable[[Obj], bool] = lambda obj: True
    heading_alone: bool = False


async def show_list(api: Api, listing: Listing, namespace: str, output: str, headers: bool, watch: bool) -> None:
    """Print the objects of a namespace, or of all namespaces."""
    if watch:
        await _go_on(api, listing, namespace, headers)
        return
    found = await objects(api, listing.form.resource, namespace)
    shown = [obj for obj in found if listing.takes(obj)]
    if output not in ("table", "wide"):
        print_objects(listing.form.resource, shown, output)
    elif found and not shown and listing.heading_alone:
        click.echo(Table(listing.form.columns, []).heading())
    else:
        moment = now()
        print_table(listing.form.columns, [listing.row(obj, moment) for obj in shown], headers)


async def _go_on(api: Api, listing: Listing, namespace: str, headers: bool) -> None:
    """Print the rows, then each changed row, until the user stops it."""
    form = listing.form
    last: dict[Key, list[str]] = {}
    table: Table | None = None
    async for changes in changes_of(api, form.resource, namespace):  # ends with the process
        moment = now()
        rows = [(key_of(obj), there, listing.row(obj, moment)) for there, obj in changes if listing.takes(obj)]
        if table is None and rows:
            table = Table(form.columns, [row for _, _, row in rows])
            if headers:
                click.echo(table.heading())
        for key, there, row in rows:
            if not there and form.state is not None:
                row[form.state] = GONE
            facts = [cell for number, cell in enumerate(row) if number not in form.ages]
            if table is not None and last.get(key) != facts:
                table.widen(row)
                click.echo(table.line(row))
            last[key] = facts
