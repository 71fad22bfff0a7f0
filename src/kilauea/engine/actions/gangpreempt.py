"""Evict less important jobs of the same queue for starving gangs, within one network domain.

Only jobs of strictly lower priority are evicted: first tasks beyond their minimum, then whole gangs.
`kilauea.engine.eviction.by_domain` describes the search. Spec of the scheduler, 5.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.eviction.bundles import Gangs
from kilauea.engine.eviction.by_domain import domain_search
from kilauea.engine.eviction.policy import GangsOfOtherQueues, LesserGangs
from kilauea.engine.eviction.serving import serve_starving
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model.tasks import Task
from kilauea.engine.queues.fifo import in_turn
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class GangArguments:
    """Arguments of gangpreempt and gangreclaim."""

    domains: int = argument("maxDomains", 8, "Maximum number of network domains to try for a job.", minimum=1)
    whole: bool = argument(
        "allowWholeBundle", True, "Evict whole gangs if necessary; otherwise only tasks beyond their minimum."
    )


class GangPreempt(Action):
    """Evict jobs of lower priority in the same queue for starving gangs."""

    name = "gangpreempt"
    acts_unprompted = False
    Arguments = GangArguments

    def execute(self, session: Session) -> None:
        make_room(session, LesserGangs(session), self.arguments, serve_starving)


def make_room(
    session: Session, policy: LesserGangs | GangsOfOtherQueues, arguments: GangArguments, serve: Callable[..., None]
) -> None:
    """Evict pods for pending jobs, queue by queue, the first job of each."""
    waiting = [job for job in session.waiting_jobs() if not job.is_pending and session.job_valid(job) is None]
    if serve is serve_starving:
        waiting = [job for job in waiting if session.points.job_starving(job)]
    if not waiting:
        return
    pool = VictimPool(session)
    gangs = Gangs(session, pool)
    turns = QueueTurns(session, waiting)
    while (queue := turns.next_queue()) is not None:
        if policy.queue_refusal(queue) is not None:
            continue
        for job in in_turn(session, queue, turns.drain(queue)):
            tasks = [t for t in job.pending() if _may_claim(t)]
            if tasks:
                search = domain_search(
                    session, pool, gangs, policy, queue, job, domains=arguments.domains, whole=arguments.whole
                )
                serve(session, job, tasks, search)


def _may_claim(task: Task) -> bool:
    return not (task.gated or task.foreign_gate or task.no_preemption or task.spec.best_effort)
