"""Give queues explicit amounts of resources, and lend what they do not use; flat, or as a tree.

What:
    Each queue names the amounts that it deserves. It may use more, up to its `capability` and to what the guarantees of
    other queues leave, until another queue claims it: a queue below its deserved amounts reclaims from queues above
    theirs. With `enableHierarchy: true`, queues form a tree by `spec.parent`. The limits of a parent apply to its
    children, and the usage of children counts in their parents. Only leaf queues accept jobs.

Why:
    Teams are promised amounts, not weights, and unused amounts should not sit idle.

Arguments:
    ancestorReclaimLevel (integer, 0): number of ancestors that are compared when a queue reclaims from another (tree
    only).
    rootQuota (text, total): `total` limits the root queue to the total of the cluster; `open` leaves it unlimited, as
    Volcano does.
    ancestorShares (text, live): `live` updates the shares of ancestors after every placement; `opening` keeps those
    from the start of the cycle, as Volcano does.
    capacity.DynamicResourceAllocationEnable (true or false, true): `deviceclass/<class>` in a queue's capability limits
    how many devices of a class its pods can claim.
    capacity.DRAConsumableCapacityEnable (true or false, false): `<capacity>.deviceclass/<class>` limits the capacity
    that they request from those devices.

Example:
    tiers:
    - plugins:
      - name: capacity
        enableHierarchy: true

Difference from the original:
    An invalid queue, or a job in a queue with children, affects only itself; Volcano then schedules nothing. The root
    queue has the total of the cluster, and the shares of ancestors are live, both as Volcano's documentation describes.
    A job within the deserved amounts of its queue is admitted even if borrowers fill the queues above it, provided that
    an action reclaims from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.conf import argument
from kilauea.engine.eviction.units import whole_gang
from kilauea.engine.extension import PERMIT, REJECT, SpareReason
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queue_tree import QueueTree, build_queue_tree
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import (
    ALWAYS,
    EPSILON,
    PODS,
    Amounts,
    add,
    cap,
    exceeded,
    insufficient,
    is_empty,
    largest,
    less_equal,
    names,
)
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal
from kilauea.engine.plugin import Plugin
from kilauea.engine.queues.device_quota import DeviceQuota
from kilauea.engine.queues.lending import Lending
from kilauea.engine.queues.quota import beyond, closed, no_room_for_minimum
from kilauea.engine.session import Session

NOTHING: dict[str, float] = {}
FULL = "queue {queue} would exceed the {resource} that it may use"
NOTHING_IN_COMMON = SpareReason("NothingInCommon", "it holds nothing that the pod requests")
NOT_ENTITLED = SpareReason("NotEntitled", "the preemptor's queue is not entitled to what it holds")


@dataclass(frozen=True)
class CapacityArguments:
    """Arguments of capacity."""

    ancestor_level: int = argument("ancestorReclaimLevel", 0, "Ancestors that take part in reclaim.", minimum=0)
    root_quota: str = argument("rootQuota", "total", "`total` or `open`.", choices=("total", "open"))
    ancestor_shares: str = argument("ancestorShares", "live", "`live` or `opening`.", choices=("live", "opening"))
    devices: bool = argument("capacity.DynamicResourceAllocationEnable", True, "Quotas on devices that pods claim.")
    device_capacity: bool = argument("capacity.DRAConsumableCapacityEnable", False, "Quotas on their capacities.")


@dataclass
class Limits:
    """The deserved amounts and limits of queues.

    Attributes:
        tree: children by queue; empty in the flat form.
        by_queue: deserved amounts and limit, by queue.
        deserve_nothing: queues that deserve nothing, whose share is 1.
        counted: the deserved amounts of existing resources, by queue; its share is computed over these.
        upward: queues of the tree with their parents, every child before its parent; without the root.
    """

    tree: QueueTree
    by_queue: dict[str, tuple[dict[str, float], dict[str, float]]] = field(default_factory=dict)
    deserve_nothing: set[str] = field(default_factory=set)
    counted: dict[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    upward: list[tuple[str, str]] = field(default_factory=list)

    def settle(self, name: str, deserved: dict[str, float], limit: dict[str, float]) -> None:
        """Set the metrics of a queue."""
        self.by_queue[name] = (deserved, limit)
        self.counted[name] = tuple((n, value) for n, value in deserved.items() if value >= EPSILON)
        (self.deserve_nothing.add if is_empty(deserved) else self.deserve_nothing.discard)(name)


def room_beside(whole: Amounts, guaranteed: Amounts, queue: Queue) -> dict[str, float]:
    """Return the total without the guarantees of the others."""
    limit = exceeded(whole, guaranteed)
    add(limit, queue.guarantee)
    return limit


class Capacity(Plugin):
    """See the module."""

    name = "capacity"
    depends_on_time = False
    Arguments = CapacityArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._hierarchy = self.conf.is_enabled("hierarchy")
        self._places: dict[str, tuple[object, ...]] = {}
        """The part of sort keys that depends on a queue, by queue."""
        self._changed: dict[str, None] = {}
        """Queues whose part changed since keys were last computed, so that the keys of those below them changed."""
        self._lending = Lending(session)
        self._limits = self._settled()
        self._tree = self._limits.tree
        for name, (deserved, limit) in self._limits.by_queue.items():
            figures = session.queues[name].figures
            figures.deserved, figures.real_capability = deserved, limit
            figures.ancestors = self._tree.ancestors.get(name, ())[::-1]
            figures.reclaim_level = self.arguments.ancestor_level
        if self._hierarchy:
            if ROOT_QUEUE in session.queues and self.arguments.root_quota == "total":
                session.queues[ROOT_QUEUE].figures.capability = dict(session.total)
            self._sum_up()
            session.add_event_handler(self.name, self._placed, self._gone)
            session.add_victim_queue_order(self.name, self._victim_order)
        self._devices: DeviceQuota | None = None
        if self.arguments.devices and DeviceQuota.concerns(session):
            self._limit_devices(session)
        for queue in session.queues.values():
            self._settle_share(queue)
        session.add_queue_order(self.name, self._order)
        session.add_allocatable(self.name, self._allocatable)
        session.add_preemptive(self.name, self._preemptive)
        session.add_reclaimable(self.name, self._reclaimable, why=self._why)
        session.add_unified_evictable(self.name, self._evictable, why=self._why_of_gang)
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_enqueued(self.name, self._enqueued)

    def on_session_close(self, session: Session) -> None:
        for queue in session.queues.values():
            queue.figures.share = self._share(queue)
            if self._devices is not None:
                queue.figures.devices = self._devices.held(queue)

    def _limit_devices(self, session: Session) -> None:
        """Count the devices that pods claim."""
        devices = self._devices = DeviceQuota(session, self._way_up, capacities=self.arguments.device_capacity)
        session.add_event_handler(self.name, devices.placed, devices.gone)
        devices.register(self.name)

    # --- figures

    def _settled(self) -> Limits:
        """Return the metrics that depend only on the queues' objects and the cluster's total, cached between cycles."""
        state, total = self._session.state, self._session.total
        made_of = (state.queue_version, tuple(total.items()), self.arguments, self._hierarchy)
        known = state.kept.get(self.name)
        if known is None or known[0] != made_of:
            known = (made_of, self._tree_limits() if self._hierarchy else self._flat_limits())
            state.kept[self.name] = known
        limits: Limits = known[1]
        return limits

    def _flat_limits(self) -> Limits:
        """Spec of the queue plugins, 2.3."""
        out = Limits(QueueTree())
        guaranteed: dict[str, float] = {}
        for queue in self._session.queues.values():
            add(guaranteed, queue.guarantee)
        for queue in self._session.queues.values():
            limit = room_beside(self._session.total, guaranteed, queue)
            if queue.capability:
                unlimited = {name: queue.capability.get(name, 0) or math.inf for name in ALWAYS}
                limit = cap(limit, {**queue.capability, **unlimited})
            out.settle(queue.name, largest(cap(queue.deserved or NOTHING, limit), queue.guarantee), limit)
        return out

    def _tree_limits(self) -> Limits:
        """Spec of the queue plugins, 2.4, from the root down."""
        queues = self._session.queues
        out = Limits(build_queue_tree(queues))
        ways = ((name, out.tree.ancestors[name]) for name in out.tree.from_root())
        out.upward = [(name, way[-1].name) for name, way in ways if way][::-1]
        root = queues.get(ROOT_QUEUE)
        if root is None:
            return out
        capabilities = {ROOT_QUEUE: self._root_capability(root)}
        out.settle(ROOT_QUEUE, dict(self._session.total), capabilities[ROOT_QUEUE])
        for name in out.tree.from_root():
            children = [queues[child] for child in out.tree.children.get(name, ())]
            guaranteed: dict[str, float] = {}
            for child in children:
                add(guaranteed, child.guarantee)
            for child in children:
                capabilities[child.name] = inherited(child.capability or NOTHING, capabilities[name])
                limit = cap(room_beside(out.by_queue[name][1], guaranteed, child), capabilities[child.name])
                out.settle(child.name, largest(child.deserved or NOTHING, child.guarantee), limit)
        if self.arguments.root_quota == "open":
            deserved: dict[str, float] = {}
            for child_name in out.tree.children.get(ROOT_QUEUE, ()):
                add(deserved, out.by_queue[child_name][0])
            out.settle(ROOT_QUEUE, deserved, capabilities[ROOT_QUEUE])
        return out

    def _root_capability(self, root: Queue) -> dict[str, float]:
        """Return the limit of the whole tree: the cluster's total, or none with an open root."""
        total = self._session.total
        if self.arguments.root_quota == "total":
            return dict(total)
        return {**dict.fromkeys((*ALWAYS, *total), math.inf), **(root.capability or NOTHING)}

    def _sum_up(self) -> None:
        """Add the allocated, requested and admitted amounts of leaves to all of their ancestors."""
        queues = self._session.queues
        sums: dict[str, tuple[dict[str, float], ...]] = {}
        for name, parent in self._limits.upward:
            queue = queues[name]
            if self._tree.is_leaf(name):
                if not (queue.request or queue.inqueue):
                    continue
                below: tuple[dict[str, float], ...] = figures_of(queue)
            elif name in sums:
                below = sums[name]
            else:
                continue
            known = sums.get(parent)
            if known is None:
                sums[parent] = tuple(dict(part) for part in below)
                continue
            for total, part in zip(known, below, strict=True):
                if part:
                    add(total, part)
        for name, below in sums.items():
            for figure, part in zip(figures_of(queues[name]), below, strict=True):
                add(figure, part)

    def _share(self, queue: Queue) -> float:
        """Return the largest ratio of allocated to deserved of a queue; 1 if it deserves nothing."""
        if queue.name in self._limits.deserve_nothing:
            return 1.0
        held, best = queue.allocated, 0.0
        for name, whole in self._limits.counted.get(queue.name, ()) if held else ():
            part = held.get(name, 0) / whole
            best = max(best, part)
        return best

    # --- order

    def _settle_share(self, queue: Queue) -> None:
        place = self._places[queue.name] = self._place(queue)
        queue.figures.share = place[0]

    def _place(self, queue: Queue) -> tuple[float, bool, int, str]:
        return self._share(queue), queue.name in self._limits.deserve_nothing, queue.creation, queue.name

    def _order(self, queue: Queue) -> tuple[object, ...]:
        """Return priority, then share; in a tree, shares of the ancestors, from the root, before that of the queue.

        Two queues are compared by share, creation and name of the first ancestors that differ.
        """
        if not self._hierarchy:
            return (-queue.priority, self._share(queue), queue.name in self._limits.deserve_nothing)
        if self._changed:
            below = self._tree.below
            moved = {name: None for changed in self._changed for name in below.get(changed, (changed,))}
            self._changed.clear()
            self._session.queues_moved(moved)
        way = self._tree.ancestors.get(queue.name, ())
        return (-queue.priority, *[self._places[ancestor.name] for ancestor in way[1:]], self._places[queue.name])

    def _placed(self, task: Task, _: int) -> None:
        self._change(task, 1)

    def _gone(self, task: Task, _: int) -> None:
        self._change(task, -1)

    def _change(self, task: Task, by: int) -> None:
        """Update the ancestors of a queue after a task was added or removed."""
        queue = self._session.queues[self._session.state.jobs[task.group].queue]
        live = self.arguments.ancestor_shares == "live"
        for ancestor in self._tree.ancestors.get(queue.name, ()):
            add(ancestor.allocated, task.spec.requests, by)
            if live:
                self._places[ancestor.name] = self._place(ancestor)
                # The root is above all queues, so its share does not affect their order.
                if ancestor.name != ROOT_QUEUE:
                    self._changed[ancestor.name] = None
        self._places[queue.name] = self._place(queue)
        if live:
            self._changed[queue.name] = None

    def _victim_order(self, queue: Queue, preemptor: Queue) -> int:
        """Queues nearer to the preemptor lose first."""
        return -self._tree.common_level(queue.name, preemptor.name)

    # --- limits

    def _out_of_place(self, queue: Queue) -> Refusal | None:
        """Return the reason why the place of a queue in the tree keeps its jobs from being scheduled."""
        if not self._hierarchy:
            return None
        fault = self._tree.faults.get(queue.name)
        if fault is not None or ROOT_QUEUE not in self._session.queues:
            message = fault.message if fault is not None else "the queue root does not exist"
            return Refusal("QueueFault", message, queue.name)
        if not self._tree.is_leaf(queue.name):
            return Refusal(
                "QueueNotLeaf", f"queue {queue.name} has children; submit jobs to a queue without children", queue.name
            )
        return None

    def _way_up(self, queue: Queue) -> Sequence[Queue]:
        return tuple(self._tree.way_up(queue)) if self._hierarchy else (queue,)

    def _allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        refusal = self._first_beyond(queue, task.spec.requests)
        if refusal is None and self._devices is not None:
            refusal = self._devices.refusal(queue, task)
        return refusal

    def _first_beyond(self, queue: Queue, wanted: Amounts) -> Refusal | None:
        """Return the first queue on the path to the root that these amounts do not fit into."""
        refusal = closed(queue) or self._out_of_place(queue)
        for at in self._way_up(queue) if refusal is None else ():
            refusal = beyond(at, at.figures.real_capability or NOTHING, wanted, self._session.total, FULL)
            if refusal is not None:
                break
        return refusal

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        queue = self._session.queues[job.queue]
        refusal = self._out_of_place(queue) or closed(queue)
        if refusal is None and job.min_resources is not None:
            refusals = (self._no_room(at, job) for at in self._way_up(queue))
            refusal = next((r for r in refusals if r is not None), None)
        if refusal is None and self._devices is not None:
            lacks = (self._devices.refusal_of_minimum(at, job) for at in self._way_up(queue))
            refusal = next((r for r in lacks if r is not None), None)
        return (PERMIT, None) if refusal is None else (REJECT, refusal)

    def _no_room(self, at: Queue, job: Job) -> Refusal | None:
        """Return the reason why a job's minimum does not fit on the path to the root, including lent amounts."""
        limit = at.figures.real_capability or NOTHING
        refusal = no_room_for_minimum(at, limit, job)
        if refusal is None or not (lent := self._lending.room_for(job, at)):
            return refusal
        return no_room_for_minimum(at, {**limit, **{n: limit.get(n, 0) + amount for n, amount in lent.items()}}, job)

    def _enqueued(self, job: Job) -> None:
        if self._devices is not None:
            self._devices.admit(job)
        if job.min_resources is not None:
            for at in self._way_up(self._session.queues[job.queue]):
                add(at.inqueue, job.ungate(job.min_resources))

    # --- reclaim

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Return True if a queue may reclaim: one resource that it requests is within what it deserves (spec 2.9)."""
        wanted: dict[str, float] = {}
        for task in tasks:
            add(wanted, task.spec.requests)
        if closed(queue) or self._out_of_place(queue):
            return False
        future = dict(queue.allocated)
        add(future, wanted)
        if insufficient(future, queue.figures.real_capability or NOTHING, wanted):
            return False
        if within_partly(future, queue.figures.deserved or NOTHING, wanted):
            return True
        for ancestor in self._near_ancestors(queue):
            future = dict(ancestor.allocated)
            add(future, wanted)
            if within_partly(future, ancestor.figures.deserved or NOTHING, wanted):
                return True
        return False

    def _near_ancestors(self, queue: Queue) -> Sequence[Queue]:
        """Ancestors below the root that take part in reclaim, the parent first."""
        ancestors = self._tree.ancestors.get(queue.name, ())[1:]
        return ancestors[::-1][: self.arguments.ancestor_level]

    def _reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        """Return candidates whose queues hold more than they deserve, never below a guarantee (spec 2.8)."""
        jobs, queues = self._session.state.jobs, self._session.queues
        own = jobs.get(reclaimer.group)
        preemptor = queues.get(own.queue) if own else None
        if preemptor is None or self._out_of_place(preemptor):
            return [], REJECT
        left: dict[str, dict[str, float]] = {}
        victims = []
        # A whole gang is one unit: what its queue holds before its eviction counts for all of its pods.
        counts_down = not whole_gang(jobs, candidates)
        for task in candidates:
            job = jobs.get(task.group)
            queue = queues.get(job.queue) if job else None
            if queue is None:
                continue
            chain = [queue, *self._near_ancestors(queue)]
            for at in chain:
                left.setdefault(at.name, dict(at.allocated))
            if self._keeps(queue, task, left, preemptor, reclaimer) is None:
                for at in chain if counts_down else ():
                    add(left[at.name], task.spec.requests, -1)
                victims.append(task)
        return victims, PERMIT

    def _keeps(
        self, queue: Queue, task: Task, left: dict[str, dict[str, float]], preemptor: Queue, reclaimer: Task
    ) -> SpareReason | None:
        """Return the reason to spare a task when queues hold the amounts `left`; None without a reason (spec 2.8)."""
        requests = task.spec.requests
        if not useful(requests) & useful(reclaimer.spec.requests):
            return NOTHING_IN_COMMON
        reason = keeps(queue, left[queue.name], requests)
        if reason is not None:
            return reason
        if (
            not set(names(requests)) & set(names(queue.figures.deserved or NOTHING))
            and self._shares_ancestor(queue, preemptor)
            and not (useful(reclaimer.spec.requests) & set(names(preemptor.figures.deserved or NOTHING)))
        ):
            return NOT_ENTITLED
        for at in self._ancestors_in_contention(queue, preemptor):
            deserved = at.figures.deserved or NOTHING
            counted = [name for name in names(requests) if name in names(deserved)]
            if counted and not over_in_any(left[at.name], deserved, requests):
                what = " or ".join(name for name in counted if name != PODS)
                message = f"{at.name} above its queue holds no more {what} than it deserves"
                return SpareReason("AncestorWithinDeserved", message)
        return None

    def _why(self, reclaimer: Task, task: Task) -> SpareReason:
        jobs, queues = self._session.state.jobs, self._session.queues
        preemptor, queue = queues[jobs[reclaimer.group].queue], queues[jobs[task.group].queue]
        if self._out_of_place(preemptor):
            return NOT_ENTITLED
        left = {at.name: dict(at.allocated) for at in (queue, *self._near_ancestors(queue))}
        return self._keeps(queue, task, left, preemptor, reclaimer) or NOT_ENTITLED

    def _why_of_gang(self, _: Any, task: Task) -> SpareReason:
        queue = self._session.queues[self._session.state.jobs[task.group].queue]
        return keeps(queue, queue.allocated, task.spec.requests) or NOT_ENTITLED

    def _evictable(self, claim: Any, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        """Return the candidates that queues can spare one by one for gangreclaim, all for gangpreempt (spec 2.8)."""
        if claim.action != "gangreclaim":
            return list(candidates), PERMIT
        if self._out_of_place(self._session.queues[claim.job.queue]):
            return [], REJECT
        left: dict[str, dict[str, float]] = {}
        victims = []
        counts_down = not whole_gang(self._session.state.jobs, candidates)
        for task in candidates:
            queue = self._session.queues[self._session.state.jobs[task.group].queue]
            held = left.setdefault(queue.name, dict(queue.allocated))
            if keeps(queue, held, task.spec.requests) is None:
                if counts_down:
                    add(held, task.spec.requests, -1)
                victims.append(task)
        return victims, PERMIT

    def _shares_ancestor(self, queue: Queue, preemptor: Queue) -> bool:
        mine = {ancestor.name for ancestor in self._near_ancestors(queue)}
        return any(ancestor.name in mine for ancestor in self._near_ancestors(preemptor))

    def _ancestors_in_contention(self, queue: Queue, preemptor: Queue) -> list[Queue]:
        """Return ancestors of the victim's queue that are not the preemptor's at the same distance."""
        theirs = list(self._near_ancestors(preemptor))
        return [at for k, at in enumerate(self._near_ancestors(queue)) if k >= len(theirs) or theirs[k].name != at.name]


def figures_of(queue: Queue) -> tuple[dict[str, float], ...]:
    """Return the amounts that a queue holds, requests, lends and has admitted."""
    return queue.allocated, queue.request, queue.elastic, queue.inqueue


def inherited(capability: Amounts, parent: Amounts) -> dict[str, float]:
    """Return a capability, with missing resources inherited from the parent's."""
    out: dict[str, float] = {**parent, **capability}
    for name in ALWAYS:
        if capability.get(name, 0) <= 0:
            out[name] = parent.get(name, 0)
    return out


def keeps(queue: Queue, held: Amounts, requests: Amounts) -> SpareReason | None:
    """Return the reason why a queue keeps a task: its guarantee, or its deserved amounts."""
    after = dict(held)
    add(after, requests, -1)
    if not less_equal(queue.guarantee, after):
        return SpareReason("Guarantee", "its queue would fall below its guarantee")
    deserved = queue.figures.deserved or NOTHING
    counted = [name for name in names(requests) if name in names(deserved)]
    if counted and not over_in_any(held, deserved, requests):
        what = " or ".join(name for name in counted if name != PODS)
        return SpareReason("QueueWithinDeserved", f"its queue holds no more {what} than it deserves")
    return None


def useful(requests: Amounts) -> set[str]:
    """Return the requested resources, without pod slots."""
    return {name for name, amount in requests.items() if amount >= EPSILON and name != PODS}


def within_partly(held: Amounts, limit: Amounts, asked: Amounts) -> bool:
    """Return True if at least one requested resource is within the limit (spec 1.1 `lePartlyDims`)."""
    return any(
        held.get(n, 0) - limit.get(n, 0) < EPSILON
        for n in useful(asked)
        if held.get(n, 0) >= EPSILON or limit.get(n, 0) >= EPSILON
    )


def over_in_any(held: Amounts, deserved: Amounts, asked: Amounts) -> bool:
    """Return True if more than deserved is held of a requested, deserved resource (spec 1.1 `gtPartlyRelevant`)."""
    for name in useful(asked):
        relevant = deserved.get(name, 0) >= EPSILON if name in ALWAYS else name in deserved
        if relevant and held.get(name, 0) > deserved.get(name, 0):
            return True
    return False
