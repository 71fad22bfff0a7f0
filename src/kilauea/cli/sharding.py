"""Options that select the part of a cluster that a scheduler uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kilauea.engine.model.shards import Sharding

F = TypeVar("F", bound=Callable[..., Any])


def sharding_options(function: F) -> F:
    """Add --scheduler-sharding-mode and --scheduler-sharding-name to a command."""
    named = click.option(
        "--scheduler-sharding-name",
        "sharding_name",
        default="volcano",
        show_default=True,
        metavar="NAME",
        help="Name of the scheduler's NodeShard.",
    )
    mode = click.option(
        "--scheduler-sharding-mode",
        "sharding_mode",
        type=click.Choice(("none", "hard", "soft")),
        default="none",
        show_default=True,
        help="Use the nodes of the NodeShard only (hard), before all others (soft), or like all others (none).",
    )
    return mode(named(function))


def sharding_of(mode: str, name: str) -> Sharding:
    """The sharding that the options describe.

    Raises:
        Usage: the name is empty.
    """
    from kilauea.cli.inputs import Usage
    from kilauea.engine.model.shards import Sharding

    if not name:
        raise Usage("--scheduler-sharding-name must not be empty: name the scheduler's NodeShard")
    return Sharding(mode, name)
