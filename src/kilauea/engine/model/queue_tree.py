"""The tree of queues by `spec.parent`, under the queue `root`.

A queue without a path to the root is left out with all its descendants and reported as a fault: its parent does not
exist, or it is its own ancestor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.model.queues import Queue


class TreeFault(NamedTuple):
    """The reason why a queue is left out of the tree: a code (`ParentNotFound`, `ParentCycle`), and a message."""

    reason: str
    message: str


@dataclass
class QueueTree:
    """The children and parents of queues.

    Attributes:
        ancestors: by queue, its ancestors from the root to the parent; only for queues with a path to the root.
        children: by queue, the names of its children, in order.
        faults: by queue, the reason why it is left out.
    """

    ancestors: dict[str, tuple[Queue, ...]] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    faults: dict[str, TreeFault] = field(default_factory=dict)

    @cached_property
    def below(self) -> dict[str, list[str]]:
        """By queue of the tree: the queue and all its descendants."""
        below = {name: [name] for name in self.ancestors}
        for name, way in self.ancestors.items():
            for ancestor in way:
                below[ancestor.name].append(name)
        return below

    def is_leaf(self, name: str) -> bool:
        """Return True if a queue has no children."""
        return not self.children.get(name)

    def way_up(self, queue: Queue) -> Iterator[Queue]:
        """The queue, its parent, and so on up to the root."""
        yield queue
        yield from reversed(self.ancestors.get(queue.name, ()))

    def common_level(self, a: str, b: str) -> int:
        """Index of the last equal entry of both lists of ancestors; 0 if only the root is shared, or nothing."""
        level = 0
        for index, (x, y) in enumerate(zip(self.ancestors.get(a, ()), self.ancestors.get(b, ()), strict=False)):
            if x is not y:
                break
            level = index
        return level

    def from_root(self) -> Iterator[str]:
        """All queues of the tree, every parent before its children."""
        waiting = [ROOT_QUEUE] if ROOT_QUEUE in self.ancestors else []
        for name in waiting:
            yield name
            waiting.extend(self.children.get(name, ()))


def build_queue_tree(queues: Mapping[str, Queue]) -> QueueTree:
    """Build the tree of these queues; an empty parent means the root."""
    tree = QueueTree()
    for name in sorted(queues):
        way, fault = _way_to_root(name, queues)
        if fault is not None:
            tree.faults[name] = fault
            continue
        tree.ancestors[name] = tuple(queues[n] for n in way)
        if way:
            tree.children.setdefault(way[-1], []).append(name)
    return tree


def _way_to_root(name: str, queues: Mapping[str, Queue]) -> tuple[list[str], TreeFault | None]:
    """Ancestors from the root to the parent, or the reason why there is no path."""
    way: list[str] = []
    at = name
    while at != ROOT_QUEUE:
        parent = queues[at].parent or ROOT_QUEUE
        if parent not in queues:
            return [], TreeFault("ParentNotFound", f"the queue {at} has invalid parent queue {parent}")
        if parent in way or parent == name:
            return [], TreeFault("ParentCycle", f"cycle detected in queue hierarchy for queue {parent}")
        way.append(parent)
        at = parent
    return way[::-1], None
