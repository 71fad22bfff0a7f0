"""Reclaim for queues below their share what other queues hold beyond what they deserve.

Every pod that waits in such a queue is served: first the minimum of its gang, whole or not at all, then each further
pod by itself. Whom the plugins let go decides; on top of that queues keep what `kilauea.engine.eviction.floor` says.
What the action takes is planned whole (`kilauea.engine.eviction.by_node`). Spec of the scheduler, 5.6.
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
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class ReclaimArguments:
    """Arguments of reclaim."""

    error_cache: bool = argument("predicateErrorCacheEnable", True, "Accepted; equal tasks are evaluated once anyway.")
    serves: str = argument(
        "reclaimFor",
        PENDING,
        "`pending` makes room for every pod that waits, `starving` only for jobs that plugins find starving.",
        choices=(PENDING, STARVING),
    )


class Reclaim(Action):
    """Queues get back what they deserve."""

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
            for job in turns.drain(queue):
                search = node_search(session, pool, policy, queue, job, gangs=gangs)
                serve(session, job, tasks_of(session, job), search)

    def _concerns(self, session: Session, job: Job) -> bool:
        if job.is_pending or session.job_valid(job) is not None:
            return False
        return self.arguments.serves == PENDING or session.points.job_starving(job)
