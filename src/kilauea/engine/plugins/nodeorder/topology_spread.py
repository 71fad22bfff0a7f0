"""Preferred topology spread: constraints with `ScheduleAnyway`, and the cluster's default.

A pod without any constraint that a Service selects, or a workload owns, is spread by default: over nodes with a skew of
3, over zones with one of 5. Spec of the node plugins, 2.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import Selector, matches
from kilauea.api.wellknown import HOSTNAME, ZONE
from kilauea.engine.evaluation import matching
from kilauea.engine.model.neighbours import Wanted
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import PodTerm, Spread
from kilauea.engine.session import Session

DEFAULT_SKEWS = ((HOSTNAME, 3), (ZONE, 5))


class TopologySpreadScore:
    """Scores nodes by the number of matching pods in their topology domains."""

    def __init__(self, session: Session) -> None:
        self.table = session.nodes
        self._neighbours = session.neighbours
        self._spreaders = [pair for of_kind in session.state.spreaders.values() for pair in of_kind.values()]
        self._constraints: dict[TaskShape, tuple[tuple[Spread, ...], bool]] = {}

    def applies(self, shape: TaskShape) -> bool:
        """Return True if the pod should be spread."""
        return self._neighbours.needed and bool(self._of(shape)[0])

    def _of(self, shape: TaskShape) -> tuple[tuple[Spread, ...], bool]:
        """Soft constraints, and True if the pod declares them itself."""
        known = self._constraints.get(shape)
        if known is None:
            declared = shape.spec.spread
            soft = tuple(s for s in declared if not s.hard) if declared else self._defaults(shape)
            known = self._constraints[shape] = (soft, bool(declared))
        return known

    def _defaults(self, shape: TaskShape) -> tuple[Spread, ...]:
        pod = shape.label_class
        merged = {
            requirement
            for namespace, selector in self._spreaders
            if namespace == pod.namespace and matches(selector, pod.labels)
            for requirement in selector
        }
        selector: Selector = tuple(sorted(merged))
        if not selector:
            return ()
        return tuple(Spread(skew, key, False, selector, 1, True, False) for key, skew in DEFAULT_SKEWS)

    def score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64] | None:
        """(n,) from 0 to 100, 100 for the emptiest domain; None if the pod should not be spread."""
        if not self._neighbours.needed:
            return None
        constraints, declared = self._of(shape)
        if not constraints:
            return None
        keys = tuple(c.topology_key for c in constraints)
        judged = np.ones(len(nodes), dtype=bool)
        if declared:
            for key in keys:
                judged &= nodes.take(self.table.label(key).ids) >= 0
        raw = np.zeros(len(nodes))
        for constraint in constraints:
            raw += self._raw(shape, nodes, constraint, keys if declared else (), judged)
        return self._normalise(np.floor(raw + 0.5).astype(np.int64), judged)

    def _raw(
        self, shape: TaskShape, nodes: NodeRows, spread: Spread, keys: tuple[str, ...], judged: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """(n,) the contribution of one constraint."""
        term = PodTerm((shape.label_class.namespace,), None, spread.selector, spread.topology_key)
        # An empty selector matches no pods here, although it matches all pods elsewhere.
        by_node = np.zeros(len(self.table), dtype=np.int64)
        if spread.selector:
            by_node = self._neighbours.matching(Wanted((term,), terminating_too=False)).by_node
        ids = self.table.label(spread.topology_key).ids
        mine = nodes.take(ids)
        here = judged & (mine >= 0)
        if spread.topology_key == HOSTNAME:
            size = int(judged.sum())
            found = nodes.take(by_node)
        else:
            size = len(np.unique(mine[judged]))
            counted = matching.counted_nodes(self.table, shape.spec, spread, keys)
            rows = ids >= 0 if counted is None else counted & (ids >= 0)
            by_domain = np.zeros(len(self.table.label(spread.topology_key).values) + 1, dtype=np.int64)
            np.add.at(by_domain, ids[rows], by_node[rows])
            found = by_domain[mine]
        part = found * np.log(size + 2) + (spread.max_skew - 1)
        return np.where(here, part, 0.0)

    def _normalise(self, raw: NDArray[np.int64], judged: NDArray[np.bool_]) -> NDArray[np.int64]:
        out = np.zeros(len(raw), dtype=np.int64)
        if not judged.any():
            return out
        low, high = int(raw[judged].min()), int(raw[judged].max())
        out[judged] = 100 if high == 0 else 100 * (high + low - raw[judged]) // high
        return out
