"""Lending between queues, so that a queue within its own promise is admitted even if borrowers fill the cluster.

A queue with deserved or guaranteed amounts can count on resources that others hold beyond theirs, if the action reclaim
could reclaim them: admission adds these to the free resources. In a tree this applies at every level: below each
ancestor, the siblings on the path lend the amounts beyond their promises. This rule is specific to Kilauea; the figures
are those of the session's queue plugin.
"""

from __future__ import annotations

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import PODS, Amounts, add
from kilauea.engine.session import Session

TAKING_BACK = frozenset({"reclaim", "gangreclaim"})
"""Actions that reclaim resources of a queue that others borrowed."""


class Lending:
    """The loans between queues in a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._taken_back = not TAKING_BACK.isdisjoint(session.conf.actions)
        self._children: dict[str, list[Queue]] = {}
        self._lent: dict[tuple[str, str], dict[str, float]] = {}
        self._stamp = -1

    def room_for(self, job: Job, at: Queue | None = None) -> dict[str, float]:
        """Return the resources for a job in addition to free ones, below a queue on its path, or in the cluster.

        Only resources for which its queue stays within its promise with the job's minimum; empty without an action that
        reclaims.
        """
        minimum = job.min_resources or {}
        queue = self._session.queues[job.queue]
        promise = promised(queue)
        covered = [
            name
            for name, amount in minimum.items()
            if name != PODS
            and queue.allocated.get(name, 0) + queue.inqueue.get(name, 0) + amount <= promise.get(name, 0)
        ]
        if not covered or not self._taken_back:
            return {}
        lent = self._lent_to(queue, at)
        return {name: lent[name] for name in covered if lent.get(name, 0) > 0}

    def _lent_to(self, queue: Queue, at: Queue | None) -> dict[str, float]:
        stamp = len(self._session.nodes.changed)
        if stamp != self._stamp:
            self._stamp = stamp
            self._lent.clear()
        key = (queue.name, at.name if at else "")
        known = self._lent.get(key)
        if known is None:
            known = self._lent[key] = self._sum_up(queue, at)
        return known

    def _sum_up(self, queue: Queue, at: Queue | None) -> dict[str, float]:
        out: dict[str, float] = {}
        if at is queue:
            return out
        below = queue
        for above in (*queue.figures.ancestors, None):
            for sibling in self._below(above):
                if sibling is not below:
                    add(out, self._surplus(sibling))
            if above is None or above is at:
                break
            below = above
        return out

    def _below(self, above: Queue | None) -> list[Queue]:
        """Children of a queue, or the queues without a parent."""
        if not self._children:
            for name in sorted(self._session.queues):
                queue = self._session.queues[name]
                parent = queue.figures.ancestors[0].name if queue.figures.ancestors else ""
                self._children.setdefault(parent, []).append(queue)
        return self._children.get(above.name if above else "", [])

    def _surplus(self, queue: Queue) -> dict[str, float]:
        """Amounts beyond their promise that a queue, or those below it, hold or have admitted."""
        children = self._below(queue)
        if not children and not queue.reclaimable:
            return {}
        promise, elastic, inqueue = promised(queue), queue.elastic, queue.inqueue
        over = {}
        for name in {**queue.allocated, **inqueue}:
            held = queue.allocated.get(name, 0)
            claimed = max(held, held + inqueue.get(name, 0) - elastic.get(name, 0))
            if claimed > promise.get(name, 0):
                over[name] = claimed - promise.get(name, 0)
        if not children or not over:
            return over
        below: dict[str, float] = {}
        for child in children:
            add(below, self._surplus(child))
        return {name: min(amount, below.get(name, 0)) for name, amount in over.items()}


def promised(queue: Queue) -> Amounts:
    """Return the deserved amounts of a queue, at least its guarantee."""
    deserved = queue.figures.deserved or {}
    if not queue.guarantee:
        return deserved
    return {name: max(deserved.get(name, 0), queue.guarantee.get(name, 0)) for name in {**deserved, **queue.guarantee}}
