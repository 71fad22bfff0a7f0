"""Evict less important jobs of the same queue, and a job's own less important tasks, for starving jobs.

Plugins determine which jobs are starving and which tasks may be evicted. All evictions for a job are planned together
(`kilauea.engine.eviction.by_node`). Spec of the scheduler, 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.eviction.by_node import node_search
from kilauea.engine.eviction.policy import BetweenJobs, WithinJob
from kilauea.engine.eviction.serving import serve_starving
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.queues.fifo import in_turn
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class PreemptArguments:
    """Arguments of preempt; all are accepted for compatibility."""

    error_cache: bool = argument(
        "predicateErrorCacheEnable", True, "Accepted and ignored; equal tasks are evaluated once."
    )
    topology_aware: bool = argument(
        "enableTopologyAwarePreemption", False, "Accepted and ignored; plans are always minimal."
    )
    workers: int = argument("topologyAwarePreemptWorkerNum", 16, "Accepted and ignored; there is one worker.")
    percentage: int = argument(
        "minCandidateNodesPercentage", 10, "Accepted and ignored; the most promising nodes are tried."
    )
    least: int = argument("minCandidateNodesAbsolute", 1, "Accepted and ignored, as above.")
    most: int = argument("maxCandidateNodesAbsolute", 100, "Accepted and ignored, as above.")


class Preempt(Action):
    """Evict jobs in the same queue for starving jobs."""

    name = "preempt"
    acts_unprompted = False
    Arguments = PreemptArguments

    def execute(self, session: Session) -> None:
        starving = [job for job in session.waiting_jobs() if self._concerns(session, job)]
        if not starving:
            return
        pool = VictimPool(session, fresh=True)
        between, within = BetweenJobs(session), WithinJob(session)
        gangs = bool(session.points.tiers_of("job_ready"))
        turns = QueueTurns(session, starving)
        while (queue := turns.next_queue()) is not None:
            jobs = []
            for job in in_turn(session, queue, turns.drain(queue)):
                jobs.append(job)
                search = node_search(session, pool, between, queue, job, gangs=gangs)
                serve_starving(session, job, tasks_of(session, job), search)
            for job in jobs:
                for task in tasks_of(session, job):
                    if not session.points.job_starving(job):
                        break
                    search = node_search(session, pool, within, queue, job, gangs=False)
                    if not search([task], lambda: False):
                        break

    def _concerns(self, session: Session, job: Job) -> bool:
        if job.is_pending or session.domains.wishes(job) or session.job_valid(job) is not None:
            return False
        return session.points.job_starving(job)


def tasks_of(session: Session, job: Job) -> list[Task]:
    """Return the pending tasks, in order."""
    return session.in_order(task for task in job.pending() if not task.gated)
