"""Reclaim resources for queues below their deserved share from queues above theirs.

Reclaim serves every pending pod in such a queue: first the minimum of its gang, as a whole or not at all, then each
further pod separately. Plugins determine which tasks may be evicted, and `kilauea.engine.eviction.floor` limits what
queues lose. All evictions for a job are planned together (`kilauea.engine.eviction.by_node`). Spec of the scheduler,
5.6.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.actions.preempt import tasks_of
from kilauea.engine.conf import argument
from kilauea.engine.eviction.by_node import node_search
from kilauea.engine.eviction.policy import PENDING, STARVING, BetweenQueues
from kilauea.engine.eviction.serving import serve_pending, serve_starving
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model.jobs import Job
from kilauea.engine.queues.fifo import in_turn
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class ReclaimArguments:
    """Arguments of reclaim."""

    error_cache: bool = argument(
        "predicateErrorCacheEnable", True, "Accepted and ignored; equal tasks are evaluated once."
    )
    serves: str = argument(
        "reclaimFor",
        PENDING,
        "`pending` serves every pending pod, `starving` only jobs that plugins report as starving.",
        choices=(PENDING, STARVING),
    )


class Reclaim(Action):
    """Reclaim the deserved share of queues."""

    name = "reclaim"
    acts_unprompted = False
    Arguments = ReclaimArguments

    def execute(self, session: Session) -> None:
        waiting = [job for job in session.waiting_jobs() if self._concerns(session, job)]
        if not waiting:
            return
        pool, policy = VictimPool(session, fresh=True), BetweenQueues(session)
        gangs = bool(session.points.tiers_of("job_ready"))
        serve = serve_starving if self.arguments.serves == STARVING else serve_pending
        turns = QueueTurns(session, waiting)
        while (queue := turns.next_queue()) is not None:
            if policy.queue_refusal(queue) is not None:
                continue
            for job in in_turn(session, queue, turns.drain(queue)):
                search = node_search(session, pool, policy, queue, job, gangs=gangs)
                serve(session, job, tasks_of(session, job), search)

    def _concerns(self, session: Session, job: Job) -> bool:
        if job.is_pending or session.job_valid(job) is not None:
            return False
        return self.arguments.serves == PENDING or session.points.job_starving(job)
