"""Topology spread constraints with `whenUnsatisfiable: DoNotSchedule`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine import matching
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.neighbours import Wanted
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import PodTerm, Spread
from kilauea.engine.session import Session

SKEW = Rejection("PodTopologySpread", "node(s) didn't match pod topology spread constraints")
NO_LABEL = Rejection(
    "PodTopologySpreadLabel",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    hopeless=True,
)


class TopologySpreadFilter:
    """Keeps the numbers of matching pods in the domains of a label within the allowed skew."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._neighbours = session.neighbours

    def register(self, plugin: str) -> None:
        """Take part in the session, if any pod selects others."""
        if self._neighbours.needed:
            self._session.add_predicate(
                plugin,
                self._codes,
                [SKEW, NO_LABEL],
                scope=Scope.CLUSTER,
                applies=lambda shape: any(spread.hard for spread in shape.spec.spread),
            )

    def _codes(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        table = nodes.table
        codes = np.zeros(len(table), dtype=np.int64)
        hard = tuple(spread for spread in shape.spec.spread if spread.hard)
        keys = tuple(spread.topology_key for spread in hard)
        for spread in reversed(hard):
            ids = table.label(spread.topology_key).ids
            codes[self._too_many(shape, table, spread, keys)] = 1
            codes[ids < 0] = 2
        taken: NDArray[np.int64] = codes if nodes.rows is None else codes[nodes.rows]
        return taken

    def _too_many(self, shape: TaskShape, table: NodeTable, spread: Spread, keys: tuple[str, ...]) -> NDArray[np.bool_]:
        """(N,) nodes where one more pod makes the skew too large (spec of the node plugins, 1.3)."""
        term = PodTerm((shape.label_class.namespace,), None, spread.selector, spread.topology_key)
        wanted = Wanted((term,), terminating_too=False)
        ids = table.label(spread.topology_key).ids
        counted = matching.counted_nodes(table, shape.spec, spread, keys)
        domains = len(table.label(spread.topology_key).values)
        # An empty selector counts no pods here, though it matches all of them elsewhere.
        by_node = self._neighbours.matching(wanted).by_node if spread.selector else np.zeros(len(table), dtype=np.int64)
        rows = (ids >= 0) if counted is None else counted & (ids >= 0)
        count = np.zeros(domains + 1, dtype=np.int64)
        np.add.at(count, ids[rows], by_node[rows])
        known = np.zeros(domains, dtype=bool)
        known[ids[rows]] = True
        found = int(known.sum())
        if found < spread.min_domains:
            least = 0
        elif not found:
            return np.zeros(len(table), dtype=bool)
        else:
            least = int(count[:-1][known].min())
        mine = int(self._neighbours.matches(wanted, shape.label_class)) if spread.selector is not None else 0
        return count[ids] + mine - least > spread.max_skew
