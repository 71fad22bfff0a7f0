"""The nodes that reach a volume, as rows of the node table.

Most volumes are for one node, one zone or all nodes. Rows found by the values of a label are therefore kept, instead of
a mask over all nodes for each volume. As in Kubernetes, the terms of a volume see the labels of a node, not its name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import NodeTerm, Requirement, node_term_matches
from kilauea.engine.evaluation import matching
from kilauea.engine.model.nodes import NodeTable

Rows = NDArray[np.intp]

FEW = 64
"""So many nodes are looked at one by one."""


class Reach:
    """Rows by terms, for the length of a session."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[tuple[NodeTerm, ...], Rows | None] = {}
        self._values: dict[str, dict[str, Rows]] = {}

    def rows(self, terms: tuple[NodeTerm, ...] | None) -> Rows | None:
        """Ascending rows of the nodes for which any of the terms holds; None for all nodes."""
        if terms is None:
            return None
        if terms not in self._known:
            found = [self._term(term) for term in terms]
            rows = found[0] if len(found) == 1 else np.unique(np.concatenate([*found, np.empty(0, dtype=np.intp)]))
            self._known[terms] = None if len(rows) == len(self._table) else rows
        return self._known[terms]

    def mask(self, terms: tuple[NodeTerm, ...] | None) -> NDArray[np.bool_] | None:
        """(N,) the same as a mask; None for all nodes."""
        rows = self.rows(terms)
        if rows is None:
            return None
        out = np.zeros(len(self._table), dtype=bool)
        out[rows] = True
        return out

    def _term(self, term: NodeTerm) -> Rows:
        named = [r for r in term.expressions if r.operator == "In"]
        narrowest = min((self._having(r) for r in named), key=len, default=None)
        if narrowest is not None and len(term.expressions) == 1 and not term.fields:
            return narrowest
        if narrowest is not None and len(narrowest) <= FEW:
            facts = self._table.facts
            return np.array([r for r in narrowest if node_term_matches(term, facts[r].labels, "")], dtype=np.intp)
        if term.fields and not node_term_matches(NodeTerm((), term.fields), {}, ""):
            return np.empty(0, dtype=np.intp)
        if term.fields and not term.expressions:
            return np.arange(len(self._table))
        return np.flatnonzero(matching.matches_term(self._table, NodeTerm(term.expressions, ())))

    def _having(self, requirement: Requirement) -> Rows:
        """Rows of the nodes whose label has one of the values."""
        values = self._values.get(requirement.key)
        if values is None:
            column = self._table.label(requirement.key)
            order = np.argsort(column.ids, kind="stable")
            cuts = np.searchsorted(column.ids[order], np.arange(len(column.values) + 1))
            parts = np.split(order, cuts)[1:-1]
            values = self._values[requirement.key] = dict(zip(column.values, parts, strict=True))
        parts = [values[v] for v in requirement.values if v in values]
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate([*parts, np.empty(0, dtype=np.intp)]))
