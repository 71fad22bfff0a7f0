"""Quotas of queues for devices in resource claims: `deviceclass/<class>` in a queue's capability.

A pod with extended resources claims devices only on nodes where devices serve them. So before its node is known, only
the devices that it claims on every node count; a predicate excludes nodes where it would exceed its queue's quota.

Each queue on the path to the root counts the claims of its pods, so a claim that several of them share counts once, and
until the last of them is gone. A class without an entry, or with 0, is unlimited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model import status
from kilauea.engine.model.claims.charges import CLASS, Charges, charges_of, class_of_quota, total
from kilauea.engine.model.claims.served import is_served_everywhere, served_alike, served_at, served_everywhere
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal
from kilauea.engine.session import Session

NONE: Mapping[str, int] = {}


class Minimum(NamedTuple):
    """Claims of the minimum of a job."""

    claims: tuple[str, ...] = ()
    """Claims of its pods, without repeats."""
    others: Mapping[str, int] = NONE
    """Charges for pods that do not exist yet."""


BEYOND = Rejection("DeviceQuotaExceeded", "node(s) had devices for the extended resource that the queue may not use")


class DeviceQuota:
    """Counts the devices of queues.

    Args:
        session: the session.
        way_up: the queues that limit a queue: itself, its parent, and so on.
        capacities: amounts of capacities count, too.
    """

    def __init__(self, session: Session, way_up: Callable[[Queue], Sequence[Queue]], *, capacities: bool) -> None:
        self._session = session
        self._way_up = way_up
        self._capacities = capacities
        self._table = session.state.resource_claims
        self._claims = self._table.claims
        self._users: dict[str, Counter[str]] = {}
        """By queue, by claim: pods that hold it."""
        self._held: dict[str, Charges] = {}
        """By queue, the amounts that its pods hold."""
        self._admitted: dict[str, list[Minimum]] = {}
        """By queue, the minima of groups that are admitted and not placed."""
        for task in session.state.with_resource_claims.values():
            row = int(session.state.placements.node[task.row])
            if row >= 0 and task.status not in (*status.ENDED, status.RELEASING):
                self.placed(task, row)
        for job in self._jobs_with_claims():
            if job.phase == INQUEUE and job.scheduled_count < max(job.min_available, 1):
                self.admit(job)

    @staticmethod
    def concerns(session: Session) -> bool:
        """Return True if any queue limits devices and any pod has claims."""
        return bool(session.state.with_resource_claims) and any(queue.devices for queue in session.queues.values())

    def _jobs_with_claims(self) -> list[Job]:
        jobs = self._session.state.jobs
        keys = dict.fromkeys(
            task.group for task in self._session.state.with_resource_claims.values() if task.group in jobs
        )
        return sorted((jobs[key] for key in keys), key=lambda job: job.order)

    def _queues_of(self, job: Job | None) -> Sequence[Queue]:
        queue = self._session.queues.get(job.queue) if job is not None else None
        return self._way_up(queue) if queue is not None else ()

    def _charges(self, key: str, row: int | None = None) -> Charges:
        """Charges of a claim on the node in a row; without a row, those on every node."""
        claim, content = self._claims.get(key), self._table.contents.get(key)
        if claim is None:
            return {}
        demand = claim.demand
        if content is not None and not claim.allocated:
            nodes = self._session.nodes
            served = served_everywhere(nodes, content) if row is None else served_at(nodes, content, row)
            demand = content.on(served).demand
        return charges_of(demand, capacities=self._capacities)

    # --- nodes that offer an extended resource themselves, among those where devices serve it

    def register(self, plugin: str) -> None:
        """Exclude nodes where a pod would exceed the device quota of its queue."""
        session = self._session
        if all(column.all() for column in session.nodes.by_class.values()):
            return
        session.add_task_trait(plugin, self._queue_with_choice)
        session.add_predicate(
            plugin,
            lambda shape, nodes: self._within(shape, nodes, session.queues[str(shape.traits[plugin])]),
            [BEYOND],
            scope=Scope.CLUSTER,
            applies=lambda shape: plugin in shape.traits,
        )

    def _queue_with_choice(self, task: Task) -> str | None:
        """The queue of a pod that claims devices only on some nodes."""
        contents = (self._table.contents.get(ref.key) for ref in task.claims if ref.special)
        job = self._session.state.jobs.get(task.group)
        if job is None or job.queue not in self._session.queues:
            return None
        nodes = self._session.nodes
        return job.queue if any(each and not is_served_everywhere(nodes, each) for each in contents) else None

    def _within(self, shape: TaskShape, nodes: NodeRows, queue: Queue) -> NDArray[np.bool_]:
        """(n,) nodes where the devices that a pod would claim are within the quotas of a queue and its ancestors."""
        table = nodes.table
        content = next(wish.special for wish in shape.claims if wish.special is not None)
        out = np.ones(len(nodes), dtype=bool)
        for here, served in served_alike(table, content, np.arange(len(table)) if nodes.rows is None else nodes.rows):
            special = charges_of(content.on(served).demand, capacities=self._capacities)
            out[here] = not any(self._lacks(at, shape, special) for at in self._way_up(queue))
        return out

    def _lacks(self, at: Queue, shape: TaskShape, special: Charges) -> bool:
        users = self._users.get(at.name, Counter())
        others = (
            charges_of(wish.demand, capacities=self._capacities)
            for wish in shape.claims
            if wish.special is None and not users[wish.key]
        )
        return self._beyond(at, total((special, *others)), self._held.get(at.name, NONE), "") is not None

    # --- placements

    def placed(self, task: Task, row: int) -> None:
        """Count the claims of a pod that uses resources on a node."""
        for queue in self._queues_of(self._session.state.jobs.get(task.group)):
            users = self._users.setdefault(queue.name, Counter())
            for key in _keys(task):
                users[key] += 1
                if users[key] == 1:
                    self._held[queue.name] = total((self._held.get(queue.name, NONE), self._charges(key, row)))

    def gone(self, task: Task, row: int) -> None:
        """Stop counting the claims of a pod."""
        for queue in self._queues_of(self._session.state.jobs.get(task.group)):
            users, held = self._users.setdefault(queue.name, Counter()), self._held.setdefault(queue.name, {})
            for key in _keys(task):
                users[key] -= 1
                if not users[key]:
                    for name, amount in self._charges(key, row).items():
                        held[name] = max(held.get(name, 0) - amount, 0)

    def held(self, queue: Queue) -> Charges:
        """Amounts that the pods of a queue hold."""
        return {name: amount for name, amount in self._held.get(queue.name, NONE).items() if amount}

    # --- limits

    def refusal(self, queue: Queue, task: Task) -> Refusal | None:
        """The first queue on the path to the root that lacks devices for a pod."""
        for at in self._way_up(queue) if task.claims else ():
            users = self._users.get(at.name, Counter())
            wanted = total(self._charges(key) for key in _keys(task) if not users[key])
            if (refusal := self._beyond(at, wanted, self._held.get(at.name, NONE), "QueueQuotaExceeded")) is not None:
                return refusal
        return None

    def refusal_of_minimum(self, at: Queue, job: Job) -> Refusal | None:
        """The reason why a queue does not have the devices for a job's minimum in addition to admitted groups."""
        minimum = self._minimum(job)
        if minimum == Minimum() or not at.devices:
            return None
        admitted = self._admitted.get(at.name, [])
        known = {key for key, users in self._users.get(at.name, Counter()).items() if users}
        kept = dict.fromkeys(key for each in admitted for key in each.claims if key not in known)
        held = total((self._held.get(at.name, NONE), self._of_claims(kept), *(each.others for each in admitted)))
        new = [key for key in minimum.claims if key not in known and key not in kept]
        refusal = self._beyond(at, total((self._of_claims(new), minimum.others)), held, "QueueQuotaInsufficient")
        if refusal is None:
            return None
        message = f"queue resource quota insufficient: insufficient dra-resource-exceeded: {refusal.message}"
        return refusal._replace(message=message)

    def admit(self, job: Job) -> None:
        """Reserve the devices of an admitted job's minimum."""
        minimum = self._minimum(job)
        for at in self._queues_of(job) if minimum != Minimum() else ():
            self._admitted.setdefault(at.name, []).append(minimum)

    def _beyond(self, at: Queue, wanted: Mapping[str, int], held: Mapping[str, int], code: str) -> Refusal | None:
        limited = {class_of_quota(name) for name, limit in at.devices.items() if limit or not name.startswith(CLASS)}
        for name, amount in sorted(wanted.items()):
            counts = name.startswith(CLASS)
            limit = at.devices.get(name, 0)
            if class_of_quota(name) not in limited or (counts and not limit):
                continue
            if held.get(name, 0) + amount > limit:
                text = f"queue {at.name} would exceed the {name} that it may use"
                return Refusal(code, text, at.name, name, amount, max(limit - held.get(name, 0), 0))
        return None

    def _minimum(self, job: Job) -> Minimum:
        """The claims of a job's minimum: by role if roles have minima, otherwise of its first pods by name."""
        tasks = sorted((t for t in job.tasks.values() if t.claims), key=lambda t: (t.namespace, t.name, t.uid))
        if not job.role_minimum:
            return Minimum(tuple(dict.fromkeys(key for task in tasks[: job.min_available] for key in _keys(task))))
        first, others = list[Task](), list[Charges]()
        for role, number in sorted(job.role_minimum.items()):
            listed = [task for task in tasks if task.role == role][:number]
            first += listed
            if listed:
                # Pods that do not exist yet will make the same claims as the first one, except those that it shares.
                own = [key for key in _keys(listed[0]) if not any(key in _keys(task) for task in listed[1:])]
                others += [self._of_claims(own)] * (number - len(listed))
        return Minimum(tuple(dict.fromkeys(key for task in first for key in _keys(task))), total(others))

    def _of_claims(self, keys: Iterable[str]) -> Charges:
        return total(map(self._charges, keys))


def _keys(task: Task) -> list[str]:
    """Claims of a pod, without repeats."""
    return list(dict.fromkeys(ref.key for ref in task.claims if ref.key))
