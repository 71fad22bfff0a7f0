"""A shape: tasks that no predicate and no score can distinguish in this session.

Two tasks with the same `TaskSpec` have the same shape unless something depends on fields that the spec omits: labels
and namespace (only labels that a selector in the cluster names), images (only if nodes report theirs), the gang, if its
tasks must be close together in the network, the queue of tasks that name accelerator cards, the content of resource
claims, and the traits by which plugins distinguish tasks.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.claims.table import Wish
from kilauea.engine.model.placements import LabelClass
from kilauea.engine.model.resources import ALWAYS, ResourceAxis
from kilauea.engine.model.task_specs import TaskSpec

NOT_ASKED = np.iinfo(np.int64).min // 4
"""In `TaskShape.need`: this resource is not checked."""


class TaskShape:
    """The part of a task that predicates and scores see."""

    __slots__ = (
        "claims",
        "freed",
        "held",
        "images",
        "label_class",
        "need",
        "owner",
        "plain",
        "promised",
        "queue",
        "request",
        "spec",
        "traits",
    )

    def __init__(
        self,
        spec: TaskSpec,
        label_class: LabelClass,
        images: tuple[int, tuple[str, ...]],
        queue: str,
        axis: ResourceAxis,
    ):
        self.spec = spec
        self.claims: tuple[Wish, ...] = ()
        """The pod's resource claims."""
        self.traits: dict[str, Hashable] = {}
        """Values by which plugins distinguish tasks in addition to the spec, by plugin (`session.add_task_trait`)."""
        self.queue = queue
        """The queue of tasks that name accelerator cards, whose quota limits their nodes; empty for other tasks."""
        self.owner = ""
        """The gang or sub-gang whose tasks must be close together in the network; empty for other tasks."""
        self.plain: TaskShape | None = None
        """The same shape without owner, claims and traits; None if this shape has none of them."""
        self.label_class = label_class
        """Namespace and labels of a task of this shape; those of others differ only in labels that no selector uses."""
        self.images = images
        self.request: NDArray[np.int64] = axis.vector(spec.requests)
        """(R,) request of a task."""
        need = self.request.copy()
        for name, row in axis.rows.items():
            if spec.best_effort or (name not in spec.requests and name not in ALWAYS):
                need[row] = NOT_ASKED
        self.need: NDArray[np.int64] = need[:, None]
        """(R, 1) amounts that must be free; cpu and memory are both checked even if only one is requested.

        Empty for a task that requests only a pod slot; a predicate checks the number of pods.
        """
        none = np.zeros_like(self.request)
        scored = np.array([spec.scored_cpu, spec.scored_memory], dtype=np.int64)
        self.held: NDArray[np.int64] = np.concatenate([none, self.request, none, none, self.request, scored])
        """(5 R + 2,) increase of a node's values when a task of this shape is placed there."""
        self.promised: NDArray[np.int64] = np.concatenate([none, none, none, self.request, self.request, scored])
        """(5 R + 2,) the same when it is only nominated."""
        self.freed: NDArray[np.int64] = np.concatenate([none, none, self.request, none, -self.request, -scored])
        """(5 R + 2,) the same when it is evicted: `releasing` grows, the view shrinks, `used` stays."""

    def variant(self, owner: str, claims: tuple[Wish, ...], traits: tuple[tuple[str, Hashable], ...]) -> TaskShape:
        """Return the shape of tasks that differ from this one only in owner, claims and traits."""
        # Inlined, because a plugin that distinguishes gangs needs a variant for every gang, or for every task.
        out = TaskShape.__new__(TaskShape)
        out.spec, out.label_class, out.images, out.queue = self.spec, self.label_class, self.images, self.queue
        out.request, out.need = self.request, self.need
        out.held, out.promised, out.freed = self.held, self.promised, self.freed
        out.owner, out.claims, out.traits, out.plain = owner, claims, dict(traits), self
        return out
