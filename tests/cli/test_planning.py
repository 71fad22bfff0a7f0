"""The page about plans says truly what comes of a plan; `tests/test_pages.py` plays its commands."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "planning.md"
STORY = ROOT / "tests" / "golden" / "story-jobs.txt"
LIVE = re.compile(r"    \$ kilauea plan --kubeconfig [^\n]*\n(?:    [^\n]*\n|\n(?=    ))*")
"""The plan of the story that plays on a cluster."""


def test_the_page_shows_the_plan_of_the_story() -> None:
    (live,) = LIVE.findall(STORY.read_text())
    assert f"\n```console\n{textwrap.dedent(live)}```\n" in PAGE.read_text()


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
