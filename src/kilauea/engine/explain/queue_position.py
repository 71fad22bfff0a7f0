"""The groups ahead of a waiting group, and the largest holders of the resources that it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import PODS
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session


@dataclass(frozen=True, slots=True)
class Ahead:
    """A waiting group that the scheduler considers first.

    Attributes:
        group: `namespace/name`.
        queue: its queue.
        why: the reason for its position.
        starting: number of its pods that start in this cycle.
        nominated: number of its pods that are nominated to a node where resources are being freed.
        waiting: number of its pods that still wait.
    """

    group: str
    queue: str
    why: str
    starting: int
    nominated: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A group that holds some of a resource, in the engine's units."""

    group: str
    """The group, as `namespace/name`."""
    queue: str
    """Its queue."""
    resource: str
    """The resource."""
    amount: float
    """The amount that it holds."""


def ahead(session: Session, plan: Plan, job: Job) -> tuple[Ahead, ...]:
    """The groups ahead of a group: those of its queue, and those of queues that come first.

    Args:
        session: a session before the plan.
        plan: the plan.
        job: the group.
    """
    if job.queue not in session.queues:
        return ()
    tasks = session.state.tasks
    starting = Counter(tasks[bind.pod].group for bind in plan.binds)
    nominated = Counter(tasks[nomination.pod].group for nomination in plan.nominations)
    queue = session.queues[job.queue]
    own_queue, own = session.queue_key(queue), session.job_key(job)
    found = []
    for other in session.waiting_jobs():
        if other is job or not other.group or other.queue not in session.queues:
            continue
        if other.queue == job.queue:
            key: tuple[object, ...] = (0, session.job_key(other))
            first, why = session.job_key(other) < own, _why(other, job)
        else:
            key = (1, session.queue_key(session.queues[other.queue]), session.job_key(other))
            first, why = session.queue_key(session.queues[other.queue]) < own_queue, f"queue {other.queue} comes first"
        if first:
            starts, room = starting[other.key], nominated[other.key]
            waiting = sum(1 for _ in other.pending()) - starts - room
            found.append((key, Ahead(other.key, other.queue, why, starts, room, max(waiting, 0))))
    return tuple(each for _, each in sorted(found, key=lambda pair: pair[0]))


def _why(other: Job, job: Job) -> str:
    """The reason why another group of the same queue comes first, by priority and age."""
    if other.priority > job.priority:
        return f"its priority {other.priority} is above {job.priority}"
    if other.priority == job.priority and other.creation < job.creation:
        return "it is older"
    return "it comes first in the order of jobs"


def holders(session: Session, job: Job, blocking: Sequence[str], resources: Iterable[str]) -> tuple[Holder, ...]:
    """The largest holders of the missing resources: in the blocking queue and those below it, else in all queues.

    Args:
        session: the session after the plan.
        job: the group that waits.
        blocking: queues that block, the uppermost first.
        resources: the missing resources.
    """
    below = _below(session, blocking[0]) if blocking else None
    found = [
        Holder(other.key, other.queue, resource, amount)
        for resource in resources
        if resource != PODS
        for other in session.state.jobs.values()
        if other is not job and (below is None or other.queue in below)
        if (amount := other.allocated.get(resource, 0)) > 0
    ]
    return tuple(sorted(found, key=lambda h: (h.resource, -h.amount, h.group)))


def _below(session: Session, name: str) -> frozenset[str]:
    """A queue and all queues below it."""
    return frozenset(
        queue.name
        for queue in session.queues.values()
        if queue.name == name or any(above.name == name for above in queue.figures.ancestors)
    )
