"""Required pod affinity and anti-affinity, of the pod itself and of running pods.

Terminating pods repel others until they are gone. A pod may still be nominated to such a node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.neighbours import MatchCount, Wanted
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.session import Session

AFFINITY = Rejection("PodAffinity", "node(s) didn't match pod affinity rules", hopeless=True)
ANTI_AFFINITY = Rejection("PodAntiAffinity", "node(s) didn't match pod anti-affinity rules")
EXISTING = Rejection("ExistingPodsAntiAffinity", "node(s) didn't satisfy existing pods anti-affinity rules")


class PodAffinityFilter:
    """Filters nodes by the pods in their topology domains."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._neighbours = session.neighbours

    def register(self, plugin: str) -> None:
        """Register with the session, if any pod selects others."""
        if self._neighbours.needed:
            rejections = [AFFINITY, ANTI_AFFINITY, EXISTING]
            scope = Scope.CLUSTER
            self._session.add_predicate(plugin, self._codes, rejections, scope=scope, room=self._not_repelled_now)

    def _codes(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64] | None:
        table = nodes.table
        around = self._neighbours.around(shape.label_class)
        if not (shape.spec.affinity or shape.spec.anti_affinity or around.repelling):
            return None
        codes = np.zeros(len(table), dtype=np.int64)
        for key, there in around.repelling.items():
            ending = around.ending.get(key)
            staying = there > (0 if ending is None else ending)
            codes[table.label(key).spread(staying)] = 3
        for term in shape.spec.anti_affinity:
            count = self._neighbours.matching(Wanted((term,), terminating_too=False))
            codes[here(table, term.topology_key, count)] = 2
        if shape.spec.affinity:
            codes[~self._attracted(shape, table)] = 1
        taken: NDArray[np.int64] = codes if nodes.rows is None else codes[nodes.rows]
        return taken

    def _not_repelled_now(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
        """Nodes whose domains hold no pod that repels the shape or is repelled by it, including terminating pods."""
        table, repelling = nodes.table, self._neighbours.around(shape.label_class).repelling
        if not (shape.spec.anti_affinity or repelling):
            return None
        free = np.ones(len(table), dtype=bool)
        for key, there in repelling.items():
            free &= ~table.label(key).spread(there > 0)
        for term in shape.spec.anti_affinity:
            free &= ~here(table, term.topology_key, self._neighbours.matching(Wanted((term,))))
        return nodes.take(free)

    def _attracted(self, shape: TaskShape, table: NodeTable) -> NDArray[np.bool_]:
        """Nodes whose domains hold, for every term, a pod that matches all terms.

        The first pod of a group with affinity to itself may run on any node that has the topology labels.
        """
        terms = shape.spec.affinity
        wanted = Wanted(terms)
        count = self._neighbours.matching(wanted)
        known = np.ones(len(table), dtype=bool)
        near = np.ones(len(table), dtype=bool)
        anywhere = False
        for term in terms:
            if not table.label(term.topology_key).everywhere:
                known &= table.label(term.topology_key).ids >= 0
            near &= here(table, term.topology_key, count)
            anywhere = anywhere or bool(count.domain(table, term.topology_key).any())
        if not anywhere and self._neighbours.matches(wanted, shape.label_class):
            return known
        return near


def here(table: NodeTable, topology_key: str, count: MatchCount) -> NDArray[np.bool_]:
    """(N,) nodes in a domain that holds any of the counted pods."""
    return table.label(topology_key).spread(count.domain(table, topology_key) > 0)
