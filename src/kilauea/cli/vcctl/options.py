"""Options of several commands. Each call returns a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kilauea.cli.durations import Duration
from kilauea.cli.vcctl.command import CommandError

DEFAULT_RESOURCES = "cpu=1000m,memory=100Mi"


def text(*names: str, default: str = "", help: str = "", metavar: str = "TEXT") -> click.Option:
    """A string option."""
    return click.Option(names, default=default, help=help, metavar=metavar, show_default=bool(default))


def number(*names: str, default: int | None = None, help: str = "") -> click.Option:
    """A 32-bit integer option."""
    return click.Option(
        names, type=Int32(), default=default, help=help, metavar="NUMBER", show_default=default is not None
    )


def flag(*names: str, help: str) -> click.Option:
    """A flag that is off by default."""
    return click.Option(names, is_flag=True, help=help)


def choice(*names: str, of: Sequence[str], default: str, help: str) -> click.Option:
    """An option with a fixed set of values."""
    return click.Option(names, type=click.Choice(list(of)), default=default, help=help, show_default=True)


def name(short: str = "-N", help: str = "Name; may also be given as an argument.") -> click.Option:
    """The option for the name of the object."""
    return text(short, "--name", help=help, metavar="NAME")


def namespace(short: str = "-n") -> click.Option:
    """The option for the namespace."""
    return text(short, "--namespace", default="default", help="Namespace.", metavar="NAME")


def output(*forms: str, short: str = "-o", default: str = "table") -> click.Option:
    """The option for the output format."""
    return choice(short, "--output", of=(default, *forms), default=default, help="Output format.")


def listing(*forms: str) -> list[click.Option]:
    """Options of a list."""
    return [
        output(*(forms or ("wide", "json", "yaml", "name"))),
        flag("--no-headers", help="Do not print the headings."),
        flag("-w", "--watch", help="After listing, print rows that change."),
    ]


def waiting(what: str) -> list[click.Option]:
    """Options to wait for the effect of a command."""
    return [
        flag("--wait", help=f"Wait until {what}."),
        click.Option(["--timeout"], type=Duration(), default="0s", help="Longest time to wait; 0s means forever."),
    ]


class Int32(click.ParamType[Any]):
    """A 32-bit integer."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            found = int(value)
        except ValueError:
            self.fail(f'invalid number "{value}": use an integer', param, ctx)
        if not -(2**31) <= found < 2**31:
            self.fail(f'"{value}" is out of range: use -2147483648 to 2147483647', param, ctx)
        return found


def resources(text: str) -> dict[str, str]:
    """Amounts from `cpu=1,memory=2Gi`.

    Raises:
        CommandError: an amount is invalid.
    """
    from kilauea.api.quantity import QuantityError, amount

    found: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        parts = entry.split("=")
        if len(parts) != 2:
            raise CommandError(f"invalid argument syntax {entry}, expected <resource>=<value>")
        name, value = (each.strip() for each in parts)
        try:
            amount(name, value)
        except QuantityError as error:
            raise CommandError(f"{name}: {error}") from error
        found[name] = value
    return found


def needed(value: str, words: str) -> str:
    """The value of a required option.

    Raises:
        CommandError: the value is empty.
    """
    if not value:
        raise CommandError(words)
    return value
