"""`kilauea nodes`: simulated nodes for any Kubernetes API; their pods start, run, end and fail as configured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kilauea.api.numbers import plural
from kilauea.cli.daemon import run_daemon
from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage
from kilauea.cli.options import Command, access

EXAMPLES = """\b
Examples:
  kilauea nodes --kubeconfig ./cluster/kubeconfig --count 100 --node-gpu 8
  kilauea nodes --kubeconfig ./cluster/kubeconfig --start-delay 2s
  kubectl annotate node node-3 kilauea.dev/node-state=not-ready
"""


class Quantity(click.ParamType[Any]):
    """An amount of a resource in Kubernetes' syntax, above 0.

    Args:
        resource: its name, e.g. `memory`.
    """

    name = "quantity"

    def __init__(self, resource: str) -> None:
        self._resource = resource

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, after validating it."""
        from kilauea.api.quantity import QuantityError, amount

        try:
            if amount(self._resource, value) <= 0:
                self.fail(f'invalid amount "{value}": must be above 0', param, ctx)
        except QuantityError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def node_size(cpu: str, memory: str) -> Callable[[Command], Command]:
    """Options for the size of simulated nodes, with their defaults."""

    def options(command: Command) -> Command:
        command = click.option(
            "--node-gpu",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="GPUs (nvidia.com/gpu) of each node.",
        )(command)
        for name, default in (("memory", memory), ("cpu", cpu)):
            command = click.option(
                f"--node-{name}", type=Quantity(name), default=default, show_default=True, help=f"{name} of each node."
            )(command)
        return command

    return options


class RunTime(Duration):
    """A duration of 0 or more, in microseconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds."""
        length = super().convert(value, param, ctx)
        if length < 0:
            self.fail(f'invalid duration "{value}": must not be negative, for example 30s', param, ctx)
        return length


run_time_option = click.option(
    "--run-time",
    type=RunTime(),
    default="5s",
    show_default=True,
    help="Run time of commands that do not specify one, in pods that are meant to end; 0 means forever.",
)


@click.command(short_help="Simulate nodes and the pods on them.", epilog=EXAMPLES)
@access
@click.option(
    "--count",
    type=click.IntRange(0, 5000),
    default=0,
    show_default=True,
    help="Register node-0, node-1 and so on if they are missing; 0 simulates existing nodes only.",
)
@node_size(cpu="16", memory="64Gi")
@click.option(
    "--node-pods", type=click.IntRange(1), default=110, show_default=True, help="Maximum number of pods on each node."
)
@click.option("--start-delay", type=Duration(), default="0s", show_default=True, help="Time to create containers.")
@run_time_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random pauses between retries.")
def nodes(
    kubeconfig: Path | None,
    count: int,
    node_cpu: str,
    node_memory: str,
    node_gpu: int,
    node_pods: int,
    start_delay: int,
    run_time: int,
    seed: int,
) -> None:
    """Keep simulated nodes ready and run the pods that are bound to them, without any machine.

    The command simulates every Node on which no kubelet has reported a boot, unless the annotation
    kilauea.dev/simulated overrides this. It keeps the existing fields of a Node. The annotation kilauea.dev/run-time or
    a sleep in its command sets how long a pod runs; kilauea.dev/exit-code or an exit sets its exit code. Stop it with
    Ctrl-C or SIGTERM.
    """
    from kilauea.api.times import SECOND
    from kilauea.nodes.machine import Machine
    from kilauea.runtime.cluster.nodes import NodesOptions, run_nodes
    from kilauea.runtime.daemon import DaemonOptions
    from kilauea.runtime.logs import TEXT, start_log

    start_log(TEXT, "info", 0)
    if start_delay < 0:
        raise Usage("--start-delay must not be negative, for example 2s")
    daemon = DaemonOptions(kubeconfig, dict(os.environ), seed=seed)
    machine = Machine(node_cpu, node_memory, node_gpu, node_pods)
    options = NodesOptions(daemon, count, machine, start_delay / SECOND, run_time)

    def ready(number: int) -> None:
        click.echo(f"simulating {plural(number, 'node')}")

    run_daemon(lambda stop: run_nodes(options, ready, stop))
