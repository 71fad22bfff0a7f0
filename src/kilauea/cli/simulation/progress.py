"""Progress of simulations on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from kilauea.api.numbers import plural
from kilauea.api.printing import printable
from kilauea.api.times import SECOND
from kilauea.cli.simulation.figures import duration

PAUSE = 0.5
"""Seconds between two updates of the line on a terminal."""
LONG_PAUSE = 5.0
"""Seconds between two lines elsewhere."""


def progress(on_terminal: bool) -> Callable[[str, int, int, int, int], None]:
    """Return a function that shows the progress of a simulation: on a terminal in one line, elsewhere in few lines."""
    last = time.perf_counter()

    def note(name: str, seed: int, at: int, ended: int, count: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if on_terminal and ended == count:
            click.echo("\r\x1b[K", nl=False, err=True)
            return
        if now - last < (PAUSE if on_terminal else LONG_PAUSE):
            return
        last = now
        which = f"{printable(name)}, seed {seed}" if seed else printable(name)
        message = f"{which}: {ended:,} of {plural(count, 'job')} ended after {duration(at / SECOND)}"
        click.echo(f"\r\x1b[K{message}" if on_terminal else message, nl=not on_terminal, err=True)

    return note
