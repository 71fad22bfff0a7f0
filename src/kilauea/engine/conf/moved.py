"""Arguments of predicates that now belong to resource-strategy-fit, with their meaning there.

Volcano 1.9 wrote cpu and memory to keep free beside idle devices as flat arguments of predicates. Its successor is the
map `proportional` of resource-strategy-fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SWITCH = "predicate.ProportionalEnable"
RESOURCES = "predicate.resources"
NEW_PLUGIN, NEW_KEY = "resource-strategy-fit", "proportional"


class Moved(NamedTuple):
    """The arguments of a predicates entry, split."""

    kept: dict[str, object]
    """Arguments that predicates still has."""
    keys: tuple[str, ...]
    """Keys of those that have moved."""
    proportional: dict[str, object]
    """Their values for resource-strategy-fit."""


def moved_arguments(arguments: Mapping[str, object]) -> Moved:
    """Split the arguments of predicates into its own and those that have moved."""
    keys = tuple(key for key in arguments if key in (SWITCH, RESOURCES) or key.startswith(RESOURCES + "."))
    rates = {key.removeprefix(RESOURCES + "."): arguments[key] for key in keys if key not in (SWITCH, RESOURCES)}
    proportional: dict[str, object] = {}
    if SWITCH in keys:
        proportional["enable"] = arguments[SWITCH]
    if RESOURCES in keys:
        proportional["resources"] = arguments[RESOURCES]
    if rates:
        proportional["resourceProportion"] = rates
    return Moved({k: v for k, v in arguments.items() if k not in keys}, keys, proportional)
