"""`kilauea service`: `kilauea up` as a systemd user service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kilauea.cli.inputs import Failure, Usage

UNIT = "kilauea.service"
SILENT = "systemd's user manager does not answer here"
EXAMPLES = """\b
Examples:
  kilauea service install -- --runtime process
  kilauea service install --print -- --nodes 4 --node-gpu 8
  kilauea service status
"""


@click.group(short_help="Keep a cluster running as a service of your user.", epilog=EXAMPLES)
def service() -> None:
    """Run `kilauea up` as a service of your user: it starts with the machine and restarts if it fails.

    The service belongs to systemd's user manager; no root is needed, except for `loginctl enable-linger`, which lets it
    run while you are not logged in.
    """


@service.command(
    short_help="Install and start the service.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and change nothing.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[--] [OPTION OF kilauea up]...")
def install(only_print: bool, options: tuple[str, ...]) -> None:
    """Write the unit for `kilauea up` with the options, enable it and start it.

    Paths among the options become absolute. Run it again to change the options; the cluster keeps its objects.
    """
    words = checked(options)
    text = unit_text([*program(), "up", *words])
    if only_print:
        click.echo(text, nl=False)
        return
    file = unit_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise Failure(f"{file}: {(error.strerror or str(error)).lower()}") from error
    click.echo(f"Wrote {file}.")
    commands = [["daemon-reload"], ["enable", UNIT], ["restart", UNIT]]
    if not answers():
        _say_commands(f"{SILENT}. Where it does, start the service with", commands)
    else:
        for command in commands:
            _systemctl(command)
        click.echo("The service runs. See it with: kilauea service status")
    if not lingers():
        click.echo(f"To start it with the machine, without a login: sudo loginctl enable-linger {_user()}")


@service.command(short_help="Show whether the service runs.")
def status() -> None:
    """Show the state of the service and its last messages. Exit code 0 if it runs, 3 if it does not."""
    if not unit_file().exists():
        raise Failure("the service is not installed: install it with `kilauea service install`")
    if not answers():
        click.echo(f"Installed as {unit_file()}. {SILENT}.")
        sys.exit(3)
    sys.exit(subprocess.run(["systemctl", "--user", "--no-pager", "status", UNIT], check=False).returncode)


@service.command(short_help="Stop and remove the service.")
def uninstall() -> None:
    """Stop the service and remove its unit. The folder of the cluster stays."""
    file = unit_file()
    if not file.exists():
        raise Failure("the service is not installed")
    if answers():
        _systemctl(["disable", "--now", UNIT])
    else:
        _say_commands(f"{SILENT}. If the service runs, stop it with", [["stop", UNIT]])
    file.unlink()
    if answers():
        _systemctl(["daemon-reload"])
    click.echo(f"Removed {file}. The cluster's folder stays.")


# --- the unit


def checked(options: Sequence[str]) -> list[str]:
    """The options of `kilauea up` with absolute paths.

    Raises:
        Usage: an option is invalid.
    """
    from kilauea.cli.up import up

    try:
        up.make_context("kilauea up", list(options))
    except click.exceptions.Exit as shown:  # --help
        raise Usage("options of kilauea up are needed, as in kilauea service install -- --nodes 4") from shown
    except click.UsageError as error:
        raise Usage(f"kilauea up: {error.format_message()}") from error
    paths = {name for each in up.params if isinstance(each.type, click.Path) for name in each.opts}
    found: list[str] = []
    for word in options:
        name, equals, value = word.partition("=")
        if equals and name in paths:
            found.append(f"{name}={os.path.abspath(value)}")
        else:
            found.append(os.path.abspath(word) if found and found[-1] in paths else word)
    return found


def program() -> list[str]:
    """The words of the command that starts this program."""
    beside = Path(sys.executable).with_name("kilauea")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "kilauea"]


def unit_file() -> Path:
    """The file of the unit."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "systemd" / "user" / UNIT


def unit_text(words: Sequence[str]) -> str:
    """The unit for a command.

    Relative paths in its words are relative to the current folder. Only the main process is stopped: pods that are
    processes on this machine continue, and are found again at the start.
    """
    environment = "".join(
        f"Environment={_quoted(f'{name}={os.environ[name]}')}\n"
        for name in ("PATH", "XDG_DATA_HOME", "PYTHONPATH")
        if os.environ.get(name)
    )
    return (
        "# Written by `kilauea service install`, which writes it again.\n"
        "[Unit]\n"
        "Description=Kilauea, a batch cluster on this machine\n"
        "StartLimitIntervalSec=0\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"ExecStart={' '.join(map(_word, words))}\n"
        f"WorkingDirectory=-{os.getcwd().replace('%', '%%')}\n"
        f"{environment}"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "KillMode=process\n"
        "Delegate=yes\n"
        "TimeoutStopSec=60\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def _word(word: str) -> str:
    """Quote a word of a command for systemd, with `$` escaped, too."""
    return _quoted(word.replace("$", "$$"))


def _quoted(word: str) -> str:
    """Quote a word for systemd, with `%` escaped."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if not word or set(word) & set(" \t\"'\\;") else escaped


# --- systemd


def answers() -> bool:
    """True if the user's systemd responds."""
    if shutil.which("systemctl") is None:
        return False
    asked = ["systemctl", "--user", "show-environment"]
    try:
        return subprocess.run(asked, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def lingers() -> bool:
    """True if the user's services run without a login."""
    return Path("/var/lib/systemd/linger", _user()).exists()


def _user() -> str:
    from kilauea.cli.jobs.manifest import user_name

    return user_name()


def _systemctl(words: Sequence[str]) -> None:
    done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"systemctl --user {' '.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _say_commands(words: str, commands: Sequence[Sequence[str]]) -> None:
    click.echo(f"{words}:")
    for command in commands:
        click.echo(f"  systemctl --user {' '.join(command)}")
