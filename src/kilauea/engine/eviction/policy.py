"""The rules of each evicting action: one policy per action, for searches and for explanations.

A policy says which pods may be thought of, which of those the plugins let go, what queues keep (`floor.py`), and why a
pod is spared. Preempt and reclaim look for room on a node for one task after another (`by_node.py`), gangpreempt and
gangreclaim for room in a network domain for a whole gang (`by_domain.py`). Spec of the scheduler, 5.5, 5.6 and 5.8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.bundles import Bundle
from kilauea.engine.eviction.floor import Floor, Want, nothing_to_take
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import ranked_shares
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import SpareReason
from kilauea.engine.session import Session

STARVING, PENDING = "starving", "pending"
"""The jobs that reclaim serves: those that starve, as the newest Volcano does, or all with waiting pods."""

OUT_OF_TURN = "QueueOutOfTurn"
"""The code where the order of queues, and nothing else, keeps one from taking what another holds."""

NOT_RUNNING = SpareReason("NotRunning", "does not run yet")
QUEUE_CLOSED = SpareReason("QueueNotReclaimable", "its queue is not reclaimable")
HOLDS_SOMETHING = SpareReason("HoldsSomething", "a pod that asks for nothing takes from no pod that does")
NOT_LOWER = SpareReason("PriorityNotLower", "its priority is not lower")


class Policy(ABC):
    """The rules of one action.

    Class attributes:
        action: name of the action.
        point: the extension point at which plugins let victims go.
        elsewhere: it takes from other queues; else from the preemptor's own.
        by_task: room is made for one task after another; else for a gang at once.
        may_cross: a unit may take its queue from above to below what it deserves, where no other choice is left.
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
        """(T,) tasks of the pool that may be thought of for a job, or for one task of it."""

    @abstractmethod
    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        """Return the reason why a pod of the queues in question is not among the candidates."""

    def serves_pending(self, session: Session) -> bool:
        """Return True if the action serves every pod that waits; else only jobs that plugins find starving."""
        return self.elsewhere and session.conf.action_arguments.get(self.action, {}).get("reclaimFor") != STARVING

    def plugins_allow(self, want: Want, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that the plugins let go."""
        return self.session.points.victims(self.point, want.preemptor, candidates) if candidates else []

    def queue_refusal(self, queue: Queue) -> Refusal | None:
        """Return the reason why a queue gets no turn; None if it does."""
        return None

    def refusal(self, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
        """Return the reason why no room may be made for tasks of a queue; None if it may."""
        return None

    def over_limit(self, queue: Queue, task: Task) -> Refusal | None:
        """Return the reason why a queue may not have a task beside what it holds now; None if it may."""
        return self.session.points.allocatable(queue, task)

    def spares(self, preemptor: Queue, want: Want, task: Task) -> SpareReason | None:
        """Return the reason to spare a single pod, by its queue and the preemptor's; None if it may be evicted."""
        return None

    def keeps(self, preemptor: Queue, want: Want, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        """Return the reason to spare a whole unit, after the evictions so far; else None. As `Floor.spares`."""
        return None

    def overshoot(self, preemptor: Queue, unit: Sequence[Task]) -> float:
        """Return how far a unit takes its queues below what they deserve."""
        return 0.0

    def out_of_turn(self, preemptor: Queue, units: Iterable[Sequence[Task]]) -> frozenset[str]:
        """The queues that lost some of these units and would come before the queue that has the room now."""
        return frozenset()


class BetweenJobs(Policy):
    """Preempt: victims are of the same queue and another job."""

    action = "preempt"
    point = "preemptable"

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        own: NDArray[np.bool_] = (pool.queue == pool.queue_of(job)) & (pool.job != job.row)
        return own & _takes_something(pool, task)

    def not_a_candidate(self, job: Job, task: Task, victim: Task) -> SpareReason:
        return HOLDS_SOMETHING if task.spec.best_effort else NOT_LOWER


class WithinJob(BetweenJobs):
    """Preempt, in a second round: victims are lesser tasks of the same job."""

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
        """Reasons for which victims stay, by preemptor and victim alike; valid until a task moves."""
        self._spared_at = 0

    def candidates(self, pool: VictimPool, job: Job, task: Task | None = None) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = pool.running & (pool.queue != pool.queue_of(job)) & self._open[pool.queue]
        return chosen

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
        # Where plugins say what queues deserve, that has bounded what moves. Elsewhere the order of the queues has to:
        # two of them, each with a vote of the plugins for it, would take the same room from each other forever.
        if self.session.points.tiers_of("preemptive"):
            return frozenset()
        jobs, queues = self.session.state.jobs, self.session.queues
        owners = [queues[name] for name in sorted({jobs[unit[0].group].queue for unit in units})]
        if any(queue.figures.deserved for queue in (preemptor, *owners)):
            return frozenset()
        ours = self._turn(preemptor)
        return frozenset(owner.name for owner in owners if ours > self._turn(owner))

    def _turn(self, queue: Queue) -> tuple[object, ...]:
        """The place of a queue among others, which must not fall when it loses a pod nor rise when it gets one.

        Where a plugin has a tree of weights, what the branches on the way to the queue hold decides; elsewhere what
        plugins say, then what the queue holds for its weight. Shares of all resources count, the largest first: what
        moves may be none of those of which the queues hold the most.
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

    def in_order(self, bundles: Iterable[Bundle], queue: Queue) -> list[Bundle]:
        """Bundles of one kind in the order in which they go."""
        return sorted(bundles, key=lambda bundle: self.session.points.job_key(bundle.job), reverse=True)


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

    def in_order(self, bundles: Iterable[Bundle], queue: Queue) -> list[Bundle]:
        """Bundles of one kind in the order in which they go: by queue, by what they bring, by importance."""
        session = self.session
        ordered = sorted(bundles, key=lambda bundle: session.points.job_key(bundle.job), reverse=True)
        ordered.sort(key=lambda bundle: -bundle.gain)
        ordered.sort(key=lambda bundle: session.points.queue_key(session.queues[bundle.job.queue]), reverse=True)
        return sorted(ordered, key=lambda b: session.points.victim_queue_key(session.queues[b.job.queue], queue))


def _takes_something(pool: VictimPool, task: Task | None) -> NDArray[np.bool_]:
    """(T,) a task that asks for nothing takes only from tasks that ask for nothing."""
    best_effort = task is not None and task.spec.best_effort
    return pool.best_effort if best_effort else np.ones(len(pool.tasks), dtype=bool)


POLICIES: dict[str, type[Policy]] = {
    policy.action: policy for policy in (BetweenJobs, BetweenQueues, LesserGangs, GangsOfOtherQueues)
}
"""The policies by action; `WithinJob` goes with the first."""
