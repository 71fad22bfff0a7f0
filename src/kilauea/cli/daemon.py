"""Options of the long-running commands, spelled as Volcano spells them."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.leader_election import lease_of
from kilauea.cli.options import Command, switch

if TYPE_CHECKING:
    import asyncio

    from kilauea.runtime.daemon import DaemonOptions


class Level(click.ParamType[Any]):
    """Log verbosity in the syntax of Go flags: `-v=4` and `-v 4`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f'invalid number "{value}": use 0 to 10', param, ctx)
        return int(text)


verbosity = click.option("-v", "--v", "verbosity", type=Level(), default=2, hidden=True)
master = click.option("--master", default="", metavar="URL", help="URL of the API server; overrides the kubeconfig.")


def pace(qps: int, burst: int) -> Callable[[Command], Command]:
    """Options that limit requests to the API server, with their defaults."""

    def options(command: Command) -> Command:
        command = click.option(
            "--kube-api-burst",
            "burst",
            type=click.IntRange(min=1),
            default=burst,
            show_default=True,
            help="At once.",
        )(command)
        return click.option(
            "--kube-api-qps",
            "qps",
            type=click.FloatRange(min=1),
            default=qps,
            show_default=True,
            help="Requests/s.",
        )(command)

    return options


def scheduler_names(words: str) -> Callable[[Command], Command]:
    """Option that selects pods by the name of their scheduler."""
    return click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        default=("volcano",),
        show_default=True,
        metavar="NAME",
        help=f"{words} Repeatable.",
    )


def health(command: Command) -> Command:
    """Options of the health endpoint."""
    command = click.option(
        "--healthz-address", default="127.0.0.1:11251", show_default=True, help="Address of /healthz, if enabled."
    )(command)
    return switch("--enable-healthz", False, "Serve /healthz at --healthz-address.")(command)


def _without_effect(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"warning: {parameter.opts[0]} has no effect here", err=True)


def original_flags(names: Sequence[str]) -> Callable[[Command], Command]:
    """Accept flags of Volcano that have no effect here."""

    def take(command: Command) -> Command:
        for name in names:
            option = click.option(
                f"--{name}",
                is_flag=False,
                flag_value="true",
                hidden=True,
                expose_value=False,
                callback=_without_effect,
            )
            command = option(command)
        return command

    return take


def address_of(text: str, option: str) -> tuple[str, int]:
    """Parse host and port of `:8080` or `127.0.0.1:0`; an empty host means all addresses.

    Raises:
        Usage: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Usage(f'{option}: invalid address "{text}": use HOST:PORT, for example 127.0.0.1:8080')
    return host.strip("[]"), int(port)


def start_log(verbosity: int) -> None:
    """Log to standard error, with debug messages from level 4 up."""
    level = logging.DEBUG if verbosity > 3 else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")


def pages_of(given: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the addresses at which health and metrics are served.

    Raises:
        Usage: one of them is not an address.
    """
    pages = []
    if given.get("enable_metrics"):
        pages.append(address_of(given["listen_address"], "--listen-address"))
    if given["enable_healthz"]:
        pages.append(address_of(given["healthz_address"], "--healthz-address"))
    return tuple(pages)


def daemon_options(given: Mapping[str, Any]) -> DaemonOptions:
    """Return the options that all daemons share; a command without leader election holds no lease.

    Raises:
        Usage: an option is invalid.
    """
    from kilauea.client.lease import Terms
    from kilauea.runtime.daemon import DaemonOptions

    lease, terms = lease_of(given) if "leader_elect" in given else (None, Terms())
    return DaemonOptions(
        kubeconfig=given["kubeconfig"],
        environment=dict(os.environ),
        master=given["master"],
        qps=given["qps"],
        burst=given["burst"],
        lease=lease,
        terms=terms,
        pages=pages_of(given),
    )


def run_daemon(command: str, start: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a daemon until SIGTERM or Ctrl-C.

    Args:
        command: name of the command, for messages.
        start: function that runs the daemon until the event is set.

    Raises:
        Usage: the cluster, the configuration or a plugin cannot be used.
        Failure: the daemon could not start, or lost its lease.
    """
    import asyncio

    from kilauea.client.access import AccessError
    from kilauea.client.lease import LeaseLost
    from kilauea.runtime.daemon import StartError
    from kilauea.runtime.inputs.extensions import ExtensionError
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.tasks import stopped_by_signals

    async def main() -> None:
        await start(stopped_by_signals())

    try:
        asyncio.run(main())
    except (ExtensionError, SourceError, AccessError) as error:
        raise Usage(f"{command}: {error}") from error
    except (StartError, LeaseLost) as error:
        raise Failure(f"{command}: {error}") from error
