"""`kilauea apiserver`: a Kubernetes API in one process, for real clients, without a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kilauea.apiserver.storage import Durability

EXAMPLES = """\b
Examples:
  kilauea apiserver
  kilauea apiserver --listen 127.0.0.1:0 --data-dir ./cluster --kubeconfig ./cluster/kubeconfig
  KUBECONFIG=./cluster/kubeconfig kubectl get namespaces
"""


def default_data_dir() -> Path:
    """The folder for a user's data."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kilauea" / "apiserver"


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:6443`, `[::1]:0` or `:6443`.

    Raises:
        click.BadParameter: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(
            f'invalid address "{text}": use HOST:PORT, for example 127.0.0.1:6443', param_hint="--listen"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


listen_option = click.option(
    "--listen",
    default="127.0.0.1:6443",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free one.",
)
durability_option = click.option(
    "--durability",
    type=click.Choice(["full", "normal", "memory"]),
    default="full",
    show_default=True,
    help="What the data survives: full, a power failure; normal, a crash of the process; memory, nothing.",
)


@click.command(short_help="Serve a Kubernetes API without a cluster.", epilog=EXAMPLES)
@listen_option
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for objects and credentials. [default: kilauea/apiserver in your data folder]",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Kubeconfig to write once the server listens. [default: kubeconfig in the data folder]",
)
@durability_option
def apiserver(listen: str, data_dir: Path | None, kubeconfig: Path | None, durability: Durability) -> None:
    """Serve the Kubernetes API to kubectl and other clients, from this process and one folder.

    It does not run pods: it stores, validates and watches objects like the API server of a cluster. Stop it with
    SIGTERM or Ctrl-C; the next start restores every acknowledged write.
    """
    from kilauea.runtime.cluster.apiserver import ServerOptions, serve
    from kilauea.runtime.cluster.server_loop import run_server
    from kilauea.runtime.daemon import StartError
    from kilauea.runtime.logs import log_warnings
    from kilauea.runtime.tasks import stopped_by_signals

    log_warnings()
    host, port = parse_listen(listen)
    folder = data_dir or default_data_dir()
    options = ServerOptions(host, port, folder, kubeconfig or folder / "kubeconfig", durability)

    def ready(address: str) -> None:
        click.echo(f"listening on {address}\nexport KUBECONFIG={options.kubeconfig}")

    async def run() -> None:
        await serve(options, ready, stopped_by_signals())

    try:
        run_server(run())
    except StartError as error:
        click.echo(f"kilauea apiserver: {error}", err=True)
        raise SystemExit(1) from None
