"""Preferred pod affinity and anti-affinity: a pod's own preferences, and those of running pods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.neighbours import Wanted
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.session import Session


class PodAffinityScore:
    """Scores nodes by the pods in their topology domains."""

    def __init__(self, session: Session) -> None:
        self._neighbours = session.neighbours

    def applies(self, shape: TaskShape) -> bool:
        """Return True if any term concerns this pod."""
        if not self._neighbours.needed:
            return False
        return bool(shape.spec.preferred_pods or self._neighbours.around(shape.label_class).wishes)

    def score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64] | None:
        """(n,) from 0 to 100 between the lowest and the highest sum of weights; None if there is no preference."""
        if not self._neighbours.needed:
            return None
        wishes = self._neighbours.around(shape.label_class).wishes
        if not (shape.spec.preferred_pods or wishes):
            return None
        table = nodes.table
        raw = np.zeros(len(nodes), dtype=np.int64)
        for weight, term in shape.spec.preferred_pods:
            count = self._neighbours.matching(Wanted((term,)))
            raw += weight * self._in_domain(nodes, term.topology_key, count.domain(table, term.topology_key))
        for key, weights in wishes.items():
            raw += self._in_domain(nodes, key, weights)
        low, high = int(raw.min()), int(raw.max())
        if low == high:
            return np.zeros(len(nodes), dtype=np.int64)
        scaled: NDArray[np.int64] = (100 * ((raw - low) / (high - low))).astype(np.int64)
        return scaled

    def _in_domain(self, nodes: NodeRows, key: str, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n,) the sum for the domain of each node."""
        return nodes.take(nodes.table.label(key).spread(sums))
