"""The ways in which a configuration evicts pods for a group: who is thought of, who is asked, and what is never done.

What the actions reclaim, preempt, gangreclaim and gangpreempt have each for themselves, in one form, for questions
after the fact (`kilauea.engine.explain.victim_diagnosis`). The rules are those of the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.actions.gangpreempt import LesserJobs
from kilauea.engine.actions.gangreclaim import OtherQueues
from kilauea.engine.actions.preempt import BetweenJobs, WithinJob
from kilauea.engine.actions.reclaim import BetweenQueues
from kilauea.engine.eviction.bundles import GangClaim, GangRule
from kilauea.engine.eviction.claims import Rule
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session


@dataclass(frozen=True)
class Taking:
    """One way to evict pods for a task.

    Attributes:
        action: name of the action.
        elsewhere: it takes from other queues; else from the group's own.
        point: the extension point at which plugins name victims.
        initiator: what they are told of who wants room.
        wanted: (T,) tasks of the pool that are thought of.
        gangs: gangs at their minimum go whole.
        floor: whether tasks may go together, for what their queues deserve and are guaranteed.
        refusal: why nobody is evicted for the task at all; None if somebody may be.
    """

    action: str
    elsewhere: bool
    point: str
    initiator: object
    wanted: NDArray[np.bool_]
    gangs: bool
    floor: Callable[[Sequence[Task]], bool]
    refusal: str | None


def takings(session: Session, pool: VictimPool, job: Job, task: Task) -> Iterator[Taking]:
    """The ways that the configuration has for a task that waits, in the order of its actions."""
    for action in dict.fromkeys(session.conf.actions):
        if action in ("reclaim", "preempt"):
            yield _for_task(session, pool, job, task, action)
        elif action in ("gangreclaim", "gangpreempt"):
            yield _for_gang(session, pool, job, task, action)


def _for_task(session: Session, pool: VictimPool, job: Job, task: Task, action: str) -> Taking:
    rule: Rule = BetweenQueues(session) if action == "reclaim" else BetweenJobs()
    queue = session.queues[job.queue]
    wanted = rule.candidates(pool, task, job)
    if action == "preempt":
        wanted = wanted | WithinJob().candidates(pool, task, job)
    refusal = _unready(session, job, task)
    if refusal is None and action == "preempt" and session.domains.wishes(job):
        refusal = "groups with a wish for the network are left to gangpreempt"
    if refusal is None:
        overused = session.overused(queue) if action == "reclaim" else None
        refusal = _words(overused or rule.refusal(session, queue, task) or session.pre_predicate(task))
    return Taking(
        action,
        action == "reclaim",
        "reclaimable" if action == "reclaim" else "preemptable",
        task,
        wanted,
        bool(session.tiers_of("job_ready")),
        lambda tasks: rule.floor_holds(session, queue, tasks),
        refusal,
    )


def _for_gang(session: Session, pool: VictimPool, job: Job, task: Task, action: str) -> Taking:
    rule: GangRule = OtherQueues(session) if action == "gangreclaim" else LesserJobs()
    queue = session.queues[job.queue]
    waiting = [t for t in job.pending() if not (t.gated or t.no_preemption or t.spec.best_effort)]
    refusal = _unready(session, job, task)
    if refusal is None and rule.skips(session, queue):
        refusal = f"queue {queue.name} has all that it deserves"
    if refusal is None:
        refusal = _words(rule.refusal(session, queue, waiting))
    return Taking(
        action,
        action == "gangreclaim",
        "unified_evictable",
        GangClaim(action, job, 0),
        rule.candidates(pool, job),
        True,
        lambda tasks: rule.floor_holds(session, queue, tasks),
        refusal,
    )


def _unready(session: Session, job: Job, task: Task) -> str | None:
    """Why the group gets no turn, whatever the action."""
    if job.is_pending:
        return "the group is not admitted yet"
    invalid = session.job_valid(job)
    if invalid is not None:
        return invalid.message
    if not session.job_starving(job):
        return "no plugin says that the group lacks what it needs"
    if task.gated:
        return "a scheduling gate holds the pod back"
    return "the pod may not preempt others (preemptionPolicy: Never)" if task.no_preemption else None


def _words(refusal: Refusal | None) -> str | None:
    if refusal is None:
        return None
    return may_not_reclaim(refusal.queue) if refusal.code == "QueueMayNotReclaim" else refusal.message


def may_not_reclaim(queue: str) -> str:
    """Why a queue takes nothing back."""
    return f"with it queue {queue} would hold more than it deserves, or than it may use"
