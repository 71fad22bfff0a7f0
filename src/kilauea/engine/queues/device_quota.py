"""Quotas of queues on devices that resource claims ask for: `deviceclass/<class>` in a queue's capability.

Each queue on the way to the root counts for itself which claims its pods hold, so a claim that several of them share
counts once, and until the last of them is gone. A class without an entry is not limited, nor is one with 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kilauea.engine.model import status
from kilauea.engine.model.claims.charges import CLASS, Charges, charges_of, class_of_quota, total
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal
from kilauea.engine.session import Session

NONE: Mapping[str, int] = {}


class DeviceQuota:
    """Counts the devices of queues.

    Args:
        session: the session.
        way_up: the queues that bind a queue: itself, its parent, and so on.
        capacities: amounts of capacities count, too.
    """

    def __init__(self, session: Session, way_up: Callable[[Queue], Sequence[Queue]], *, capacities: bool) -> None:
        self._session = session
        self._way_up = way_up
        self._capacities = capacities
        self._claims = session.state.resource_claims.claims
        self._users: dict[str, Counter[str]] = {}
        """By queue, by claim: pods that hold it."""
        self._held: dict[str, Charges] = {}
        """By queue, what its pods hold."""
        self._admitted: dict[str, Charges] = {}
        """By queue, what is kept for groups that are admitted and not placed."""
        for task in session.state.with_resource_claims.values():
            if task.node and task.status not in (*status.ENDED, status.RELEASING):
                self.placed(task)
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

    def _charges(self, key: str) -> Charges:
        claim = self._claims.get(key)
        return {} if claim is None else charges_of(claim.demand, capacities=self._capacities)

    # --- pods come and go

    def placed(self, task: Task) -> None:
        """Count the claims of a pod that takes room."""
        for queue in self._queues_of(self._session.state.jobs.get(task.group)):
            users = self._users.setdefault(queue.name, Counter())
            for key in _keys(task):
                users[key] += 1
                if users[key] == 1:
                    self._held[queue.name] = total((self._held.get(queue.name, NONE), self._charges(key)))

    def gone(self, task: Task) -> None:
        """Count the claims of a pod no longer."""
        for queue in self._queues_of(self._session.state.jobs.get(task.group)):
            users, held = self._users.setdefault(queue.name, Counter()), self._held.setdefault(queue.name, {})
            for key in _keys(task):
                users[key] -= 1
                if not users[key]:
                    for name, amount in self._charges(key).items():
                        held[name] = max(held.get(name, 0) - amount, 0)

    def held(self, queue: Queue) -> Charges:
        """Amounts that the pods of a queue hold."""
        return {name: amount for name, amount in self._held.get(queue.name, NONE).items() if amount}

    # --- who may have what

    def refusal(self, queue: Queue, task: Task) -> Refusal | None:
        """The first queue on the way up that lacks devices for a pod."""
        for at in self._way_up(queue) if task.claims else ():
            users = self._users.get(at.name, Counter())
            wanted = total(self._charges(key) for key in _keys(task) if not users[key])
            if (refusal := self._beyond(at, wanted, self._held.get(at.name, NONE), "QueueQuotaExceeded")) is not None:
                return refusal
        return None

    def refusal_of_minimum(self, at: Queue, job: Job) -> Refusal | None:
        """The reason why a queue has not the devices for a job's minimum, beside what it has admitted."""
        minimum = self._minimum(job)
        if not minimum or not at.devices:
            return None
        held = total((self._held.get(at.name, NONE), self._admitted.get(at.name, NONE)))
        refusal = self._beyond(at, minimum, held, "QueueQuotaInsufficient")
        if refusal is None:
            return None
        message = f"queue resource quota insufficient: insufficient dra-resource-exceeded: {refusal.message}"
        return refusal._replace(message=message)

    def admit(self, job: Job) -> None:
        """A job is admitted: what its minimum asks is kept for it."""
        minimum = self._minimum(job)
        for at in self._queues_of(job) if minimum else ():
            self._admitted[at.name] = total((self._admitted.get(at.name, NONE), minimum))

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

    def _minimum(self, job: Job) -> Charges:
        """Charges of the minimum of a job: by role if roles have minima, else its first pods by name."""
        tasks = sorted((t for t in job.tasks.values() if t.claims), key=lambda t: (t.namespace, t.name, t.uid))
        if not tasks:
            return {}
        if not job.role_minimum:
            keys = dict.fromkeys(key for task in tasks[: job.min_available] for key in _keys(task))
            return total(self._charges(key) for key in keys)
        first: dict[str, Task] = {}
        for task in tasks:
            first.setdefault(task.role, task)
        return total(
            {name: amount * number for name, amount in self._of_task(first[role]).items()}
            for role, number in sorted(job.role_minimum.items())
            if role in first
        )

    def _of_task(self, task: Task) -> Charges:
        return total(self._charges(key) for key in _keys(task))


def _keys(task: Task) -> list[str]:
    """Claims of a pod, each once."""
    return list(dict.fromkeys(ref.key for ref in task.claims if ref.key))
