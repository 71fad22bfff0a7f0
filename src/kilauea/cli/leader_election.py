"""Options of leader election, spelled as in Volcano, and the lease that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage
from kilauea.cli.options import Command, switch

if TYPE_CHECKING:
    from kilauea.api.ports import Key
    from kilauea.client.lease import Terms


def leader_election(name: str, words: str) -> Callable[[Command], Command]:
    """The options of leader election, with the default name of the lease; `lease_of` reads them."""
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
    """The lease to hold, or None, and its durations.

    Raises:
        Usage: the durations contradict each other.
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
