"""The choice among feasible nodes when it depends on more than their scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import kernels
from kilauea.engine.extension import ExtensionPoints, PluginFault
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape


class Picker:
    """Picks a node among scored candidates: a plugin's choice, else the best, with ties in the order of the seed."""

    def __init__(self, points: ExtensionPoints, nodes: int, seed: int | None) -> None:
        self._points = points
        # One order for the whole cycle: with one for each task, a plan would depend on the number of draws.
        self._tie_order = None if seed is None else np.random.default_rng(seed).permutation(nodes)

    @property
    def needed(self) -> bool:
        """True if anything but the scores and the order of the nodes decides."""
        return self._tie_order is not None or bool(self._points.tiers_of("best_node"))

    def pick(self, shape: TaskShape, nodes: NodeRows, scores: NDArray[np.float64]) -> int:
        """Index of the node to take among scored candidates."""
        for plugin, choose in self._points.walk("best_node"):
            index = self._points.ask("best_node", plugin, choose, shape, nodes, scores)
            if not isinstance(index, (int, np.integer)):
                raise PluginFault(plugin, "best_node", f"expected an index, got {index!r}")
            if 0 <= index < len(nodes):
                return int(index)
        if self._tie_order is None or nodes.rows is None:
            return kernels.best(scores)
        equals = np.flatnonzero(scores == scores.max())
        return int(equals[self._tie_order[nodes.rows[equals]].argmin()])
