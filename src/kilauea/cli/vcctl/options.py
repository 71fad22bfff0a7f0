"""Options that several commands have. Each call makes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kilauea.cli.durations import Duration
from kilauea.cli.vcctl.command import CommandError

DEFAULT_RESOURCES = "cpu=1000m,memory=100Mi"


def text(*names: str, default: str = "", help: str = "", metavar: str = "TEXT") -> click.Option:
    """A text."""
    return click.Option(names, default=default, help=help, metavar=metavar, show_default=bool(default))


def number(*names: str, default: int | None = None, help: str = "") -> click.Option:
    """A whole number that fits into 32 bits."""
    return click.Option(
        names, type=Int32(), default=default, help=help, metavar="NUMBER", show_default=default is not None
    )


def flag(*names: str, help: str) -> click.Option:
    """Something that is off unless it is said."""
    return click.Option(names, is_flag=True, help=help)


def choice(*names: str, of: Sequence[str], default: str, help: str) -> click.Option:
    """One of some words."""
    return click.Option(names, type=click.Choice(list(of)), default=default, help=help, show_default=True)


def name(short: str = "-N", help: str = "Name; may also stand alone.") -> click.Option:
    """The name of what a command is about."""
    return text(short, "--name", help=help, metavar="NAME")


def namespace(short: str = "-n") -> click.Option:
    """The namespace."""
    return text(short, "--namespace", default="default", help="Namespace.", metavar="NAME")


def output(*forms: str, short: str = "-o", default: str = "table") -> click.Option:
    """The form of what is printed."""
    return choice(short, "--output", of=(default, *forms), default=default, help="Form of what is printed.")


def listing(*forms: str) -> list[click.Option]:
    """How a list is shown."""
    return [
        output(*(forms or ("wide", "json", "yaml", "name"))),
        flag("--no-headers", help="Leave out the line of headings."),
        flag("-w", "--watch", help="Go on with rows that change, until stopped."),
    ]


def waiting(what: str) -> list[click.Option]:
    """Whether to wait for the effect."""
    return [
        flag("--wait", help=f"Wait until {what}, and say so."),
        click.Option(["--timeout"], type=Duration(), default="0s", help="How long to wait at most; 0s for ever."),
    ]


class Int32(click.ParamType[Any]):
    """A whole number of 32 bits."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            found = int(value)
        except ValueError:
            self.fail(f'"{value}" is not a whole number', param, ctx)
        if not -(2**31) <= found < 2**31:
            self.fail(f'"{value}" is out of range: use -2147483648 to 2147483647', param, ctx)
        return found


def resources(text: str) -> dict[str, str]:
    """Amounts from `cpu=1,memory=2Gi`.

    Raises:
        CommandError: something of it is no amount.
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
    """A value that must be given.

    Raises:
        CommandError: it is empty.
    """
    if not value:
        raise CommandError(words)
    return value
