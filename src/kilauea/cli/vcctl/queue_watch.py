"""A list of queues that follows changes of the queues and of the counts of their PodGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from kilauea.api.kinds import POD_GROUPS, QUEUES
from kilauea.api.ports import Resource
from kilauea.cli.vcctl.queue_list import COLUMNS, WIDE, Entry, queue_row, read_queues
from kilauea.cli.vcctl.tables import Table
from kilauea.cli.vcctl.watching import changes_of

if TYPE_CHECKING:
    from kilauea.api.ports import Api

SETTLE_SECONDS = 0.5
"""Debounce time in seconds before the queues are read again."""


async def watch_queues(api: Api, takes: Callable[[Entry], bool], wide: bool, headers: bool) -> None:
    """Print the rows of queues, then each row that changes, until the user stops it."""
    changed = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            for resource in (QUEUES, POD_GROUPS):
                group.create_task(_notice(api, resource, changed))
            await _print(api, changed, takes, wide, headers)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _notice(api: Api, resource: Resource, changed: asyncio.Event) -> None:
    async with aclosing(changes_of(api, resource, "")) as changes:
        async for _ in changes:
            changed.set()


async def _print(api: Api, changed: asyncio.Event, takes: Callable[[Entry], bool], wide: bool, headers: bool) -> None:
    columns = WIDE if wide else COLUMNS
    table: Table | None = None
    last: dict[str, list[str]] = {}
    while True:
        changed.clear()
        rows = {entry.name: queue_row(entry, columns) for entry in await read_queues(api) if takes(entry)}
        for name in sorted(last.keys() - rows.keys()):
            rows[name] = [*last[name][:2], "Deleted", *last[name][3:]]
        if table is None:
            table = Table(columns, list(rows.values()))
            if headers:
                click.echo(table.heading())
        for name in sorted(rows):
            if rows[name] != last.get(name):
                table.widen(rows[name])
                click.echo(table.line(rows[name]))
        last = {name: row for name, row in rows.items() if row[2] != "Deleted"}
        await changed.wait()
        await asyncio.sleep(SETTLE_SECONDS)
