"""The evaluations of one session, one for each evaluated shape, as far as memory allows."""

from __future__ import annotations

from kilauea.engine.evaluation.evaluation import Evaluation, ShardRule
from kilauea.engine.evaluation.observed import ObservedEvaluation
from kilauea.engine.evaluation.picking import Picker
from kilauea.engine.evaluation.shared_scores import SharedScores
from kilauea.engine.extension import ExtensionPoints
from kilauea.engine.extension.observer import UNOBSERVED, Observer
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.shapes import TaskShape

EVALUATION_BYTES = 64 * 1024 * 1024
"""Maximum size of cached evaluations, in bytes."""
BYTES_A_NODE = 25
"""Size of an evaluation, for each node: two scores, a mask, and scores by figures."""
MOST_SHARING = 4096
"""Maximum number of cached evaluations that share another one."""


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
        self._shared = SharedScores(nodes)
        self._kept: dict[TaskShape, Evaluation] = {}
        self._sharing: dict[TaskShape, Evaluation] = {}
        """Those that share another one, and so are small."""
        self._kin: dict[tuple[object, ...], Evaluation] = {}
        """One of those that differ only in the values of traits and in the owner."""

    def of(self, shape: TaskShape) -> Evaluation:
        """The current evaluation of the nodes for tasks of a shape."""
        known = self._kept.get(shape) or self._sharing.get(shape)
        if known is None and shape.plain is not None and not self._points.has_user_plugins:
            known = self._sharing_with(shape, shape.plain)
        if known is None:
            # The oldest is evicted first: actions process job after job, so a shape that was not used for long is done.
            if len(self._kept) * BYTES_A_NODE * (len(self._nodes) + 1) > EVALUATION_BYTES:
                self._kept.pop(next(iter(self._kept)))
            known = self._kept[shape] = self._make(shape)
        return known

    def _sharing_with(self, shape: TaskShape, plain: TaskShape) -> Evaluation | None:
        """An evaluation that shares that of the plain shape; None if it cannot.

        Custom plugins may read anything of a shape, so nothing is shared if there are any.
        """
        kin = (plain, shape.claims, tuple(shape.traits))
        known = self._kin.get(kin)
        found = self._make(shape) if known is None else known.twin(shape)
        if known is None and not found.share(self.of(plain)):
            return None
        if known is None and not self._chosen_by_traits(shape):
            self._kin[kin] = found
        if len(self._sharing) >= MOST_SHARING:
            self._sharing.pop(next(iter(self._sharing)))
        self._sharing[shape] = found
        return found

    def _chosen_by_traits(self, shape: TaskShape) -> bool:
        """Return True if a plugin that distinguishes tasks may apply some of its predicates only to some of them."""
        return any(predicate.plugin in shape.traits for predicate in self._points.predicates())

    def _make(self, shape: TaskShape) -> Evaluation:
        if self._observer is UNOBSERVED:
            return Evaluation(self._nodes, self._points, self._picker, shape, self._shard, self._shared)
        return ObservedEvaluation(
            self._nodes, self._points, self._picker, shape, self._shard, self._shared, self._observer
        )

    def close(self) -> None:
        """Drop all; they hold functions of plugins, which hold the session."""
        self._kept.clear()
        self._sharing.clear()
        self._kin.clear()
