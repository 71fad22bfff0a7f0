"""The command itself: what its help lists without loading it is what there is."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kilauea.cli.daemon import pages_of
from kilauea.cli.main import SUBCOMMANDS, main
from kilauea.cli.up import first_steps


def test_the_help_lists_commands_in_their_own_words() -> None:
    context = click.Context(main)
    for name, words in SUBCOMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert (command.name, command.get_short_help_str(200)) == (name, words)


def test_a_cluster_without_a_scheduler_says_how_to_start_one(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.touch()
    words = first_steps(path, scheduler=False, here=False)
    begin, _, rest = words.partition("Start a scheduler:\n  kilauea scheduler ")
    assert begin == f"export KUBECONFIG={path}\n\n"
    scheduler = main.get_command(click.Context(main), "scheduler")
    assert scheduler is not None
    options = rest.partition("\n")[0].replace("$KUBECONFIG", str(path)).split()
    assert scheduler.make_context("scheduler", options).params["leader_elect"] is False
    assert "scheduler" not in first_steps(path, scheduler=True, here=False)


def test_help_and_version_load_no_command() -> None:
    program = (
        "import sys; from kilauea.cli.main import main; main(['--help'], standalone_mode=False); "
        "print(*(name for name in sys.modules if name.startswith('kilauea')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {"kilauea", "kilauea.cli", "kilauea.cli.color", "kilauea.cli.main", "kilauea.version"}
    assert set(ended.stdout.splitlines()[-1].split()) == loaded


@pytest.mark.parametrize("name", ["scheduler", "controllers"])
def test_metrics_and_health_are_served_at_loopback_unless_an_option_says_otherwise(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    words = ["--enable-metrics=true", "--enable-healthz=true"]
    given = command.make_context(name, [*words]).params
    pages = pages_of(given)
    assert len(pages) == 2
    assert all(ipaddress.ip_address(host).is_loopback for host, _ in pages)
    told = command.make_context(name, [*words, "--listen-address=:9", "--healthz-address=192.0.2.1:8"])
    assert pages_of(told.params) == (("", 9), ("192.0.2.1", 8))


@pytest.mark.parametrize(("typed", "meant"), [("upp", "up"), ("xplain", "explain"), ("plam", "plan")])
def test_a_misspelt_command_is_answered_with_the_one_that_is_near(typed: str, meant: str) -> None:
    ended = CliRunner().invoke(main, [typed])
    assert ended.exit_code == 2
    assert f"No such command '{typed}'" in ended.output
    assert f"'{meant}'" in ended.output


def test_a_command_that_is_like_no_other_is_only_named() -> None:
    ended = CliRunner().invoke(main, ["xyzzy"])
    assert (ended.exit_code, ended.output.splitlines()[-1]) == (2, "Error: No such command 'xyzzy'.")


@pytest.mark.parametrize("command", ["dashboard", "doctor", "explain job j", "queues", "run -- true", "squeue"])
def test_a_kubeconfig_that_does_not_exist_is_a_wrong_usage(command: str, tmp_path: Path) -> None:
    """Whichever command is told of it, the exit code is that of wrong usage."""
    words, dashes, program = command.partition("--")
    given = [*words.split(), "--kubeconfig", str(tmp_path / "none"), *([dashes] if dashes else []), *program.split()]
    ended = CliRunner().invoke(main, given)
    assert ended.exit_code == 2
    assert "no such file: name a kubeconfig file with --kubeconfig" in ended.stderr
