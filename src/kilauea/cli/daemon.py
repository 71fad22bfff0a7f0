"""Options of the long-running commands, spelled as in Volcano."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.leader_election import lease_of
from kilauea.cli.options import Command, Flag, switch
from kilauea.cli.original_flags import KLOG, warn_without_effect, without_effect
from kilauea.cli.version import print_version
from kilauea.runtime.logs import FORMATS, JSON, LEVELS

if TYPE_CHECKING:
    import asyncio

    from kilauea.runtime.daemon import DaemonOptions


log = logging.getLogger(__name__)


class Level(click.ParamType[Any]):
    """Log verbosity in the syntax of Go flags: `-v=4` and `-v 4`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f'invalid number "{value}": use 0 to 10', param, ctx)
        return int(text)


def logging_options(command: Command) -> Command:
    """Options of the log; klog's other flags are accepted without effect."""
    command = without_effect(KLOG)(command)
    command = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        metavar="LEVEL",
        help=f"Lowest level that is logged: {', '.join(LEVELS)}. [default: by -v]",
    )(command)
    command = click.option(
        "--logging-format",
        "log_format",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        show_default=True,
        help="Lines of text, or one JSON object per line.",
    )(command)
    return click.option(
        "-v",
        "--v",
        "verbosity",
        type=Level(),
        default=2,
        show_default=True,
        metavar="NUMBER",
        help="Verbosity as klog counts it; debug messages from 4 up.",
    )(command)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        print_version()
        context.exit()


version = click.option(
    "--version",
    type=Flag(),
    is_flag=False,
    flag_value="true",
    default="false",
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
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
            help="Most requests to the API server at once.",
        )(command)
        return click.option(
            "--kube-api-qps",
            "qps",
            type=click.FloatRange(min=1),
            default=qps,
            show_default=True,
            help="Most requests per second to the API server.",
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
        "--healthz-address",
        default="127.0.0.1:11251",
        show_default=True,
        help="Address of the health endpoints, if enabled.",
    )(command)
    return switch("--enable-healthz", False, "Serve the health endpoints at --healthz-address.")(command)


def address_of(text: str, option: str) -> tuple[str, int]:
    """Parse host and port of `:8080` or `127.0.0.1:0`; an empty host means all addresses.

    Raises:
        Usage: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Usage(f'{option}: invalid address "{text}": use HOST:PORT, for example 127.0.0.1:8080')
    return host.strip("[]"), int(port)


def start_log(given: Mapping[str, Any]) -> None:
    """Start logging by the options, and warn about flags that have no effect."""
    from kilauea.runtime import logs

    logs.start_log(given["log_format"], given["log_level"] or "", given["verbosity"])
    warn_without_effect(given["log_format"])


def pages_of(given: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the addresses for health and metrics.

    Raises:
        Usage: an address is invalid.
    """
    pages = []
    if given.get("enable_metrics"):
        pages.append(address_of(given["listen_address"], "--listen-address"))
    if given["enable_healthz"]:
        pages.append(address_of(given["healthz_address"], "--healthz-address"))
    return tuple(pages)


def daemon_options(given: Mapping[str, Any]) -> DaemonOptions:
    """Return the options that all daemons share; a command without leader election has no lease.

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
        tracing=given.get("tracing", False),
    )


def run_daemon(start: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a daemon until SIGTERM or Ctrl-C.

    Args:
        start: function that runs the daemon until the event is set.

    Raises:
        Usage: the cluster, the configuration or a plugin is invalid.
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
        raise _ended(Usage, error) from error
    except (StartError, LeaseLost) as error:
        raise _ended(Failure, error) from error


def _ended(kind: type[Failure], error: Exception) -> Failure | click.exceptions.Exit:
    """Return the exception that ends a command after an error; a JSON log has the error as its last message."""
    context = click.get_current_context()
    message = f"{context.command_path}: {error}"
    if context.params.get("log_format") == JSON:
        log.critical("%s", message)
        return click.exceptions.Exit(kind.exit_code)
    return kind(message)
