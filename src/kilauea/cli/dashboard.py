"""`kilauea dashboard`: pages that show a cluster, with the rights of its user."""

from __future__ import annotations

from pathlib import Path

import click

from kilauea.cli.options import access

EXAMPLES = """\b
Examples:
  kilauea dashboard
  kilauea dashboard --kubeconfig ./cluster/kubeconfig --address 127.0.0.1:8080
  kilauea dashboard -n research
"""


@click.command(short_help="Show a cluster in the browser.", epilog=EXAMPLES)
@access
@click.option(
    "--address",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Loopback address to listen on; port 0 selects a free port.",
)
@click.option("-n", "--namespace", default="", metavar="NS", help="Show the jobs and pods of this namespace only.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Show the history in this folder, which `kilauea scheduler --history` keeps. [default: that of the cluster]",
)
def dashboard(kubeconfig: Path | None, address: str, namespace: str, history: Path | None) -> None:
    """Show a cluster in the browser: queues, jobs and why they wait, nodes, evictions, and plans of new jobs.

    The pages show what your credentials may list, and are read-only. The command prints a link that works once, and a
    new link after each use. `kilauea up` serves the same pages itself.
    """
    import asyncio
    import os

    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import unread_cluster
    from kilauea.cli.apiserver import parse_listen
    from kilauea.cli.inputs import Usage
    from kilauea.cli.up import is_loopback
    from kilauea.client.access import AccessError
    from kilauea.runtime.daemon import StartError
    from kilauea.runtime.dashboard.process import DashboardOptions, run_dashboard
    from kilauea.runtime.logs import log_warnings
    from kilauea.runtime.tasks import stopped_by_signals

    log_warnings()
    host, port = parse_listen(address)
    if not is_loopback(host):
        raise click.UsageError(
            f"--address {address}: other machines could read the pages, which are not encrypted: listen on 127.0.0.1, "
            "and reach it from elsewhere with `ssh -L` or `kubectl port-forward`"
        )

    def ready(link: str) -> None:
        click.echo(f"Dashboard: {link}\nCtrl-C ends it.")

    def again(link: str) -> None:
        click.echo(f"For another browser: {link}")

    async def main() -> None:
        options = DashboardOptions(kubeconfig, os.environ, host, port, namespace, history)
        await run_dashboard(options, ready, again, stopped_by_signals())

    try:
        asyncio.run(main())
    except ApiError as error:
        raise click.ClickException(unread_cluster(error)) from None
    except AccessError as error:
        raise Usage(str(error)) from None
    except StartError as error:
        raise click.ClickException(str(error)) from None
