"""Pictures of a terminal, made by running the commands that they show."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from kilauea.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
FONT = 'font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;'
SVG = """\
<svg class="terminal" viewBox="0 0 {terminal_width} HEIGHT" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-size: {char_height}px; line-height: {line_height}px; FONT }}
{styles}</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="#191919"/>
<g transform="translate({terminal_x}, 12)"><g class="{unique_id}-matrix">
{backgrounds}
{matrix}
</g></g>
</svg>
""".replace("FONT", FONT)
"""A plain frame; that of the library fetches a font, and its height leaves no margin below the last line."""
LINE, MARGIN = 24.4, 12
"""Units of the picture."""


def explain_picture() -> str:
    """The reason why a job waits."""
    return _terminal("kilauea explain job sweep -f examples/planning")


def queues_picture() -> str:
    """The tree of queues."""
    return _terminal("kilauea queues -f examples/queues/tree.yaml --scheduler-conf examples/queues/tree.conf")


def _terminal(command: str) -> str:
    """A terminal in which a command of ours on the examples has been typed."""
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in command.split()[1:]]
    done = CliRunner().invoke(main, words, color=True)
    if done.exit_code:
        raise RuntimeError(f"{command}: {done.output}")
    lines = [f"\x1b[1m$ {command}\x1b[0m", *done.stdout.rstrip("\n").split("\n")]
    width = max(len(Text.from_ansi(line).plain) for line in lines)
    options: dict[str, Any] = {"color_system": "truecolor", "force_terminal": True, "no_color": False, "_environ": {}}
    console = Console(record=True, width=width + 2, file=io.StringIO(), **options)
    for line in lines:
        console.print(Text.from_ansi(line), highlight=False)
    frame = SVG.replace("HEIGHT", f"{len(lines) * LINE + 2 * MARGIN:.0f}")
    return console.export_svg(theme=DIMMED_MONOKAI, code_format=frame, unique_id=command.split()[1])


PICTURES = {"explain.svg": explain_picture, "queues.svg": queues_picture}
