"""Take back for starving gangs, in one network domain, what other queues hold beyond what they deserve.

Jobs of other queues give way with the tasks that they can spare before whole gangs, and no queue is taken below what
it deserves or is guaranteed. How the room is searched is in `kilauea.engine.eviction.gang_search`. Spec of the
scheduler, 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.action import Action
from kilauea.engine.actions.reclaim import BetweenQueues, may_not_reclaim, may_take
from kilauea.engine.eviction.bundles import Bundle, GangArguments, GangRule
from kilauea.engine.eviction.gang_search import claim_for_gangs
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session


class OtherQueues(GangRule):
    """Victims run, and are of other queues that are reclaimable; queues lose in the order that plugins give."""

    action = "gangreclaim"

    def __init__(self, session: Session) -> None:
        self._between = BetweenQueues(session)

    def candidates(self, pool: VictimPool, job: Job) -> NDArray[np.bool_]:
        return self._between.of_others(pool, job)

    def in_order(self, session: Session, bundles: Iterable[Bundle], queue: Queue) -> list[Bundle]:
        def key(bundle: Bundle) -> tuple[Any, ...]:
            return session.victim_queue_key(session.queues[bundle.job.queue], queue)

        ordered = sorted(bundles, key=lambda bundle: session.job_key(bundle.job), reverse=True)
        ordered.sort(key=lambda bundle: -bundle.gain)
        ordered.sort(key=lambda bundle: session.queue_key(session.queues[bundle.job.queue]), reverse=True)
        return sorted(ordered, key=key)

    def skips(self, session: Session, queue: Queue) -> bool:
        return session.overused(queue) is not None

    def refusal(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
        return may_not_reclaim(session, queue, tasks)

    def floor_holds(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        return self._between.floor_holds(session, queue, tasks) and all(
            may_take(queue, session.queues[session.state.jobs[task.group].queue], task) for task in tasks
        )


class GangReclaim(Action):
    """Starving gangs get back what their queues deserve."""

    name = "gangreclaim"
    Arguments = GangArguments

    def execute(self, session: Session) -> None:
        claim_for_gangs(session, OtherQueues(session), self.arguments)
