"""Counts of the pods that match a selector, by node and by topology domain, kept up to date within a session.

Inter-pod affinity, anti-affinity and topology spread need the same two counts, for predicates and for scores: the
placed pods that match a selector (`matching`), and the terms of placed pods that match a pod (`around`). Both are
counted once, at the first use, and then updated with later placements. In a cluster where no pod selects others,
nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import matches
from kilauea.engine.model.moves import FEW, Moves
from kilauea.engine.model.namespaces import Namespaces
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.placed_terms import Around, PlacedTerms
from kilauea.engine.model.placements import LabelClass, LabelClasses, Placements
from kilauea.engine.model.task_specs import PodTerm
from kilauea.engine.model.tasks import Task


class Wanted(NamedTuple):
    """Pods to count: those that match every term, with or without pods that are being deleted."""

    terms: tuple[PodTerm, ...]
    terminating_too: bool = True


class MatchCount:
    """Placed pods that match `Wanted`: by node, and by domain of the labels used so far.

    Args:
        by_node: (N,) number of pods.
        wanted: (C + 1,) the label classes that match.
        seen: number of moves that are counted.
    """

    def __init__(self, by_node: NDArray[np.int64], wanted: NDArray[np.bool_], seen: int) -> None:
        self.by_node = by_node
        """(N,) number of pods."""
        self._wanted = np.packbits(wanted).tobytes()
        self._seen = seen
        self._by_domain: dict[str, NDArray[np.int64]] = {}

    def domain(self, nodes: NodeTable, key: str) -> NDArray[np.int64]:
        """(D,) number of pods for each value of a label, in the order of `nodes.label(key).values`."""
        count = self._by_domain.get(key)
        if count is None:
            column = nodes.label(key)
            here = column.ids >= 0
            count = np.zeros(len(column.values), dtype=np.int64)
            np.add.at(count, column.ids[here], self.by_node[here])
            self._by_domain[key] = count
        return count

    def follow(self, nodes: NodeTable, moves: Moves) -> None:
        """Count the pods that moved since the last update."""
        seen, self._seen = self._seen, len(moves)
        if self._seen - seen <= FEW:
            for label_class, node, by in moves.few_since(seen):
                if self._wanted[label_class >> 3] & (128 >> (label_class & 7)):
                    self._change(nodes, node, by)
            return
        classes, rows, by_each = moves.since(seen)
        bits = np.frombuffer(self._wanted, dtype=np.uint8)[classes >> 3]
        for at in np.flatnonzero(bits & (128 >> (classes & 7))).tolist():
            self._change(nodes, int(rows[at]), int(by_each[at]))

    def _change(self, nodes: NodeTable, node: int, by: int) -> None:
        self.by_node[node] += by
        for key, count in self._by_domain.items():
            domain = nodes.label(key).ids[node]
            if domain >= 0:
                count[domain] += by


class Neighbours:
    """Counts of placed pods for one session."""

    def __init__(
        self,
        nodes: NodeTable,
        placements: Placements,
        classes: LabelClasses,
        namespaces: Namespaces,
        carriers: Iterable[Task],
        needed: bool,
    ) -> None:
        self._nodes = nodes
        self._placements = placements
        self._classes = classes
        self.namespaces = namespaces
        self.needed = needed
        """True if any pod of the cluster selects others; otherwise nothing here is used."""
        self._matching: dict[Wanted, MatchCount] = {}
        self._moves = Moves()
        self._carriers = carriers
        self._terms: PlacedTerms | None = None

    # --- queries

    def matching(self, wanted: Wanted) -> MatchCount:
        """Placed pods that match."""
        count = self._matching.get(wanted)
        if count is None:
            mask = self._classes_of(wanted.terms)
            by_node = self._placements.count(mask, len(self._nodes), terminating_too=wanted.terminating_too)
            count = self._matching[wanted] = MatchCount(by_node, mask, len(self._moves))
        else:
            count.follow(self._nodes, self._moves)
        return count

    def matches(self, wanted: Wanted, pod: LabelClass) -> bool:
        """Return True if every term selects a pod with this namespace and these labels."""
        return all(self._matches(term, pod) for term in wanted.terms)

    def around(self, pod: LabelClass) -> Around:
        """The sums of the terms of placed pods that match this pod; terms are collected at the first use."""
        if self._terms is None:
            self._terms = PlacedTerms(self._nodes, self._classes, self.namespaces)
            for task in self._carriers:
                row = int(self._placements.node[task.row])
                if row >= 0 and task.spec.carries_terms:
                    self._terms.placed(task.spec, row, 1, ending=bool(self._placements.terminating[task.row]))
        return self._terms.around(pod)

    # --- changes

    def placed(self, task: Task, node: int, by: int) -> None:
        """Record that a pod was added to a node's view (`by` 1) or removed (-1)."""
        if self._matching:
            self._moves.add(task.label_class, node, by)
        if self._terms is not None and task.spec.carries_terms:
            self._terms.placed(task.spec, node, by)

    def _classes_of(self, terms: Iterable[PodTerm]) -> NDArray[np.bool_]:
        """(C + 1,) classes that every term selects; the last entry means no class."""
        mask = np.ones(len(self._classes) + 1, dtype=bool)
        mask[-1] = False
        for term in terms:
            mask[:-1] &= self._classes.selected(term.selector)
            mask[:-1] &= self._classes.within(self._namespaces_of(term))
        return mask

    def _namespaces_of(self, term: PodTerm) -> Iterable[str]:
        if term.namespace_selector is None:
            return term.namespaces
        return [name for name in self._classes.namespaces if self.namespaces.meant(term, name, must_exist=True)]

    def _matches(self, term: PodTerm, pod: LabelClass) -> bool:
        return matches(term.selector, pod.labels) and self.namespaces.meant(term, pod.namespace, must_exist=True)
