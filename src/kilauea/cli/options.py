"""Options that several commands share, spelled as Go's flags spell them: switches, durations, leader election."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage

if TYPE_CHECKING:
    from kilauea.api.ports import Key
    from kilauea.client.lease import Terms

Command = TypeVar("Command", bound=Callable[..., Any])


class Flag(click.ParamType[Any]):
    """A switch that takes a word, as Go's flags do: `--leader-elect=false`; alone it is on."""

    name = "bool"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """What a word means."""
        from kilauea.api.wellknown import parse_bool

        parsed = value if isinstance(value, bool) else parse_bool(value)
        if parsed is None:
            self.fail(f'"{value}" is neither true nor false', param, ctx)
        return parsed


def switch(name: str, default: bool, words: str) -> Callable[[Command], Command]:
    """An option that is on, off, or told by a word."""
    return click.option(
        name, type=Flag(), is_flag=False, flag_value="true", default=str(default).lower(), show_default=True, help=words
    )


def access(command: Command) -> Command:
    """The option that says which cluster."""
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Access to the cluster. [default: KUBECONFIG, the pod's own, ~/.kube/config]",
    )(command)


def pace(command: Command) -> Command:
    """The options that bound the requests to the API server."""
    for option in (
        click.option(
            "--kube-api-burst", "burst", type=click.IntRange(min=1), default=2000, show_default=True, help="At once."
        ),
        click.option(
            "--kube-api-qps", "qps", type=click.FloatRange(min=1), default=2000, show_default=True, help="Requests/s."
        ),
    ):
        command = option(command)
    return command


def leader_election(name: str, words: str) -> Callable[[Command], Command]:
    """The options of leader election, with the usual name of the lease; `lease_of` reads them."""
    prefix = "--leader-elect"
    times = (("retry-period", "2s"), ("renew-deadline", "10s"), ("lease-duration", "15s"))

    def options(command: Command) -> Command:
        command = click.option("--lock-object-namespace", default="", hidden=True)(command)
        for field, value in (("namespace", "volcano-system"), ("name", name)):
            command = click.option(f"{prefix}-resource-{field}", default=value, show_default=True)(command)
        for field, value in times:
            command = click.option(f"{prefix}-{field}", type=Duration(), default=value, show_default=True)(command)
        return switch(prefix, True, words)(command)

    return options


def lease_of(given: Mapping[str, Any]) -> tuple[Key | None, Terms]:
    """The lease to hold, None if none is to be held, and its times.

    Raises:
        Usage: the times do not fit together.
    """
    from kilauea.api.ports import Key
    from kilauea.api.times import SECOND
    from kilauea.client.lease import Terms

    times = (given[f"leader_elect_{name}"] / SECOND for name in ("lease_duration", "renew_deadline", "retry_period"))
    try:
        terms = Terms(*times)
    except ValueError as error:
        raise Usage(f"--leader-elect: {error}") from error
    namespace = given["lock_object_namespace"] or given["leader_elect_resource_namespace"]
    return (Key(namespace, given["leader_elect_resource_name"]) if given["leader_elect"] else None), terms
