"""Completion in shells: one script for all programs, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.completion import PROGRAMS, completion

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def script(shell: str) -> str:
    result = CliRunner().invoke(completion, [shell])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_one_script_completes_every_program_that_is_installed(shell: str) -> None:
    text = script(shell)
    installed = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    assert sorted(PROGRAMS) == sorted(installed)
    for program in installed:
        variable = f"_{program.upper()}_COMPLETE".replace("-", "_")  # shells allow no dashes in names
        assert f"{variable}={shell}_complete" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    ended = subprocess.run([found, "-n"], input=script(shell), text=True, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_shell_that_is_not_known_is_wrong_usage() -> None:
    result = CliRunner().invoke(completion, ["csh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kilauea ", {"plan", "run", "completion"}),
        ("kilauea run --me", {"--memory"}),
        ("vcctl ", {"job", "queue", "jobflow"}),
        ("vcctl qu", {"queue"}),
        ("vcctl job ", {"run", "list", "suspend"}),
        ("vcctl job list --all", {"--all-namespaces"}),
        ("vcctl queue list -o ", {"wide", "json", "yaml"}),
        ("vsuspend --na", {"--name", "--namespace"}),
    ],
)
def test_commands_options_and_choices_are_offered(line: str, offered: set[str]) -> None:
    program, *words = line.split(" ")
    start = (
        "from kilauea.cli.main import main as go"
        if program == "kilauea"
        else f"from kilauea.cli.vcctl.programs import {program} as go"
    )
    code = f"import sys\nsys.argv = ['{program}']\n{start}\ngo()"
    asked = {
        f"_{program.upper()}_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
    }
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, text=True, capture_output=True, check=False
    )
    assert ended.stderr == ""
    found = {each.partition(",")[2] for each in ended.stdout.splitlines()}
    assert offered <= found
