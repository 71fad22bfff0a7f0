"""Requests that no node could satisfy, even in an empty cluster: they take precedence over limits of queues.

A queue deserves nothing of a resource that no node has, so its plugin refuses the pod first, with a message about the
queue. Raising a quota would not help; adding a node would.
"""

from __future__ import annotations

import dataclasses

from kilauea.engine.evaluation import Unfit
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plan import Pending
from kilauea.engine.session import Session

OF_AMOUNTS = frozenset(
    {
        "ClusterOvercommitted",
        "QueueQuotaInsufficient",
        "QueueQuotaExceeded",
        "QueueMayNotReclaim",
        "QueueOverused",
        "InsufficientCPUQuota",
        "InsufficientMemoryQuota",
        "InsufficientScalarQuota",
    }
)
"""Codes of refusals because a queue or the cluster as a whole has too little of a resource."""

SHAPES_LOOKED_AT = 256
"""Maximum number of shapes of refused pods to compare with all nodes in a cycle; others keep the queue's reason."""


class OutOfReach:
    """Compares each shape of refused pods with the nodes, once.

    Args:
        session: a session whose actions are done.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[TaskShape, Unfit | None] = {}

    def first(self, pending: Pending) -> Pending:
        """The reason, replaced by the lack of nodes for a pod that a queue refuses and no node could ever run."""
        if pending.code not in OF_AMOUNTS:
            return pending
        task = self._session.state.tasks[pending.pod]
        shape = self._session.shape_of(task)
        if shape not in self._known:
            if len(self._known) == SHAPES_LOOKED_AT:
                return pending
            self._known[shape] = self._session.evaluation(task).never()
        never = self._known[shape]
        if never is None or not never.nodes:
            return pending
        return dataclasses.replace(
            pending,
            code="Unschedulable",
            message=never.message,
            resource=never.resource,
            asked=never.asked,
            left=never.left,
            nodes=never.reasons,
        )
