"""Fields of queues and pod groups that only one plugin each serves.

If that plugin is not configured, the field is ignored, and its object gets a condition. Wishes of groups are bits, so
those of all jobs fit in one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.scheduling import NetworkTopology, QueueSpec


class Wish(NamedTuple):
    """A field or an annotation, and the plugin that serves it.

    Attributes:
        plugin: its name.
        field: its name in messages.
        effect: what happens without the plugin.
        keys: the annotations that set it, if any.
        tree: the plugin serves it only with `enableHierarchy`.
    """

    plugin: str
    field: str
    effect: str
    keys: tuple[str, ...] = ()
    tree: bool = False


NODE_GROUPS = Wish("nodegroup", "spec.affinity", "its pods may run on any node group")

OF_QUEUES = (
    NODE_GROUPS,
    Wish(
        "nodegroup",
        f"annotation {wellknown.NODE_GROUP_LIMITS}",
        "node groups have no limits for it",
        (wellknown.NODE_GROUP_LIMITS,),
    ),
    Wish(
        "drf",
        f"annotation {wellknown.HIERARCHY}",
        "it has no place in a tree of weights",
        (wellknown.HIERARCHY,),
        tree=True,
    ),
    Wish(
        "capacity-card",
        f"annotation {wellknown.CARD_QUOTA}",
        "it may use any number of cards",
        (wellknown.CARD_QUOTA,),
    ),
)

NUMA = Wish(
    "numa-aware",
    f"annotation {wellknown.NUMA_POLICY} of its pods",
    "their cpus may be on several NUMA nodes",
)
SOFT = Wish("network-topology-aware", "spec.networkTopology with mode soft", "its pods may be far apart")

TOPOLOGY = Wish(
    "task-topology",
    "its task topology",
    "its tasks are placed without regard to one another",
    wellknown.TASK_TOPOLOGY,
)

OF_GROUPS = (
    NUMA,
    SOFT,
    TOPOLOGY,
    Wish("sla", f"annotation {wellknown.WAITING_TIME[0]}", "it may wait longer", wellknown.WAITING_TIME),
    Wish(
        "tdm",
        f"annotation {wellknown.REVOCABLE_ZONE}",
        "its pods do not go to nodes of that zone",
        (wellknown.REVOCABLE_ZONE,),
    ),
    Wish(
        "cdp",
        f"annotation {wellknown.COOLDOWN_TIME}",
        "its pods may be evicted as soon as they run",
        (wellknown.COOLDOWN_TIME,),
    ),
    Wish(
        "capacity-card",
        f"annotation {wellknown.CARD_REQUEST}",
        "its cards count for no quota",
        (wellknown.CARD_REQUEST,),
    ),
)
"""Wishes of pod groups, in the order of their bits."""

TASK_TOPOLOGY_BIT = 1 << OF_GROUPS.index(TOPOLOGY)
NUMA_BIT, SOFT_BIT = 1 << OF_GROUPS.index(NUMA), 1 << OF_GROUPS.index(SOFT)


def wishes_of_queue(annotations: Mapping[str, str], spec: QueueSpec | None) -> tuple[Wish, ...]:
    """The wishes of a queue."""
    affinity = spec.affinity if spec else None
    terms = (affinity.node_group_affinity, affinity.node_group_anti_affinity) if affinity is not None else ()
    grouped = any(term is not None and (term.required or term.preferred) for term in terms)
    named = (wish for wish in OF_QUEUES if any(annotations.get(key) for key in wish.keys))
    return (*((NODE_GROUPS,) if grouped else ()), *named)


def wishes_of_group(
    annotations: Mapping[str, str], labels: Mapping[str, str], topologies: Iterable[NetworkTopology | None]
) -> int:
    """Bits for the wishes in a pod group itself."""
    bits = SOFT_BIT if any(wish is not None and wish.mode == "soft" for wish in topologies) else 0
    for number, wish in enumerate(OF_GROUPS):
        if any(annotations.get(key) or labels.get(key) for key in wish.keys):
            bits |= 1 << number
    return bits


def wants_numa(annotations: Mapping[str, str]) -> bool:
    """Return True if a pod requests its CPUs on certain NUMA nodes."""
    return annotations.get(wellknown.NUMA_POLICY, "none") not in ("", "none")
