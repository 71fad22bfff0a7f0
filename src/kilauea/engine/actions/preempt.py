"""Make room for starving jobs at the cost of less important ones of the same queue, and of a job's own lesser tasks.

A job is starving when the plugins say so; its victims are whom the plugins let go. What it takes is planned whole
(`kilauea.engine.eviction.claims`). Spec of the scheduler, 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.eviction.claims import Claim, Rule
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class PreemptArguments:
    """Arguments of preempt; all but the first steer a search that this version does for every preemption."""

    error_cache: bool = argument("predicateErrorCacheEnable", True, "Accepted; equal tasks are evaluated once anyway.")
    topology_aware: bool = argument("enableTopologyAwarePreemption", False, "Accepted; plans are always minimal.")
    workers: int = argument("topologyAwarePreemptWorkerNum", 16, "Accepted; there is one.")
    percentage: int = argument("minCandidateNodesPercentage", 10, "Accepted; the most promising nodes are tried.")
    least: int = argument("minCandidateNodesAbsolute", 1, "Accepted, as above.")
    most: int = argument("maxCandidateNodesAbsolute", 100, "Accepted, as above.")


class BetweenJobs(Rule):
    """Victims are of the same queue and another job."""

    action = "preempt"

    def candidates(self, pool: VictimPool, task: Task, job: Job) -> NDArray[np.bool_]:
        own = (pool.queue == pool.queue_of(job)) & (pool.job != job.row)
        chosen: NDArray[np.bool_] = own & ~(task.spec.best_effort & ~pool.best_effort)
        return chosen

    def votes(self, session: Session, task: Task, candidates: Sequence[Task]) -> list[Task]:
        return session.preemptable(task, candidates)

    def over_limit(self, session: Session, queue: Queue, task: Task) -> Refusal | None:
        return session.allocatable(queue, task)


class WithinJob(BetweenJobs):
    """Victims are of the same job."""

    def candidates(self, pool: VictimPool, task: Task, job: Job) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = (pool.job == job.row) & ~(task.spec.best_effort & ~pool.best_effort)
        return chosen


class Preempt(Action):
    """Starving jobs get room from jobs of their queue."""

    name = "preempt"
    Arguments = PreemptArguments

    def execute(self, session: Session) -> None:
        starving = [job for job in session.waiting_jobs() if self._concerns(session, job)]
        if not starving:
            return
        pool = VictimPool(session, fresh=True)
        gangs = bool(session.tiers_of("job_ready"))
        turns = QueueTurns(session, starving)
        while (queue := turns.next_queue()) is not None:
            jobs = turns.drain(queue)
            for job in jobs:
                Claim(session, pool, BetweenJobs(), queue, job, gangs=gangs).make(tasks_of(session, job))
            for job in jobs:
                for task in tasks_of(session, job):
                    if not session.job_starving(job):
                        break
                    if not Claim(session, pool, WithinJob(), queue, job, gangs=False).make([task]):
                        break

    def _concerns(self, session: Session, job: Job) -> bool:
        if job.is_pending or session.domains.wishes(job) or session.job_valid(job) is not None:
            return False
        return session.job_starving(job)


def tasks_of(session: Session, job: Job) -> list[Task]:
    """Tasks that wait, in order."""
    return session.in_order(task for task in job.pending() if not task.gated)
