"""The command `kilauea`. Subcommands are loaded when they are called, so that help and version stay quick."""

from __future__ import annotations

import click

from kilauea import __version__
from kilauea.cli.apiserver import apiserver
from kilauea.cli.config import config
from kilauea.cli.controllers import controllers
from kilauea.cli.explain import explain
from kilauea.cli.nodes import nodes
from kilauea.cli.plan import plan
from kilauea.cli.queues import queues
from kilauea.cli.run import run
from kilauea.cli.scheduler import scheduler
from kilauea.cli.up import up
from kilauea.cli.webhooks import webhooks


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kilauea %(version)s")
def main() -> None:
    """A batch scheduling system for Kubernetes, compatible with Volcano."""


main.add_command(apiserver)
main.add_command(config)
main.add_command(controllers)
main.add_command(explain)
main.add_command(nodes)
main.add_command(plan)
main.add_command(queues)
main.add_command(run)
main.add_command(scheduler)
main.add_command(up)
main.add_command(webhooks)
