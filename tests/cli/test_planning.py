"""The page about plans shows what the commands print. KILAUEA_UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "planning.md"
STORY = ROOT / "tests" / "golden" / "story-jobs.txt"
SHOWN = re.compile(r"^    \$ kilauea ([^\n]*examples/planning[^\n]*)\n((?:    [^\n]*\n|\n(?=    ))*)", re.MULTILINE)
"""An indented command on the example, and the indented lines after it."""
LIVE = re.compile(r"    \$ kilauea plan --kubeconfig [^\n]*\n(?:    [^\n]*\n|\n(?=    ))*")
"""The plan of the story that plays on a cluster."""


def test_the_page_shows_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    def shown(match: re.Match[str]) -> str:
        result = CliRunner().invoke(main, match[1].split())
        assert (result.exit_code, result.stderr) == (0, "")
        lines = (f"    {line}\n" if line else "\n" for line in result.stdout.splitlines())
        return f"    $ kilauea {match[1]}\n{''.join(lines)}"

    text = PAGE.read_text()
    assert len(SHOWN.findall(text)) == 3
    (live,) = LIVE.findall(STORY.read_text())
    true = LIVE.sub(lambda _: live, SHOWN.sub(shown, text))
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        PAGE.write_text(true)
    assert PAGE.read_text() == true
    assert live in true


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("explain job sweep -f examples/planning", 0, ""),
        (
            "explain job sweeps -f examples/planning",
            1,
            "job default/sweeps does not exist; did you mean 'default/sweep'?",
        ),
        ("plan -f examples/nowhere", 2, "examples/nowhere"),
    ],
)
def test_exit_codes_are_those_of_the_page(
    arguments: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, arguments.split())
    assert result.exit_code == code
    assert said in result.stderr
    assert re.search(rf"^\| {code} \|", PAGE.read_text(), re.MULTILINE)
