"""Notes about gaps in a history: its start, and spans of time in which nothing was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kilauea.cli.histories.moments import stamp

SHOWN = 5
"""Gaps that are named."""


def note_limits(since: int, gaps: Sequence[tuple[int, int, str]], begin: int | None) -> None:
    """Say on standard error what an answer leaves out.

    Args:
        since: the history is complete from here on; 0 if nothing was recorded yet.
        gaps: spans of time in which nothing was recorded, and why.
        begin: the begin of the time that was asked for; None for all of it.
    """
    if not since:
        click.echo("note: nothing is recorded yet", err=True)
    elif begin is not None and begin < since:
        click.echo(f"note: the history begins at {stamp(since)}", err=True)
    for start, end, reason in gaps[-SHOWN:]:
        click.echo(f"note: {reason} from {stamp(start)} to {stamp(end)}", err=True)
    if len(gaps) > SHOWN:
        click.echo(f"note: and {len(gaps) - SHOWN} earlier gaps", err=True)
