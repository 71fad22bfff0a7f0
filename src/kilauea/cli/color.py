"""Colors in the output of commands: only at a terminal, and never if `NO_COLOR` is set (no-color.org)."""

from __future__ import annotations

import os

import click

STYLES = {
    "It waits because:": {"bold": True},
    "Also because:": {"bold": True},
    "Smallest change that admits it:": {"fg": "green", "bold": True},
    "Smallest change that lets another pod start:": {"fg": "green", "bold": True},
    "warning:": {"fg": "yellow"},
}
"""Highlighted beginnings of lines, with their styles."""


def honour_no_color(context: click.Context) -> None:
    """Print without colors, even on a terminal, if `NO_COLOR` is set."""
    if os.environ.get("NO_COLOR"):
        context.color = False


def echo(text: str, *, err: bool = False) -> None:
    """Print lines with known beginnings highlighted; without colors unless on a terminal."""
    click.echo("\n".join(map(_highlighted, text.split("\n"))), nl=False, err=err)


def _highlighted(line: str) -> str:
    for start, style in STYLES.items():
        if line.startswith(start):
            return click.style(start, **style) + line[len(start) :]  # type: ignore[arg-type]  # by name
    return line
