"""The fraction of the free resources that the pods of the trace cannot use.

The measure is that of Weng et al. (Beware of Fragmentation, USENIX ATC 2023) for whole cards: a pod drawn from the
trace finds the free cards of a node useless if it does not fit there. The share of useless cards, over all nodes and
all pods that request cards, is the fragmentation. Where no pod requests cards, cores take their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kilauea.api.quantity import resource_amounts
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.simulator.replay.trace import TraceJob

MOST_SHAPES = 64
"""Maximum number of kinds of pods that count, the most frequent ones."""


class Fragmentation:
    """The fragmentation of a cluster with regard to the pods of a trace."""

    def __init__(self, jobs: Iterable[TraceJob], offered: Sequence[str]) -> None:
        counted: Counter[tuple[tuple[str, int], ...]] = Counter()
        asked: Counter[str] = Counter()
        for job in jobs:
            for task in job.tasks:
                amounts = resource_amounts(dict(task.requests))
                counted[tuple(sorted(amounts.items()))] += task.replicas
                for name in amounts:
                    asked[name] += task.replicas
        cards = [name for name in offered if name not in (CPU, MEMORY) and "/" in name and asked[name]]
        self.resource = max(cards, key=lambda name: (asked[name], name), default=CPU)
        """The measured resource."""
        wanted = [(dict(shape), count) for shape, count in counted.items() if dict(shape).get(self.resource)]
        wanted.sort(key=lambda each: (-each[1], sorted(each[0].items())))
        self._shapes: list[Mapping[str, int]] = [shape for shape, _ in wanted[:MOST_SHAPES]]
        names = sorted({name for shape in self._shapes for name in shape})
        self._amounts = {name: np.array([[shape.get(name, 0)] for shape in self._shapes]) for name in names}
        """By resource: (S, 1) what each kind of pod requests of it."""
        counts = np.array([count for _, count in wanted[:MOST_SHAPES]], dtype=float)
        self._weights = counts / counts.sum() if counts.size else counts

    def of(self, nodes: NodeTable) -> float | None:
        """Return the unusable fraction of the free resources, 0 to 1; None if nothing is free."""
        rows = nodes.axis.rows
        if not self._shapes or self.resource not in rows or not len(nodes):
            return None
        idle = np.maximum(nodes.allocatable - nodes.used, 0)
        free = idle[rows[self.resource]]
        total = int(free.sum())
        if not total:
            return None
        fits = np.ones((len(self._shapes), len(nodes)), dtype=bool)
        for name, amounts in self._amounts.items():
            fits &= idle[rows[name]] >= amounts if name in rows else amounts <= 0
        useless = 0.0
        for weight, amount in zip(self._weights, (~fits) @ free, strict=True):
            useless += weight * float(amount)
        return useless / total
