"""The command itself: what its help lists without loading it is what there is."""

from __future__ import annotations

import subprocess
import sys

import click

from kilauea.cli.main import SUBCOMMANDS, main


def test_the_help_lists_commands_in_their_own_words() -> None:
    context = click.Context(main)
    for name, words in SUBCOMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert (command.name, command.get_short_help_str(200)) == (name, words)


def test_help_and_version_load_no_command() -> None:
    program = (
        "import sys; from kilauea.cli.main import main; main(['--help'], standalone_mode=False); "
        "print(*(name for name in sys.modules if name.startswith('kilauea')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1].split() == ["kilauea", "kilauea.cli", "kilauea.cli.color", "kilauea.cli.main"]
