"""Scores by node metrics, cached for all shapes with the same relevant requests.

Pods with the same cpu and memory may differ in much that these scores do not depend on: cards, claims, volumes. Each of
their shapes has a separate evaluation, but the scores of a node that changed are computed once for all of them. As pods
fill up nodes, the same figures recur, so scores are also cached by figures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import NodeScorer
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape

MOST_KNOWN = 4096
"""Maximum number of distinct node figures with cached scores."""


class FigureScores:
    """The sums of some scores for all nodes.

    Attributes:
        values: (N,) the sums.
        seen: the part of the table's list of changes that they include; -1 initially.
    """

    __slots__ = ("__weakref__", "_figures", "_known", "_nodes", "seen", "values")

    def __init__(self, nodes: NodeTable, figures: NDArray[np.intp] | None) -> None:
        """Start without scores; `figures` are the rows of the table's block that decide, None for all."""
        self._nodes = nodes
        self._figures = slice(None) if figures is None else figures[:, None]
        self._known: dict[bytes, float] = {}
        """By the figures of a node."""
        self.values: NDArray[np.float64] = np.zeros(len(nodes))
        self.seen = -1

    def note(self, rows: NDArray[np.intp] | None, scores: NDArray[np.float64]) -> None:
        """Set the scores of all nodes, or of those in some rows, if only they changed."""
        self.values[slice(None) if rows is None else rows] = scores
        self.seen = len(self._nodes.changed)

    def follow(self, find: Callable[[NodeRows], NDArray[np.float64]]) -> None:
        """Compute the scores of the nodes that changed since the last update."""
        changed, known = self._nodes.changed, self._known
        unknown: dict[int, bytes] = {}
        later = list(dict.fromkeys(changed[self.seen :]))
        # One gather for all of them; in this order, the figures of a node are contiguous.
        data = self._nodes.block[self._figures, later].tobytes("F")
        size = len(data) // len(later)
        for at, row in enumerate(later):
            figures = data[at * size : (at + 1) * size]
            score = known.get(figures)
            if score is None:
                unknown[row] = figures
            else:
                self.values[row] = score
        if unknown:
            if len(known) + len(unknown) > MOST_KNOWN:
                known.clear()
            rows = np.array(list(unknown), dtype=np.intp)
            self.values[rows] = scores = find(self._nodes.select(rows))
            known.update(zip(unknown.values(), scores.tolist(), strict=True))
        self.seen = len(changed)


class SharedScores:
    """Provides the scores that shapes share; those that no evaluation uses any more are freed."""

    def __init__(self, nodes: NodeTable) -> None:
        """Start without scores."""
        self._nodes = nodes
        self._known: WeakValueDictionary[Hashable, FigureScores] = WeakValueDictionary()

    def of(self, scorers: Sequence[NodeScorer], shape: TaskShape) -> FigureScores:
        """The sums of some scores for a shape."""
        names = {name for scorer in scorers for name in scorer.resources or ()}
        if any(scorer.resources is None for scorer in scorers):
            return FigureScores(self._nodes, None)
        spec, named = shape.spec, sorted(names)
        asked = tuple((name, spec.requests.get(name)) for name in named)
        key = tuple(scorer.plugin for scorer in scorers), asked, spec.scored_cpu, spec.scored_memory
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = FigureScores(self._nodes, self._figures(named))
        return known

    def _figures(self, resources: Sequence[str]) -> NDArray[np.intp]:
        """The rows of the block with the figures of some resources, and with those for scores only."""
        axis = self._nodes.axis
        rows = [axis.rows[name] for name in resources if name in axis.rows]
        parts = [part * len(axis) + row for part in range(5) for row in rows]
        return np.array([*parts, 5 * len(axis), 5 * len(axis) + 1], dtype=np.intp)
