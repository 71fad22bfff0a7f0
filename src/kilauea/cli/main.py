"""The command `kilauea`. A subcommand is loaded when it is called, so that help and version remain fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from kilauea.cli.color import honour_no_color
from kilauea.version import __version__

SUBCOMMANDS: Mapping[str, str] = {
    "advise": "Find changes that shorten waiting, by trying them.",
    "apiserver": "Serve a Kubernetes API without a cluster.",
    "batch": "Submit a script with #SBATCH lines.",
    "compare": "Compare simulated configurations.",
    "completion": "Print the completion script of a shell.",
    "config": "Work with scheduler configurations.",
    "controllers": "Run controllers for a cluster.",
    "dashboard": "Show a cluster in the browser.",
    "doctor": "Check a cluster and say what to do.",
    "explain": "Show why a job waits, and what would let it start.",
    "history": "Show what happened to jobs.",
    "nodes": "Simulate nodes and the pods on them.",
    "plan": "Show what the next scheduling cycle would do.",
    "queues": "Show what queues deserve, hold and have borrowed.",
    "report": "Report resource usage.",
    "run": "Run a command as a batch job.",
    "sacct": "Show jobs that run or have ended.",
    "scancel": "End jobs.",
    "scheduler": "Schedule the pods of a cluster.",
    "service": "Keep a cluster running as a service of your user.",
    "simulate": "Run a trace of jobs through the scheduler.",
    "sinfo": "Show queues and the states of nodes.",
    "squeue": "Show jobs that wait or run.",
    "up": "Run a batch cluster on this machine.",
    "webhooks": "Validate and default objects for a cluster.",
}
"""Subcommands with the first line of their help; each is a function in a module of the same name."""


class Subcommands(click.Group):
    """A group that lists its commands by name, and loads a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with a name; None if it does not exist."""
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = getattr(import_module(f"kilauea.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called.

        Raises:
            click.NoSuchCommand: it does not exist; the message contains similar names. Click itself would only search
                loaded commands, of which there are none.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=SUBCOMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group(cls=Subcommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kilauea %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """A batch scheduling system for Kubernetes, compatible with Volcano."""
    honour_no_color(context)
