"""The evaluations of one session, one for each shape that was asked about, as far as memory allows."""

from __future__ import annotations

from kilauea.engine.evaluation.evaluation import Evaluation, ShardRule
from kilauea.engine.evaluation.observed import ObservedEvaluation
from kilauea.engine.evaluation.picking import Picker
from kilauea.engine.extension import ExtensionPoints
from kilauea.engine.extension.observer import UNOBSERVED, Observer
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.shapes import TaskShape

EVALUATION_BYTES = 64 * 1024 * 1024
"""Room for evaluations that are kept."""
BYTES_A_NODE = 17
"""Size of an evaluation, for each node: two scores and a mask."""


class EvaluationCache:
    """Evaluations by shape."""

    def __init__(
        self, nodes: NodeTable, points: ExtensionPoints, picker: Picker, observer: Observer, shard: ShardRule
    ) -> None:
        self._nodes = nodes
        self._shard = shard
        self._points = points
        self._picker = picker
        self._observer = observer
        self._kept: dict[TaskShape, Evaluation] = {}

    def of(self, shape: TaskShape) -> Evaluation:
        """The nodes as they stand for tasks of a shape."""
        known = self._kept.get(shape)
        if known is None:
            # The oldest goes first: actions take job after job, so a shape that was not asked about for long is done.
            if len(self._kept) * BYTES_A_NODE * (len(self._nodes) + 1) > EVALUATION_BYTES:
                self._kept.pop(next(iter(self._kept)))
            known = self._kept[shape] = self._make(shape)
        return known

    def _make(self, shape: TaskShape) -> Evaluation:
        if self._observer is UNOBSERVED:
            return Evaluation(self._nodes, self._points, self._picker, shape, self._shard)
        return ObservedEvaluation(self._nodes, self._points, self._picker, shape, self._shard, self._observer)

    def close(self) -> None:
        """Forget all; they hold functions of plugins, which hold the session."""
        self._kept.clear()
