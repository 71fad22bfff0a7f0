"""What the README shows is what the commands print. `KILAUEA_UPDATE_GOLDEN=1` writes it anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
SHOWN = re.compile(r"^    \$ kilauea (plan -f examples/[^\n]*)\n((?:    [^\n]*\n|\n(?=    ))*)", re.MULTILINE)
"""An indented command on the examples, and the indented lines after it."""


def printed(arguments: str) -> str:
    command = [sys.executable, "-m", "kilauea", *arguments.split()]
    out = subprocess.run(command, cwd=README.parent, capture_output=True, text=True, check=True).stdout
    return "".join(f"    {line}\n" if line else "\n" for line in out.splitlines())


def test_the_readme_shows_what_the_commands_print() -> None:
    text = README.read_text()
    assert len(SHOWN.findall(text)) == 2
    true = SHOWN.sub(lambda m: f"    $ kilauea {m[1]}\n{printed(m[1])}", text)
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        README.write_text(true)
    assert README.read_text() == true
