"""Make room for starving gangs in one network domain at the cost of less important jobs of the same queue.

Only jobs of strictly lower priority give way, with the tasks that they can spare before whole gangs. How the room is
searched is in `kilauea.engine.eviction.gang_search`. Spec of the scheduler, 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.action import Action
from kilauea.engine.eviction.bundles import Bundle, GangArguments, GangRule
from kilauea.engine.eviction.gang_search import claim_for_gangs
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.session import Session


class LesserJobs(GangRule):
    """Victims are of other jobs of the queue, of lower priority; the least important go first."""

    action = "gangpreempt"

    def candidates(self, pool: VictimPool, job: Job) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = (
            (pool.queue == pool.queue_of(job)) & (pool.job != job.row) & (pool.priority < job.priority)
        )
        return chosen

    def in_order(self, session: Session, bundles: Iterable[Bundle], queue: Queue) -> list[Bundle]:
        return sorted(bundles, key=lambda bundle: session.job_key(bundle.job), reverse=True)


class GangPreempt(Action):
    """Starving gangs get room from lesser jobs of their queue."""

    name = "gangpreempt"
    Arguments = GangArguments

    def execute(self, session: Session) -> None:
        claim_for_gangs(session, LesserJobs(), self.arguments)
