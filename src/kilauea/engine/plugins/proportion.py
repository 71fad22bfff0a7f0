"""Queues share the cluster by their weights.

What:
    Computes each queue's deserved share in every session. The total of the cluster is divided by weight; no queue gets
    more than it requests or than its `capability`, none gets less than its `guarantee`, and the remainder is divided
    again. The queue with the smaller fraction of its deserved share goes first; a queue that has all of it waits. A
    paused queue deserves at most what it holds.

    Jobs are admitted as long as they fit into the maximum of their queue, but they start only within its deserved
    share. A gang that needs more than that waits while other queues request their shares, even if nodes are idle: two
    queues of equal weight whose gangs each need more than half of the cluster wait for each other. The reason names
    both amounts, and `kilauea explain` shows the weight that starts one of them.

Why:
    There are no amounts to maintain; idle queues leave their shares to the others.

Arguments:
    None. Flags: `enableQueueOrder`, `enabledOverused`, `enabledAllocatable`, `enableReclaimable`, `enableJobEnqueued`,
    `enablePreemptive`.

Example:
    tiers:
    - plugins:
      - name: proportion

Difference from the original:
    Queues without jobs also have shares (deserved 0); in Volcano they have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kilauea.api.quantity import format_amount
from kilauea.engine.eviction.units import whole_gang
from kilauea.engine.extension import PERMIT, REJECT, Refusal, SpareReason
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import (
    ALWAYS,
    Amounts,
    add,
    cap,
    dominant_share,
    exceeded,
    is_empty,
    largest,
    less_equal,
)
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.queues.quota import beyond, closed, no_room_for_minimum
from kilauea.engine.session import Session

NOTHING: dict[str, float] = {}
OVER_DESERVED = "queue {queue} would exceed its deserved {resource}"
WITHIN_DESERVED = SpareReason("QueueWithinDeserved", "its queue holds no more than it deserves")


class Proportion(Plugin):
    """See the module."""

    name = "proportion"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._settle_capabilities()
        self._pour_out()
        for queue in session.queues.values():
            queue.figures.share = self._share(queue)
        session.add_queue_order(self.name, lambda queue: (-queue.priority, self._share(queue)))
        session.add_overused(self.name, self._overused)
        session.add_allocatable(self.name, self._allocatable)
        session.add_preemptive(self.name, self._preemptive)
        session.add_reclaimable(self.name, self._over_deserved, why=WITHIN_DESERVED)
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_enqueued(self.name, self._enqueued)

    def on_session_close(self, session: Session) -> None:
        for queue in session.queues.values():
            queue.figures.share = self._share(queue)

    # --- deserved

    def _settle_capabilities(self) -> None:
        """Compute the limit of each queue: its capability, without the guarantees of the others."""
        queues = self._session.queues.values()
        guaranteed: dict[str, float] = {}
        for queue in queues:
            add(guaranteed, queue.guarantee)
        free = exceeded(self._session.total, guaranteed)
        for queue in queues:
            available = dict(free)
            add(available, queue.guarantee)
            queue.figures.deserved = {}
            queue.figures.real_capability = available
            if queue.capability:
                unlimited = {name: queue.capability.get(name, 0) or math.inf for name in ALWAYS}
                queue.figures.real_capability = cap(available, {**queue.capability, **unlimited})

    def _pour_out(self) -> None:
        """Water-filling (spec of the queue plugins, 4.2). Within a round all queues see the same remainder."""
        session = self._session
        unmet = sorted((q for q in session.queues.values() if session.job_counts[q.row]), key=lambda q: q.name)
        remaining: dict[str, float] = dict(session.total)
        while unmet:
            weights = sum(queue.weight for queue in unmet)
            more: dict[str, float] = {}
            less: dict[str, float] = {}
            still = []
            for queue in unmet:
                before = queue.figures.deserved or NOTHING
                after = self._next_deserved(queue, before, remaining, queue.weight / weights)
                queue.figures.deserved = after
                add(more, exceeded(after, before))
                add(less, exceeded(before, after))
                if not (less_equal(_usable(queue), after) or same(before, after)):
                    still.append(queue)
            add(less, remaining)
            left = exceeded(less, more)
            unmet = still
            if is_empty(left) or same(left, remaining):
                break
            remaining = left

    def _next_deserved(self, queue: Queue, before: Amounts, remaining: Amounts, part: float) -> dict[str, float]:
        after = dict(before)
        add(after, remaining, part)
        after = cap(after, queue.figures.real_capability or NOTHING)
        after = cap(after, _usable(queue), missing_is_zero=True)
        return largest(after, queue.guarantee)

    # --- callbacks

    def _share(self, queue: Queue) -> float:
        return dominant_share(queue.allocated, queue.figures.deserved or NOTHING)

    def _overused(self, queue: Queue) -> Refusal | None:
        if not less_equal(queue.figures.deserved or NOTHING, queue.allocated):
            return None
        return Refusal("QueueOverused", f"queue {queue.name} has all that it deserves", queue.name)

    def _allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        found = self._beyond(queue, task.spec.requests)
        return found if found is None or not found.resource else self._with_gang(found, queue, task)

    def _with_gang(self, found: Refusal, queue: Queue, task: Task) -> Refusal:
        """Return a refusal, with a note if the whole gang does not fit into the deserved share next to the others.

        Such a gang may wait forever, because enqueue checks only the limit of the queue.
        """
        job, resource = self._session.state.jobs[task.group], found.resource
        figures = queue.figures
        deserved, most = ((each or NOTHING).get(resource, 0) for each in (figures.deserved, figures.real_capability))
        asked = sorted(task.spec.requests.get(resource, 0) for task in job.tasks.values())
        least = sum(asked[: job.min_available])
        if job.min_available < 2 or not deserved < least <= most:
            return found
        needs, gets = format_amount(resource, least), format_amount(resource, deserved)
        hint = f"its gang needs {needs}, and the queue deserves {gets} while others ask too"
        return found._replace(message=f"{found.message}: {hint}")

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        wanted: dict[str, float] = {}
        for task in tasks:
            add(wanted, task.spec.requests)
        return self._beyond(queue, wanted) is None

    def _beyond(self, queue: Queue, wanted: Amounts) -> Refusal | None:
        """Return the reason why these amounts do not fit into the queue; None if they do."""
        deserved = queue.figures.deserved or NOTHING
        return closed(queue) or beyond(queue, deserved, wanted, self._session.total, OVER_DESERVED)

    def _over_deserved(self, _: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        left: dict[str, dict[str, float]] = {}
        victims = []
        # A whole gang is one unit: what its queue holds before its eviction counts for all of its pods.
        counts_down = not whole_gang(self._session.state.jobs, candidates)
        for task in candidates:
            job = self._session.state.jobs.get(task.group)
            queue = self._session.queues.get(job.queue) if job else None
            if queue is None:
                continue
            allocated = left.setdefault(queue.name, dict(queue.allocated))
            if not less_equal(allocated, queue.figures.deserved or NOTHING):
                if counts_down:
                    add(allocated, task.spec.requests, -1)
                victims.append(task)
        return victims, PERMIT

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        queue = self._session.queues[job.queue]
        refusal = closed(queue)
        if refusal is None and job.min_resources is not None and queue.figures.real_capability is not None:
            refusal = no_room_for_minimum(queue, queue.figures.real_capability, job)
        return (PERMIT, None) if refusal is None else (REJECT, refusal)

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            add(self._session.queues[job.queue].inqueue, job.ungate(job.min_resources))


def same(a: Amounts, b: Amounts) -> bool:
    """Return True if amounts are exactly equal, with missing ones as zero."""
    return all(a.get(name, 0) == b.get(name, 0) for name in {**a, **b})


def _usable(queue: Queue) -> Amounts:
    """Return what a queue requests; of a paused queue, only what it holds, so that others can use the remainder."""
    return queue.allocated if queue.paused else queue.request
