"""`kilauea queues`: the tree of queues, what each deserves, holds and has borrowed, before anything is decided."""

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
    """Show the tree of queues with their figures, for the objects in PATH.

    Nothing is changed anywhere, and nothing is decided: the figures are those with which the next scheduling cycle
    begins. What a queue holds beyond what it deserves is borrowed, and can be taken back by queues that deserve it.
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
            "nothing holds queues to these figures",
            err=True,
        )
    sys.stdout.write(render_queues(result.plan.queues, output))
