"""Timed evaluations, for cycles with an observer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation.evaluation import Evaluation, NodeChoice, ShardRule
from kilauea.engine.evaluation.picking import Picker
from kilauea.engine.evaluation.shared_scores import SharedScores
from kilauea.engine.extension import ExtensionPoints, NodeScorer
from kilauea.engine.extension.observer import Observer
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape


class ObservedEvaluation(Evaluation):
    """An evaluation that reports the duration of each choice: the scoring, and the rest, which are the predicates."""

    def __init__(
        self,
        nodes: NodeTable,
        points: ExtensionPoints,
        picker: Picker,
        shape: TaskShape,
        shard: ShardRule,
        shared: SharedScores,
        observer: Observer,
    ) -> None:
        super().__init__(nodes, points, picker, shape, shard, shared)
        self._time, self._tell = observer.now, observer.chose
        self._scoring = 0

    def choose(self, within: NDArray[np.intp] | None = None) -> NodeChoice | None:
        """As without an observer."""
        started, self._scoring = self._time(), 0
        choice = super().choose(within)
        self._tell(self._time() - started - self._scoring, self._scoring)
        return choice

    def _refresh(self) -> None:
        super()._refresh()
        if isinstance(self._plain, ObservedEvaluation):
            self._scoring += self._plain._scoring
            self._plain._scoring = 0

    def _scores(self, scorers: list[NodeScorer], nodes: NodeRows) -> NDArray[np.float64]:
        started = self._time()
        scores = super()._scores(scorers, nodes)
        self._scoring += self._time() - started
        return scores
