"""`kilauea queues`: the queue tree, with deserved, held and borrowed amounts before the next cycle."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from kilauea.cli.inputs import (
    conf_option,
    kubeconfig_option,
    now_option,
    objects_option,
    output_option,
    plugins_option,
    read_inputs,
    warn,
)

EXAMPLES = """\b
Examples:
  kilauea queues
  kilauea queues -f cluster.yaml
  kubectl get nodes,pods,podgroups,queues -A -o yaml | kilauea queues -f - --scheduler-conf scheduler.conf
"""


@click.command(short_help="Show what queues deserve, hold and have borrowed.", epilog=EXAMPLES)
@objects_option
@kubeconfig_option
@conf_option
@plugins_option
@now_option
@output_option
def queues(
    paths: tuple[str, ...],
    kubeconfig: Path | None,
    scheduler_conf: str | None,
    folders: tuple[str, ...],
    at: str | None,
    output: str,
) -> None:
    """Show the queue tree with the metrics of each queue, for the objects in PATH, a live cluster, or both.

    The command changes nothing. It shows the metrics at the start of the next scheduling cycle. Resources above the
    deserved share of a queue are borrowed; the queues that deserve them can reclaim them.
    """
    from kilauea.cli.queues_output import render_queues
    from kilauea.engine.conf import QUEUE_PLUGINS

    inputs = read_inputs(paths, kubeconfig, scheduler_conf, folders, at)
    conf = dataclasses.replace(inputs.conf, actions=())
    result = inputs._replace(conf=conf).plan()
    warn(inputs, result.plan, folders)
    if not any(entry.name in QUEUE_PLUGINS for tier in conf.tiers for entry in tier):
        click.echo(
            f"warning: none of the queue plugins ({', '.join(sorted(QUEUE_PLUGINS))}) is configured: "
            "nothing enforces these limits",
            err=True,
        )
    sys.stdout.write(render_queues(result.plan.queues, output))
