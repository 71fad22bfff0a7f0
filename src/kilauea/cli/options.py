"""Options that commands share: flags with a value, and access to a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Flag(click.ParamType[Any]):
    """A boolean flag with an optional value, as in Go: `--leader-elect=false`; without a value it is true."""

    name = "bool"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return the boolean."""
        from kilauea.api.wellknown import parse_bool

        parsed = value if isinstance(value, bool) else parse_bool(value)
        if parsed is None:
            self.fail(f'invalid value "{value}": use true or false', param, ctx)
        return parsed


def switch(name: str, default: bool, words: str) -> Callable[[Command], Command]:
    """Return a boolean option with an optional value."""
    return click.option(
        name, type=Flag(), is_flag=False, flag_value="true", default=str(default).lower(), show_default=True, help=words
    )


def access(command: Command) -> Command:
    """Option that selects the cluster."""
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Access to the cluster. [default: KUBECONFIG, the pod's own, ~/.kube/config]",
    )(command)
