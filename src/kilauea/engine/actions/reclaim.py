"""Take back for starving jobs what other queues hold beyond what they deserve.

Whom the plugins let go decides; on top of that no queue is taken below what it deserves or is guaranteed. What it
takes is planned whole (`kilauea.engine.eviction.claims`). Spec of the scheduler, 5.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.action import Action
from kilauea.engine.actions.preempt import tasks_of
from kilauea.engine.conf import argument
from kilauea.engine.eviction.claims import Claim, Rule
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, PODS, add
from kilauea.engine.model.tasks import Task
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class ReclaimArguments:
    """Arguments of reclaim."""

    error_cache: bool = argument("predicateErrorCacheEnable", True, "Accepted; equal tasks are evaluated once anyway.")


class BetweenQueues(Rule):
    """Victims run, and are of other queues that are reclaimable."""

    action = "reclaim"

    def __init__(self, session: Session) -> None:
        open_to_it = [session.queues[name].reclaimable for name in sorted(session.queues)]
        self._reclaimable = np.array(open_to_it, dtype=bool)
        self._held = {name: dict(queue.allocated) for name, queue in session.queues.items()}
        """By queue: what it held when the action began."""

    def candidates(self, pool: VictimPool, task: Task, job: Job) -> NDArray[np.bool_]:
        return self.of_others(pool, job)

    def of_others(self, pool: VictimPool, job: Job) -> NDArray[np.bool_]:
        """(T,) tasks of the pool that run in other queues than a job's, which are reclaimable."""
        chosen: NDArray[np.bool_] = pool.running & (pool.queue != pool.queue_of(job)) & self._reclaimable[pool.queue]
        return chosen

    def votes(self, session: Session, task: Task, candidates: Sequence[Task]) -> list[Task]:
        jobs, queues = session.state.jobs, session.queues
        claimer = queues[jobs[task.group].queue]
        useful = [v for v in candidates if may_take(claimer, queues[jobs[v.group].queue], v)]
        return session.reclaimable(task, useful) if useful else []

    def refusal(self, session: Session, queue: Queue, task: Task) -> Refusal | None:
        return may_not_reclaim(session, queue, [task])

    def over_limit(self, session: Session, queue: Queue, task: Task) -> Refusal | None:
        return session.allocatable(queue, task)

    def floor_holds(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Only what has more than it deserves loses anything, and goes below neither that nor its guarantee.

        That is so for the queues that lose tasks and for their ancestors, as far as they are not the claimer's too.
        Held whatever tier answers who may go, or two queues would evict each other's tasks in turn for ever.
        """
        shared = {ancestor.name for ancestor in queue.figures.ancestors}
        lost: dict[str, dict[str, float]] = {}
        for task in tasks:
            owner = session.queues[session.state.jobs[task.group].queue]
            for at in (owner, *owner.figures.ancestors):
                if at.name not in shared:
                    add(lost.setdefault(at.name, {}), task.spec.requests)
        return all(self._may_lose(session.queues[name], amounts) for name, amounts in lost.items())

    def _may_lose(self, queue: Queue, amounts: dict[str, float]) -> bool:
        deserved = queue.figures.deserved or {}
        counted = [name for name in amounts if name != PODS and deserved.get(name, 0) > EPSILON]
        if counted and not any(queue.allocated.get(name, 0) > deserved[name] + EPSILON for name in counted):
            return False
        at_first = self._held[queue.name]
        for name, amount in amounts.items():
            if name == PODS:
                continue
            before, limit = queue.allocated.get(name, 0), deserved.get(name, 0)
            after = before - amount
            if after < queue.guarantee.get(name, 0) - EPSILON:
                return False
            if max(before, at_first.get(name, 0)) > limit + EPSILON > after + 2 * EPSILON and limit > EPSILON:
                return False
        return True


def may_not_reclaim(session: Session, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
    """Why a queue may not take back what tasks ask for; None if it may."""
    if session.preemptive(queue, tasks):
        return None
    return Refusal("QueueMayNotReclaim", f"queue {queue.name} has what it deserves and may not reclaim", queue.name)


def may_take(claimer: Queue, owner: Queue, task: Task) -> bool:
    """The task holds something that its queue has too much of, and the claimer too little, or neither a share of.

    A queue that has its share of what it takes would lose it again to the one that it took it from. For the claimer
    those of its ancestors may stand that take part in reclaim and are not the owner's too.
    """
    held, of_owner = owner.allocated, owner.figures.deserved or {}
    too_much = [n for n in task.spec.requests if n != PODS and held.get(n, 0) > of_owner.get(n, 0) + EPSILON]
    if too_much:
        above = {ancestor.name for ancestor in owner.figures.ancestors}
        near = claimer.figures.ancestors[: claimer.figures.reclaim_level]
        claimers = [claimer, *(ancestor for ancestor in near if ancestor.name not in above)]
        for name in too_much:
            shares = [(at.figures.deserved or {}).get(name, 0) for at in claimers]
            lacking = (at.allocated.get(name, 0) < s - EPSILON for at, s in zip(claimers, shares, strict=True))
            if any(lacking) or max(*shares, of_owner.get(name, 0)) <= EPSILON:
                return True
    return task.spec.best_effort


class Reclaim(Action):
    """Starving jobs get back what their queues deserve."""

    name = "reclaim"
    Arguments = ReclaimArguments

    def execute(self, session: Session) -> None:
        starving = [job for job in session.waiting_jobs() if self._concerns(session, job)]
        if not starving:
            return
        pool, rule = VictimPool(session, fresh=True), BetweenQueues(session)
        gangs = bool(session.tiers_of("job_ready"))
        turns = QueueTurns(session, starving)
        while (queue := turns.next_queue()) is not None:
            if session.overused(queue) is not None:
                continue
            for job in turns.drain(queue):
                Claim(session, pool, rule, queue, job, gangs=gangs).make(tasks_of(session, job))

    def _concerns(self, session: Session, job: Job) -> bool:
        return not job.is_pending and session.job_valid(job) is None and session.job_starving(job)
