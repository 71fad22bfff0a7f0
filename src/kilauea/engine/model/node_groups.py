"""Groups of nodes that a queue uses or avoids, and its limits in each, according to its object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.quantity import resource_amounts
from kilauea.api.scheduling import NodeGroupTerms, QueueAffinity

SHOWN = 200
"""Maximum number of characters of an annotation in messages."""


class NodeGroups(NamedTuple):
    """`spec.affinity` of a queue: names of node groups."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    """Required anti-affinity."""
    rather_not: tuple[str, ...] = ()
    """Preferred anti-affinity."""


class GroupLimits(NamedTuple):
    """The maximum usage of a queue in each node group that it names."""

    amounts: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    fault: str = ""
    """The reason why the annotation is invalid; empty if it is valid."""


NO_LIMITS = GroupLimits()


def node_groups_of(affinity: QueueAffinity | None) -> NodeGroups | None:
    """Return the node groups that a queue names; None without the field, which differs from an empty one."""
    if affinity is None:
        return None
    near, far = _terms(affinity.node_group_affinity), _terms(affinity.node_group_anti_affinity)
    return NodeGroups(*near, *far)


def _terms(terms: NodeGroupTerms | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (tuple(terms.required or ()), tuple(terms.preferred or ())) if terms is not None else ((), ())


def group_limits_of(annotations: Mapping[str, str]) -> GroupLimits:
    """Return the limits in a queue's annotation: a JSON object of resource lists by node group."""
    text = annotations.get(wellknown.NODE_GROUP_LIMITS, "")
    if not text:
        return NO_LIMITS
    try:
        return GroupLimits(_amounts_by_group(json.loads(text)))
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        fix = 'write resources by node group, such as {"g1": {"cpu": "10"}}'
        return GroupLimits(fault=f"annotation {wellknown.NODE_GROUP_LIMITS} is invalid: {shown}: {why}; {fix}")


def _amounts_by_group(groups: object) -> dict[str, Mapping[str, int]]:
    if not isinstance(groups, dict):
        raise ValueError("it is not a JSON object")
    for group, limits in groups.items():
        scalars = isinstance(limits, dict) and all(
            isinstance(q, (str, int, float)) and not isinstance(q, bool) for q in limits.values()
        )
        if not scalars:
            raise ValueError(f"the limits of group {group!r} are not quantities by resource")
    return {group: resource_amounts(limits, where=f"{group}.") for group, limits in groups.items()}
