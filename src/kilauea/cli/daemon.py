"""Options of the commands that work beside a cluster until they are told to stop, as Volcano's commands spell them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import click

from kilauea.cli.inputs import Usage
from kilauea.cli.options import Command, switch


class Level(click.ParamType[Any]):
    """How much is logged, as Go's flags spell it: `-v=4` and `-v 4`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f'"{value}" is no number: use 0 to 10', param, ctx)
        return int(text)


verbosity = click.option("-v", "--v", "verbosity", type=Level(), default=2, hidden=True)
master = click.option("--master", default="", metavar="URL", help="Address of the server, instead of the kubeconfig's.")


def pace(qps: int, burst: int) -> Callable[[Command], Command]:
    """The options that bound the requests to the API server, with their defaults."""

    def options(command: Command) -> Command:
        command = click.option(
            "--kube-api-burst", "burst", type=click.IntRange(min=1), default=burst, show_default=True, help="At once."
        )(command)
        return click.option(
            "--kube-api-qps", "qps", type=click.FloatRange(min=1), default=qps, show_default=True, help="Requests/s."
        )(command)

    return options


def scheduler_names(words: str) -> Callable[[Command], Command]:
    """The option that names the schedulers whose pods are meant."""
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
    """The options of the page that says whether the process is well."""
    command = click.option(
        "--healthz-address", default=":11251", show_default=True, help="Where /healthz is, if enabled."
    )(command)
    return switch("--enable-healthz", False, "Serve /healthz at --healthz-address.")(command)


def _without_effect(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"warning: {parameter.opts[0]} has no effect here", err=True)


def original_flags(names: Sequence[str]) -> Callable[[Command], Command]:
    """Take flags that have no effect."""

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
    """Host and port of `:8080` or `127.0.0.1:0`; without a host, all addresses.

    Raises:
        Usage: it has another form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Usage(f'{option}: "{text}" is no address: use HOST:PORT such as 127.0.0.1:8080')
    return host.strip("[]"), int(port)


def start_log(verbosity: int) -> None:
    """Write what happens to standard error: from level 4 on, everything."""
    level = logging.DEBUG if verbosity > 3 else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
