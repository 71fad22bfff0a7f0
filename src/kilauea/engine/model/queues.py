"""A queue: its limits, its guarantees, and the allocations of its jobs in the current session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from kilauea.api import wellknown
from kilauea.api.quantity import resource_amounts
from kilauea.api.scheduling import Queue as QueueObject
from kilauea.api.times import parse_time
from kilauea.engine.model.cards import card_counts
from kilauea.engine.model.claims.charges import is_of_devices
from kilauea.engine.model.node_groups import group_limits_of, node_groups_of
from kilauea.engine.model.resources import MOST_PODS, within
from kilauea.engine.model.wishes import wishes_of_queue


class Queue:
    """The fields of a queue's object, and its sums, which the session updates as tasks are placed and evicted."""

    __slots__ = (
        "allocated",
        "capability",
        "cards",
        "creation",
        "deserved",
        "devices",
        "elastic",
        "fifo",
        "figures",
        "group_limits",
        "guarantee",
        "hierarchy",
        "hierarchy_weights",
        "inqueue",
        "name",
        "node_groups",
        "parent",
        "paused",
        "pauses",
        "priority",
        "reclaimable",
        "request",
        "row",
        "state",
        "weight",
        "wishes",
    )

    def __init__(self, obj: QueueObject) -> None:
        """Read a queue's object.

        Raises:
            QuantityError, ValueError: a field cannot be read.
        """
        spec = obj.spec
        self.name = obj.metadata.name
        self.creation = parse_time(obj.metadata.creation_timestamp) if obj.metadata.creation_timestamp else 0
        self.weight = within((spec.weight if spec else None) or 1, 1, MOST_PODS)
        self.priority = (spec.priority if spec else None) or 0
        self.parent = (spec.parent if spec else None) or ""
        self.reclaimable = spec.reclaimable if spec and spec.reclaimable is not None else True
        self.state = (obj.status.state if obj.status else None) or "Open"
        self.capability = _amounts(spec.capability if spec else None)
        self.deserved = _amounts(spec.deserved if spec else None)
        self.guarantee = _amounts(spec.guarantee.resource if spec and spec.guarantee else None) or {}
        self.devices = {
            name: amount
            for name, amount in resource_amounts(spec.capability if spec else None).items()
            if is_of_devices(name) and amount >= 0
        }
        """The maximum number of devices that its pods may claim, by class."""
        self.cards = card_counts(obj.annotations, wellknown.CARD_QUOTA, f"queue/{self.name}")
        """Accelerator cards by model that the queue may use."""
        self.node_groups = node_groups_of(spec.affinity if spec else None)
        """Node groups that the queue uses or avoids; None if it does not name any."""
        self.group_limits = group_limits_of(obj.annotations)
        """The maximum amounts that it may use in each group."""
        self.hierarchy, self.hierarchy_weights = path_of(obj.annotations)
        """Names and weights from the root to the queue, in the tree that annotations describe."""
        self.fifo = spec is not None and spec.dequeue_strategy == "fifo"
        """True if a job that cannot start blocks those behind it."""
        self.wishes = wishes_of_queue(obj.annotations, spec)
        """Fields of the queue that need plugins."""
        self.pauses = wellknown.is_paused(obj.annotations)
        """True if it is paused, with the queues below it."""
        self.paused = ""
        """The name of the queue that pauses it, itself or one above it; empty if none does."""
        self.row = -1
        self.allocated: dict[str, float] = {}
        self.request: dict[str, float] = {}
        self.elastic: dict[str, float] = {}
        self.inqueue: dict[str, float] = {}
        self.figures = QueueFigures()

    @property
    def open(self) -> bool:
        """True if the queue accepts jobs."""
        return self.state == "Open"


def settle_pauses(queues: Mapping[str, Queue]) -> None:
    """Set for each queue the nearest one on its path to the root that is paused."""
    any_pauses = any(queue.pauses for queue in queues.values())
    for name, queue in queues.items():
        queue.paused = next(pausing(name, queues), "") if any_pauses else ""


def pausing(name: str, queues: Mapping[str, Queue]) -> Iterator[str]:
    """Yield the queues on the path from a queue to the root that are paused; the path may be a cycle."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        seen.add(name)
        if queues[name].pauses:
            yield name
        name = queues[name].parent or wellknown.ROOT_QUEUE


class QueueFigures:
    """Amounts that the queue plugin computes for a queue in this session; None without a plugin."""

    __slots__ = ("ancestors", "capability", "deserved", "devices", "real_capability", "reclaim_level", "share")

    def __init__(self) -> None:
        self.capability: dict[str, float] | None = None
        self.deserved: dict[str, float] | None = None
        self.real_capability: dict[str, float] | None = None
        self.share: float | None = None
        self.devices: dict[str, int] = {}
        """Devices that its pods hold, by class, if the plugin counts them."""
        self.ancestors: tuple[Queue, ...] = ()
        """Ancestors from the parent to the root, if the plugin has a tree."""
        self.reclaim_level = 0
        """Number of ancestors that are compared when the queue reclaims."""


def _amounts(resources: dict[str, str | int | float] | None) -> dict[str, float] | None:
    """Return the amounts without devices, which have separate limits (`kilauea.engine.queues.device_quota`)."""
    if not resources:
        return None
    return {name: amount for name, amount in resource_amounts(resources).items() if not is_of_devices(name)}


def path_of(annotations: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return names and weights below the root of `root/eng/prod` and `1/2/8`; both empty without annotations.

    A path that does not begin with `root` is placed below it, as the admission webhook does. A weight that is missing,
    not a number or less than 1 becomes 1.
    """
    names = annotations.get(wellknown.HIERARCHY, "").split("/")
    weights = annotations.get(wellknown.HIERARCHY_WEIGHTS, "").split("/")
    rooted = names[0] == wellknown.ROOT_QUEUE
    pairs = list(zip_longest(names, weights[: len(names)], fillvalue=""))[1 if rooted else 0 :]
    named = [(name, _weight(weight)) for name, weight in pairs if name]
    return tuple(name for name, _ in named), tuple(weight for _, weight in named)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if math.isfinite(weight) and weight >= 1 else 1.0
