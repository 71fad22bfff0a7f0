"""The nodes that can reach a volume, as rows of the node table.

Most volumes are for one node, one zone or all nodes. Rows are therefore cached by the values of a label, instead of a
mask over all nodes for each volume. As in Kubernetes, the terms of a volume match the labels of a node, not its name.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import NodeTerm, Requirement, node_term_matches
from kilauea.engine.evaluation import matching
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.volumes import NodeDrivers, Volume

Rows = NDArray[np.intp]

FEW = 64
"""Up to this many nodes are checked one by one."""


class Reach:
    """Rows by terms, cached for one session."""

    def __init__(self, table: NodeTable, drivers: Mapping[str, NodeDrivers]) -> None:
        self._table = table
        self._drivers = drivers
        self._migrated: dict[str, NDArray[np.bool_]] = {}
        self._mixed: dict[tuple[str, tuple[NodeTerm, ...] | None, tuple[NodeTerm, ...] | None], Rows | None] = {}
        self._known: dict[tuple[NodeTerm, ...], Rows | None] = {}
        self._values: dict[str, dict[str, Rows]] = {}

    def rows_of(self, volume: Volume) -> Rows | None:
        """Ascending rows of the nodes that reach a volume; None for all nodes.

        An in-tree volume is reached through its CSI driver on nodes where the plugin was migrated to it.
        """
        if volume.csi_terms == volume.terms or not self._served(volume.plugin).any():
            return self.rows(volume.terms)
        key = (volume.plugin, volume.terms, volume.csi_terms)
        if key not in self._mixed:
            everywhere = np.ones(len(self._table), dtype=bool)
            plain, driven = (self.mask(terms) for terms in key[1:])
            plain, driven = (everywhere if mask is None else mask for mask in (plain, driven))
            rows = np.flatnonzero(np.where(self._served(volume.plugin), driven, plain))
            self._mixed[key] = None if len(rows) == len(self._table) else rows
        return self._mixed[key]

    def mask_of(self, volume: Volume) -> NDArray[np.bool_] | None:
        """(N,) the same as a mask; None for all nodes."""
        return self._as_mask(self.rows_of(volume))

    def _served(self, plugin: str) -> NDArray[np.bool_]:
        """(N,) nodes where a driver serves the volumes of an in-tree plugin."""
        if plugin not in self._migrated:
            mask = self._migrated[plugin] = np.zeros(len(self._table), dtype=bool)
            for name, of in self._drivers.items():
                if plugin in of.migrated and name in self._table.row_of:
                    mask[self._table.row_of[name]] = True
        return self._migrated[plugin]

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
        return self._as_mask(self.rows(terms))

    def _as_mask(self, rows: Rows | None) -> NDArray[np.bool_] | None:
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
