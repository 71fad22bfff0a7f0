"""Preferred pod affinity and anti-affinity: the pod's own wishes, and those of pods that run already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.neighbours import MatchCount, Wanted
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.session import Session


class PodAffinityScore:
    """Scores nodes by the pods in their topology domains."""

    def __init__(self, session: Session) -> None:
        self._neighbours = session.neighbours

    def applies(self, shape: TaskShape) -> bool:
        """Return True if there is any wish about this pod."""
        if not self._neighbours.needed:
            return False
        return bool(shape.spec.preferred_pods) or any(
            carried.weight for carried, _ in self._neighbours.carriers(shape.label_class)
        )

    def score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64] | None:
        """(n,) from 0 to 100 between the lowest and the highest sum of weights; None if there is no preference."""
        if not self._neighbours.needed:
            return None
        wishes = [(w, t.topology_key, self._neighbours.matching(Wanted((t,)))) for w, t in shape.spec.preferred_pods]
        for carried, count in self._neighbours.carriers(shape.label_class):
            if carried.weight:
                wishes.append((carried.weight, carried.term.topology_key, count))
        if not wishes:
            return None
        raw = np.zeros(len(nodes), dtype=np.int64)
        for weight, key, count in wishes:
            raw += weight * self._in_domain(nodes, key, count)
        low, high = int(raw.min()), int(raw.max())
        if low == high:
            return np.zeros(len(nodes), dtype=np.int64)
        scaled: NDArray[np.int64] = (100 * ((raw - low) / (high - low))).astype(np.int64)
        return scaled

    def _in_domain(self, nodes: NodeRows, key: str, count: MatchCount) -> NDArray[np.int64]:
        """(n,) counted pods in the domain of each node."""
        return nodes.take(nodes.table.label(key).spread(count.domain(nodes.table, key)))
