"""Topology spread constraints with `whenUnsatisfiable: DoNotSchedule`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import matching
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.neighbours import Wanted
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import PodTerm, Spread
from kilauea.engine.session import Session

SKEW = Rejection("PodTopologySpread", "node(s) didn't match pod topology spread constraints")
NO_LABEL = Rejection(
    "PodTopologySpreadLabel",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    hopeless=True,
)


class TopologySpreadFilter:
    """Keeps the numbers of matching pods in topology domains within the allowed skew."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._neighbours = session.neighbours

    def register(self, plugin: str) -> None:
        """Register with the session, if any pod selects others."""
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
            codes[self._too_many(shape, table, spread, keys)] = 1
            column = table.label(spread.topology_key)
            if not column.everywhere:
                codes[column.ids < 0] = 2
        taken: NDArray[np.int64] = codes if nodes.rows is None else codes[nodes.rows]
        return taken

    def _too_many(self, shape: TaskShape, table: NodeTable, spread: Spread, keys: tuple[str, ...]) -> NDArray[np.bool_]:
        """(N,) nodes where one more pod would exceed the maximum skew (spec of the node plugins, 1.3)."""
        term = PodTerm((shape.label_class.namespace,), None, spread.selector, spread.topology_key)
        wanted = Wanted((term,), terminating_too=False)
        column = table.label(spread.topology_key)
        count, known = self._by_domain(shape, table, spread, keys, wanted)
        found = len(known)
        if found >= spread.min_domains and not found:
            return np.zeros(len(table), dtype=bool)
        least = 0 if found < spread.min_domains else int(known.min())
        mine = int(self._neighbours.matches(wanted, shape.label_class))
        return column.spread(count + (mine - least) > spread.max_skew)

    def _by_domain(
        self, shape: TaskShape, table: NodeTable, spread: Spread, keys: tuple[str, ...], wanted: Wanted
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(D,) matching pods in each domain, and the same for only those domains that have an eligible node."""
        column = table.label(spread.topology_key)
        counted = matching.counted_nodes(table, shape.spec, spread, keys)
        if not spread.selector:
            # An empty selector matches no pods here, though it matches all pods elsewhere.
            by_node = np.zeros(len(table), dtype=np.int64)
        elif counted is None:
            count = self._neighbours.matching(wanted).domain(table, spread.topology_key)
            return count, count
        else:
            by_node = self._neighbours.matching(wanted).by_node
        rows = column.ids >= 0 if counted is None else counted & (column.ids >= 0)
        count = np.zeros(len(column.values), dtype=np.int64)
        np.add.at(count, column.ids[rows], by_node[rows])
        known = np.zeros(len(column.values), dtype=bool)
        known[column.ids[rows]] = True
        return count, count[known]
