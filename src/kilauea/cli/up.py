"""`kilauea up`: a complete batch cluster on this machine, in one process."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilauea.cli.apiserver import durability_option, listen_option, parse_listen
from kilauea.cli.nodes import node_size, run_time_option
from kilauea.client.finding import default_cluster

if TYPE_CHECKING:
    from kilauea.apiserver.storage import Durability
    from kilauea.kubelet.images import Mapped
    from kilauea.runtime.cluster.machine_pods import MachineOptions
    from kilauea.runtime.cluster.up import Up

EXAMPLES = """\b
Examples:
  kilauea up
  kilauea up --nodes 100 --node-cpu 32 --node-gpu 8
  kilauea up --nodes 4 --node-cpu 8 -f examples/sharing/queues.yaml --scheduler-conf examples/sharing/scheduler.conf
"""

TRY = """\b
  kubectl get nodes
  kilauea run -n 4 -- sh -c 'echo hello; sleep 2'
  kilauea queues
"""

TRY_HERE = """\b
  kubectl get nodes
  kilauea run -- hostname
  kubectl run hello --image=host --restart=Never -- echo hello
"""


def first_steps(kubeconfig: Path, *, scheduler: bool, here: bool) -> str:
    """Commands for a user whose cluster is ready.

    Args:
        kubeconfig: the file that clients need.
        scheduler: True if it has a scheduler.
        here: True if its pods run on this machine.
    """
    serve = (
        "" if scheduler else "\nStart a scheduler:\n  kilauea scheduler --kubeconfig $KUBECONFIG --leader-elect=false\n"
    )
    return f"export KUBECONFIG={kubeconfig}\n{serve}\nThen try:\n" + (TRY_HERE if here else TRY).removeprefix("\b\n")


def default_folder() -> Path:
    """The folder for a user's cluster."""
    return default_cluster(os.environ)


@click.command(short_help="Run a batch cluster on this machine.", epilog=EXAMPLES)
@click.option(
    "--nodes",
    type=click.IntRange(0, 5000),
    help="Number of nodes: simulated ones, or parts of this machine. [default: 10, or 1 if pods run]",
)
@click.option(
    "--runtime",
    type=click.Choice(["simulated", "process", "containers"]),
    default="simulated",
    show_default=True,
    help="How pods run: simulated, as processes on this machine, or as podman containers.",
)
@click.option(
    "--simulated-nodes",
    type=click.IntRange(0, 5000),
    default=0,
    show_default=True,
    help="Number of simulated nodes in addition to this machine, if pods run.",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="NAME=PATH|host",
    help="What runs for images of this name. With --runtime process: a folder with a file system, a Python "
    "environment, a program, or host, the files of this machine. NAME may have * and ?. Repeatable. [default: *=host] "
    "With --runtime containers: a folder instead of podman's image.",
)
@click.option(
    "--allow-remote-processes",
    is_flag=True,
    help="If pods run, permit --listen on an address that other machines can reach.",
)
@node_size(cpu="32", memory="128Gi")
@click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="File or folder with manifests to apply at the start. Repeatable.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the cluster. [default: kilauea/cluster in your data folder]",
)
@listen_option
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Kubeconfig to write once the cluster is ready. [default: kubeconfig in the data folder]",
)
@durability_option
@click.option(
    "--scheduler-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Scheduler configuration, as in Volcano; reloaded when it changes. [default: that of Volcano's config map]",
)
@run_time_option
@click.option("--no-scheduler", is_flag=True, help="Run without a scheduler.")
@click.option("--seed", type=int, help="Seed of everything random: uids, generated names, pauses.")
def up(
    nodes: int | None,
    runtime: str,
    simulated_nodes: int,
    images: tuple[str, ...],
    allow_remote_processes: bool,
    node_cpu: str,
    node_memory: str,
    node_gpu: int,
    manifests: tuple[Path, ...],
    data_dir: Path | None,
    listen: str,
    kubeconfig: Path | None,
    durability: Durability,
    scheduler_conf: Path | None,
    run_time: int,
    no_scheduler: bool,
    seed: int | None,
) -> None:
    """Run a complete batch cluster in this process: API server, scheduler, controllers and nodes.

    Pods run on simulated nodes for the duration of their `sleep`; with --runtime process, they are processes on this
    machine, and with --runtime containers, podman containers. Both keep running while the cluster is stopped. The
    cluster is stored in one folder, from which a restart continues. Stop it with Ctrl-C or SIGTERM.
    """
    from kilauea.cli.remedy import advice
    from kilauea.nodes.machine import Machine
    from kilauea.runtime.cluster.apiserver import ServerOptions
    from kilauea.runtime.cluster.up import Up

    host, port = parse_listen(listen)
    folder = data_dir or default_folder()
    server = ServerOptions(host, port, folder, kubeconfig or folder / "kubeconfig", durability, seed)
    machine = Machine(node_cpu, node_memory, node_gpu)
    pods = _machine(host, runtime, nodes, images, allow_remote_processes)
    simulated = simulated_nodes if pods is not None else 10 if nodes is None else nodes
    run(Up(server, simulated, machine, manifests, scheduler_conf, not no_scheduler, run_time, advice, pods))


def _machine(
    host: str, runtime: str, nodes: int | None, images: tuple[str, ...], remote: bool
) -> MachineOptions | None:
    """Options of this machine for pods; None if it runs none.

    Raises:
        click.UsageError: options contradict each other.
    """
    if runtime == "simulated":
        if images:
            raise click.UsageError("--image needs --runtime process: simulated pods run nothing")
        return None
    if runtime == "containers" and (mapped := next((each for each in images if each.endswith("=host")), "")):
        raise click.UsageError(f'--image "{mapped}": containers do not see the files of this machine; name a folder')
    if not is_loopback(host) and not remote:
        raise click.UsageError(
            f"--listen {host} lets other machines reach a cluster whose pods are processes of yours: any client with "
            "its credentials can run any command as you. Listen on 127.0.0.1, or add --allow-remote-processes"
        )
    from kilauea.runtime.cluster.machine_pods import MachineOptions

    return MachineOptions(1 if nodes is None else nodes, _images(images), runtime == "containers")


def is_loopback(host: str) -> bool:
    """Return True if an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _images(texts: tuple[str, ...]) -> tuple[Mapped, ...]:
    from kilauea.kubelet.images import InvalidMapping, Mapped

    try:
        return tuple(map(Mapped.parse, texts))
    except InvalidMapping as error:
        raise click.UsageError(str(error)) from None


def run(options: Up) -> None:
    """Run until the stop event is set."""
    from kilauea.runtime.cluster.server_loop import run_server
    from kilauea.runtime.cluster.up import run_up
    from kilauea.runtime.daemon import StartError
    from kilauea.runtime.logs import log_warnings
    from kilauea.runtime.tasks import stopped_by_signals

    log_warnings()

    def ready(address: str, link: str) -> None:
        click.echo(f"The cluster is ready at {address}. Ctrl-C ends it.\n")
        if link:
            click.echo(f"Dashboard: {link}\n")
        click.echo(
            first_steps(options.server.kubeconfig, scheduler=options.scheduler, here=options.pods is not None), nl=False
        )

    def again(link: str) -> None:
        click.echo(f"Dashboard for another browser: {link}")

    async def main() -> None:
        await run_up(options, ready, stopped_by_signals(), again)

    try:
        run_server(main(), runs_pods=options.pods is not None)
    except StartError as error:
        click.echo(f"kilauea up: {error}", err=True)
        raise SystemExit(1) from None
