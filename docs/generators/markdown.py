"""The parts that generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable

MADE = "<!-- Made by docs/generate_reference.py from the code; do not edit. -->"
BLANK = ""


def page(title: str, introduction: str, *parts: Iterable[str]) -> str:
    """A page that says that it is generated."""
    lines = [f"# {title}", BLANK, MADE, BLANK, introduction, BLANK]
    return "\n".join([*lines, *(line for part in parts for line in part)]).rstrip() + "\n"


def table(heading: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A table, and an empty line after it."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return [*(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *cells)), BLANK]


def code(text: str) -> str:
    """A word as code; empty if there is none."""
    return f"`{text}`" if text else ""
