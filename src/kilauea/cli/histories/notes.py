"""Notes about gaps in a history: its start, and time spans without records."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kilauea.cli.histories.moments import stamp

SHOWN = 5
"""Maximum number of gaps to name."""


def note_limits(since: int, gaps: Sequence[tuple[int, int, str]], begin: int | None) -> None:
    """Report on standard error the time spans that a result does not cover.

    Args:
        since: time from which on the history is complete; 0 if nothing was recorded yet.
        gaps: time spans without records, with the reasons.
        begin: start of the requested time span; None for all.
    """
    if not since:
        click.echo("note: nothing is recorded yet", err=True)
    elif begin is not None and begin < since:
        click.echo(f"note: the history begins at {stamp(since)}", err=True)
    for start, end, reason in gaps[-SHOWN:]:
        click.echo(f"note: {reason} from {stamp(start)} to {stamp(end)}", err=True)
    if len(gaps) > SHOWN:
        click.echo(f"note: and {len(gaps) - SHOWN} earlier gaps", err=True)
