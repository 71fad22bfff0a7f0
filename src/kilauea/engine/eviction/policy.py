"""The rules of each evicting action: one policy per action, for searches and for explanations.

A policy defines the candidates, the candidates that plugins allow to evict, what queues keep (`floor.py`), and the
reasons to spare a pod. Preempt and reclaim search nodes for one task after another (`by_node.py`), gangpreempt and
gangreclaim network domains for a whole gang (`by_domain.py`). Spec of the scheduler, 5.5, 5.6 and 5.8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.bundles import Bundle, Gangs
from kilauea.engine.eviction.floor import Floor, Want, nothing_to_take
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal, Spares
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import ranked_shares
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import SpareReason
from kilauea.engine.session import Session

STARVING, PENDING = "starving", "pending"
"""The jobs that reclaim serves: starving ones, as in the newest Volcano, or all with pending pods."""

OUT_OF_TURN = "QueueOutOfTurn"
"""The code if only the order of queues keeps a queue from reclaiming."""

VOTING_BY_KIND = frozenset(("priority", "gang", "conformance", "drf", "cdp", "pdb"))
"""Plugins whose votes about victims in the same queue do not depend on the identity of a job that holds nothing."""

NOT_RUNNING = SpareReason("NotRunning", "does not run yet")
QUEUE_CLOSED = SpareReason("QueueNotReclaimable", "its queue is not reclaimable")
HOLDS_SOMETHING = SpareReason("HoldsSomething", "a pod without requests does not evict pods with requests")
NOT_LOWER = SpareReason("PriorityNotLower", "its priority is not lower")


class Policy(ABC):
    """The rules of one action.

    Class attributes:
        action: name of the action.
        point: the extension point at which plugins select victims.
        elsewhere: True if victims are in other queues; else they are in the preemptor's own.
        by_task: True to search for one task after another; else for a gang at once.
        may_cross: True if a unit may take its queue below its deserved share when there is no other choice.
    """

    action: ClassVar[str]
    point: ClassVar[str]
    elsewhere: ClassVar[bool] = False
    by_task: ClassVar[bool] = True
    may_cross: ClassVar[bool] = False

    def __init__(self, session: Session) -> None:
        self.session = session

    @abstractmethod
    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        """Return the candidates (T,) in the pool for a job, or for one of its tasks."""

    def possible(self, pool: VictimPool, job: Job) -> NDArray[np.bool_] | None:
        """Return the tasks (T,) without those that the plugins always spare for a job; None if all are possible."""
        spared = self.session.points.always_spared(self.point)
        found = pool.there
        if Spares.NOT_LOWER in spared:
            found = found & (pool.priority < job.priority)
        if Spares.AT_MINIMUM in spared:
            found = found & (pool.fresh | ~pool.at_minimum())
        return found if spared else None

    def votes_by_kind(self, pool: VictimPool, job: Job) -> bool:
        """Return True if the plugins allow the same victims for all jobs of the same kind as this one."""
        return False

    @abstractmethod
    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        """Return the reason why a pod of the queues in question is not among the candidates."""

    def serves_pending(self, session: Session) -> bool:
        """Return True if the action serves every pending pod; else only jobs that plugins report as starving."""
        return self.elsewhere and session.conf.action_arguments.get(self.action, {}).get("reclaimFor") != STARVING

    def plugins_allow(self, want: Want, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that the plugins allow to evict."""
        return self.session.points.victims(self.point, want.preemptor, candidates) if candidates else []

    def queue_refusal(self, queue: Queue) -> Refusal | None:
        """Return the reason why a queue gets no turn; None if it does."""
        return None

    def refusal(self, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
        """Return the reason why the action may not evict others for tasks of a queue; None if it may."""
        return None

    def over_limit(self, queue: Queue, task: Task) -> Refusal | None:
        """Return the reason why a task would exceed the limits of a queue; None if it would not."""
        return self.session.points.allocatable(queue, task)

    def spares(self, preemptor: Queue, want: Want, task: Task) -> SpareReason | None:
        """Return the reason to spare a single pod, by its queue and the preemptor's; None if it may be evicted."""
        return None

    def keeps(self, preemptor: Queue, want: Want, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        """Return the reason to spare a whole unit, after the evictions so far; else None. As `Floor.spares`."""
        return None

    def overshoot(self, preemptor: Queue, unit: Sequence[Task]) -> float:
        """Return how far a unit takes its queues below their deserved share."""
        return 0.0

    def out_of_turn(self, preemptor: Queue, units: Iterable[Sequence[Task]]) -> frozenset[str]:
        """Return the queues that lost some of these units and would go before the queue that has the resources now."""
        return frozenset()


class BetweenJobs(Policy):
    """Preempt: victims are of the same queue and another job."""

    action = "preempt"
    point = "preemptable"

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        own: NDArray[np.bool_] = (pool.queue == pool.queue_of(job)) & (pool.job != job.row)
        return own & _takes_something(pool, task)

    def votes_by_kind(self, pool: VictimPool, job: Job) -> bool:
        # The votes depend on what a job holds (drf) and on the tasks of others; those of other plugins on anything.
        holds_nothing = not any(job.allocated.values()) and not bool((pool.job == job.row).any())
        return holds_nothing and VOTING_BY_KIND.issuperset(self.session.points.voters(self.point))

    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        return HOLDS_SOMETHING if task.spec.best_effort else NOT_LOWER


class WithinJob(BetweenJobs):
    """Preempt, in a second round: victims are tasks of the same job with lower priority."""

    votes_by_kind = Policy.votes_by_kind

    def possible(self, pool: VictimPool, job: Job) -> None:
        return None  # what plugins always spare are tasks of other jobs

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        own: NDArray[np.bool_] = pool.job == job.row
        return own & _takes_something(pool, task)


class BetweenQueues(Policy):
    """Reclaim: victims run, and are of other queues that are reclaimable and hold more than they deserve."""

    action = "reclaim"
    point = "reclaimable"
    elsewhere = True
    may_cross = True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.floor = Floor(session)
        self._open = np.array([session.queues[name].reclaimable for name in sorted(session.queues)], dtype=bool)
        self._spared: dict[tuple[object, ...], SpareReason | None] = {}
        """Reasons to spare victims, by kind of preemptor and victim; valid until a task moves."""
        self._spared_at = 0

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = pool.running & (pool.queue != pool.queue_of(job)) & self._open[pool.queue]
        return chosen

    def votes_by_kind(self, pool: VictimPool, job: Job) -> bool:
        return True

    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        queue = self.session.queues[self.session.state.jobs[victim.group].queue]
        return NOT_RUNNING if queue.reclaimable else QUEUE_CLOSED

    def plugins_allow(self, want: Want, candidates: Sequence[Task]) -> list[Task]:
        assert isinstance(want.preemptor, Task)
        own = self.session.queues[self.session.state.jobs[want.preemptor.group].queue]
        return super().plugins_allow(want, [task for task in candidates if self.spares(own, want, task) is None])

    def queue_refusal(self, queue: Queue) -> Refusal | None:
        return self.session.points.overused(queue)

    def refusal(self, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
        if self.session.points.preemptive(queue, tasks):
            return None
        return Refusal("QueueMayNotReclaim", f"queue {queue.name} has what it deserves and may not reclaim", queue.name)

    def spares(self, preemptor: Queue, want: Want, task: Task) -> SpareReason | None:
        session, moves = self.session, self.session.ledger.moves
        if moves != self._spared_at:
            self._spared.clear()
            self._spared_at = moves
        owner = session.state.jobs[task.group].queue
        key = (preemptor.name, owner, task.spec, want.short, *want.asked.items())
        if key not in self._spared:
            self._spared[key] = nothing_to_take(preemptor, session.queues[owner], want, task)
        return self._spared[key]

    def keeps(self, preemptor: Queue, want: Want, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        return self.floor.spares(preemptor, want.asked, unit, crossing=crossing)

    def overshoot(self, preemptor: Queue, unit: Sequence[Task]) -> float:
        return self.floor.overshoot(preemptor, unit)

    def out_of_turn(self, preemptor: Queue, units: Iterable[Sequence[Task]]) -> frozenset[str]:
        # If plugins compute deserved shares, these limit what moves. Otherwise the order of queues must: two queues,
        # each allowed by the plugins' votes, would reclaim the same resources from each other forever.
        if self.session.points.tiers_of("preemptive"):
            return frozenset()
        jobs, queues = self.session.state.jobs, self.session.queues
        owners = [queues[name] for name in sorted({jobs[unit[0].group].queue for unit in units})]
        if any(queue.figures.deserved for queue in (preemptor, *owners)):
            return frozenset()
        ours = self._turn(preemptor)
        return frozenset(owner.name for owner in owners if ours > self._turn(owner))

    def _turn(self, queue: Queue) -> tuple[object, ...]:
        """Return the place of a queue in the order, which must not fall when it loses a pod or rise when it gets one.

        With a tree of weights, the allocations of the branches on the path to the queue decide; otherwise the keys of
        plugins, then the queue's weighted allocation. Shares of all resources count, largest first, because the moved
        resources may not be the dominant ones.
        """
        session = self.session
        if session.weighted_shares is not None:
            return session.weighted_shares(queue)
        *keys, _, _ = session.points.queue_key(queue)
        return (*keys, [share / queue.weight for share in ranked_shares(queue.allocated, session.total)])


class LesserGangs(Policy):
    """Gangpreempt: victims are of other jobs of the queue, of lower priority; the least important go first."""

    action = "gangpreempt"
    point = "unified_evictable"
    by_task = False

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = (
            (pool.queue == pool.queue_of(job)) & (pool.job != job.row) & (pool.priority < job.priority)
        )
        chosen &= pool.job_open
        return chosen

    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        return NOT_LOWER

    def in_order(self, bundles: Iterable[Bundle], queue: Queue, gangs: Gangs) -> list[Bundle]:
        """Return bundles, all whole or all spare, in order of eviction."""
        return sorted(bundles, key=lambda bundle: gangs.key(bundle.job), reverse=True)


class GangsOfOtherQueues(BetweenQueues):
    """Gangreclaim: victims as for reclaim; queues lose in the order that plugins give."""

    action = "gangreclaim"
    point = "unified_evictable"
    by_task = False

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = super().candidates(pool, job, task) & pool.job_open
        return chosen

    def plugins_allow(self, want: Want, candidates: Sequence[Task]) -> list[Task]:
        return self.session.points.victims(self.point, want.preemptor, candidates) if candidates else []

    def keeps(self, preemptor: Queue, want: Want, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        reason = super().keeps(preemptor, want, unit, crossing=crossing)
        spared = (self.spares(preemptor, want, task) for task in unit) if reason is None else ()
        return reason or next((why for why in spared if why is not None), None)

    def in_order(self, bundles: Iterable[Bundle], queue: Queue, gangs: Gangs) -> list[Bundle]:
        """Return bundles, all whole or all spare, in order of eviction: by queue, gain and importance."""
        points, queues = self.session.points, self.session.queues
        ordered = sorted(bundles, key=lambda bundle: gangs.key(bundle.job), reverse=True)
        ordered.sort(key=lambda bundle: -bundle.gain)
        names = {bundle.job.queue for bundle in ordered}
        keys = {name: points.queue_key(queues[name]) for name in sorted(names)}
        ordered.sort(key=lambda bundle: keys[bundle.job.queue], reverse=True)
        lost = {name: points.victim_queue_key(queues[name], queue) for name in sorted(names)}
        return sorted(ordered, key=lambda bundle: lost[bundle.job.queue])


def _takes_something(pool: VictimPool, task: Task | None) -> NDArray[np.bool_]:
    """Return the tasks (T,) that hold resources, unless the preemptor requests nothing."""
    best_effort = task is not None and task.spec.best_effort
    return pool.best_effort if best_effort else np.ones(len(pool.tasks), dtype=bool)


POLICIES: dict[str, type[Policy]] = {
    policy.action: policy for policy in (BetweenJobs, BetweenQueues, LesserGangs, GangsOfOtherQueues)
}
"""The policies by action; `WithinJob` goes with the first."""
