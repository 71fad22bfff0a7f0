"""A job: a pod group and its tasks, with the counts that gang scheduling asks for (spec of the scheduler, 1.5).

`Job` is the truth and changes task by task; `JobTable` holds the same figures as columns, brought up to date only for
jobs that changed, so that a cycle over a quiet cluster needs no loop over its jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.api import wellknown
from kilauea.api.quantity import resource_amounts
from kilauea.api.scheduling import PodGroup
from kilauea.api.times import parse_time
from kilauea.engine.model import status
from kilauea.engine.model.resources import ALWAYS, ResourceAxis, add, exceeded
from kilauea.engine.model.status import CHARGED, HOLDING
from kilauea.engine.model.tasks import Task

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
"""Phases of a pod group."""


class Job:
    """A pod group and its tasks. It may lack either: pods can come before their group."""

    __slots__ = (
        "allocated",
        "counts",
        "creation",
        "group",
        "key",
        "min_available",
        "min_resources",
        "name",
        "namespace",
        "order",
        "pending_best_effort",
        "phase",
        "preemptable",
        "priority",
        "priority_class",
        "queue",
        "role_counts",
        "role_minimum",
        "role_minimum_total",
        "row",
        "tasks",
        "topology",
        "version",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.namespace, _, self.name = key.partition("/")
        self.row = -1
        self.tasks: dict[str, Task] = {}
        self.counts = [0] * len(status.NAMES)
        self.pending_best_effort = 0
        self.allocated: dict[str, float] = {}
        """What tasks hold or, within a session, are promised."""
        self.role_counts: dict[str, list[int]] | None = None
        self.priority = 0
        self.clear_group()

    def clear_group(self) -> None:
        """Forget the pod group, keep the tasks."""
        self.group = False
        self.queue = ""
        self.min_available = 0
        self.min_resources: dict[str, float] | None = None
        self.role_minimum: dict[str, int] = {}
        self.role_minimum_total = 0
        self.role_counts = None
        self.priority_class = ""
        self.preemptable: bool | None = None
        self.phase = PENDING
        self.topology: object = None
        self.creation = 0
        self.version = -1
        self.order = (0, self.key)

    def set_group(self, obj: PodGroup, default_queue: str) -> None:
        """Take over a pod group's wishes.

        Raises:
            QuantityError, ValueError: a field cannot be read.
        """
        spec = obj.spec
        minimum: dict[str, float] | None = (
            dict(resource_amounts(spec.min_resources)) if spec.min_resources is not None else None
        )
        self.creation = parse_time(obj.metadata.creation_timestamp) if obj.metadata.creation_timestamp else 0
        self.min_resources = minimum
        self.group = True
        self.queue = spec.queue or default_queue
        self.min_available = spec.min_member
        self.role_minimum = dict(spec.min_task_member or {})
        self.role_minimum_total = sum(self.role_minimum.values())
        self.priority_class = spec.priority_class_name or ""
        text = obj.annotations.get(wellknown.PREEMPTABLE, obj.labels.get(wellknown.PREEMPTABLE))
        self.preemptable = None if text is None else bool(wellknown.parse_bool(text))
        self.phase = (obj.status.phase if obj.status else None) or PENDING
        self.topology = spec.network_topology
        version = obj.metadata.resource_version or ""
        self.version = int(version) if version.isdigit() else -1
        self.order = (self.creation, self.key)
        self.role_counts = None
        if self.role_minimum:
            self.role_counts = {}
            for task in self.tasks.values():
                self._count_role(task, task.status, 1)

    # --- tasks

    def add_task(self, task: Task) -> None:
        """Take in a task with the status it has."""
        self.tasks[task.key] = task
        self._count(task, task.status, 1)

    def remove_task(self, task: Task) -> None:
        """Let go of a task."""
        del self.tasks[task.key]
        self._count(task, task.status, -1)

    def move(self, task: Task, to: int) -> None:
        """Change the status of one of this job's tasks."""
        before = task.status
        counts = self.counts
        counts[before] -= 1
        counts[to] += 1
        if task.spec.best_effort:
            self.pending_best_effort += (to == status.PENDING) - (before == status.PENDING)
        if (before in CHARGED) != (to in CHARGED):
            held = self.allocated
            sign = 1 if to in CHARGED else -1
            for name, amount in task.spec.requests.items():
                held[name] = held.get(name, 0) + sign * amount
        if self.role_counts is not None:
            self._count_role(task, before, -1)
            self._count_role(task, to, 1)
        task.status = to

    def _count(self, task: Task, state: int, sign: int) -> None:
        self.counts[state] += sign
        if state == status.PENDING and task.spec.best_effort:
            self.pending_best_effort += sign
        if state in CHARGED:
            add(self.allocated, task.spec.requests, sign)
        if self.role_counts is not None:
            self._count_role(task, state, sign)

    def _count_role(self, task: Task, state: int, sign: int) -> None:
        assert self.role_counts is not None
        counts = self.role_counts.setdefault(task.role, [0] * (len(status.NAMES) + 1))
        counts[state] += sign
        if state == status.PENDING and task.spec.best_effort:
            counts[-1] += sign

    def pending(self) -> Iterator[Task]:
        """Tasks that wait for a node."""
        return (task for task in self.tasks.values() if task.status == status.PENDING)

    # --- counting functions (spec 1.5.3)

    def count(self, states: Iterable[int]) -> int:
        """Number of tasks in any of the states."""
        counts = self.counts
        return sum(counts[s] for s in states)

    @property
    def ready_count(self) -> int:
        """Tasks that count towards the minimum."""
        c = self.counts
        return c[status.BOUND] + c[status.BINDING] + c[status.RUNNING] + c[status.ALLOCATED] + c[status.SUCCEEDED]

    @property
    def is_ready(self) -> bool:
        """The minimum is placed; best-effort tasks that wait count as placed."""
        return self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """The minimum is placed or promised room that is being freed."""
        waiting = self.counts[status.PIPELINED]
        return waiting + self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Placed and promised tasks are fewer than the minimum (best-effort ones that wait do not count)."""
        return self.counts[status.PIPELINED] + self.ready_count < self.min_available

    @property
    def is_pending(self) -> bool:
        """Not admitted yet."""
        return not self.group or self.phase in (PENDING, "")

    @property
    def valid_count(self) -> int:
        """Tasks that may still take part."""
        return self.count(status.VALID)

    @property
    def scheduled_count(self) -> int:
        """Tasks that the cluster knows to be placed."""
        return self.count(status.SCHEDULED)

    def roles_have(self, states: Iterable[int], *, best_effort_too: bool = False) -> bool:
        """Every role has its minimum of tasks in these states.

        True as well when the gang's minimum is below the sum of the roles' (the original skips the test then). With
        `best_effort_too` waiting tasks without requests count, as they do for readiness.
        """
        if self.role_counts is None or self.min_available < self.role_minimum_total:
            return True
        states = tuple(states)
        return all(
            self.role_count(role, states, best_effort_too) >= minimum for role, minimum in self.role_minimum.items()
        )

    def role_is_ready(self, role: str, minimum: int) -> bool:
        """One role has this many tasks that are ready."""
        return self.role_count(role, status.READY, True) >= minimum

    def role_count(self, role: str, states: tuple[int, ...], best_effort_too: bool) -> int:
        """Number of tasks of a role in these states."""
        counts = (self.role_counts or {}).get(role)
        if counts is None:
            return 0
        return sum(counts[s] for s in states) + (counts[-1] if best_effort_too else 0)

    # --- resources (spec 1.5.4 and, for the queue plugins, 1.2)

    def total_request(self) -> dict[str, float]:
        """What all tasks ask for that hold something or wait."""
        total: dict[str, float] = {}
        for task in self.tasks.values():
            if task.status in HOLDING or task.status == status.PENDING:
                add(total, task.spec.requests)
        return total

    def elastic(self) -> dict[str, float]:
        """What the job holds beyond its minimum."""
        return exceeded(self.allocated, self.min_resources or {})

    def reserve(self) -> dict[str, float]:
        """What of the minimum is not held yet."""
        out = {}
        for name, amount in (self.min_resources or {}).items():
            missing = amount - self.allocated.get(name, 0)
            if missing > 0 or name in ALWAYS:
                out[name] = max(missing, 0)
        return out

    def ungate(self, amounts: dict[str, float]) -> dict[str, float]:
        """The amounts less what tasks ask for that a foreign gate holds back, never below zero."""
        gated = [t for t in self.tasks.values() if t.foreign_gate]
        if not gated:
            return amounts
        out = dict(amounts)
        for task in gated:
            for name, amount in task.spec.requests.items():
                if name in out:
                    out[name] = max(out[name] - amount, 0)
        return out

    @property
    def charged(self) -> bool:
        """Running with its whole gang placed: what is missing of its minimum is still reserved."""
        held = self.count(HOLDING)
        return self.phase == RUNNING and self.min_resources is not None and held >= self.min_available


class JobTable:
    """Columns over the jobs of a state, for the sums and conditions that concern all of them.

    Arrays over jobs have shape (J,), over resources and jobs (R, J). Rows of jobs that are gone are empty and used
    again.
    """

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.jobs: list[Job | None] = []
        self._free: list[int] = []
        self._allocate(16)

    def _allocate(self, size: int) -> None:
        resources = len(self.axis)
        self.allocated = np.zeros((resources, size), dtype=np.int64)
        """(R, J) held by tasks in a HOLDING state."""
        self.pending = np.zeros((resources, size), dtype=np.int64)
        """(R, J) asked by tasks that wait."""
        self.elastic = np.zeros((resources, size), dtype=np.int64)
        """(R, J) held beyond the minimum."""
        self.reserved = np.zeros((resources, size), dtype=np.int64)
        """(R, J) of the minimum, not held yet, of jobs that are admitted."""
        self.admitted = np.zeros((resources, size), dtype=np.int64)
        """(R, J) as `reserved`, but with the whole minimum of jobs that are Inqueue."""
        self.counts = np.zeros((len(status.NAMES), size), dtype=np.int32)
        """(status, J) number of tasks."""
        self.min_available = np.zeros(size, dtype=np.int64)
        self.waiting = np.zeros(size, dtype=bool)
        """Admitted or not, the job has tasks that wait, or is itself not admitted."""
        self.phase = np.zeros(size, dtype=np.int8)
        """Index in PHASES, -1 without a pod group."""
        self.releasing = np.zeros(size, dtype=np.int32)
        """Tasks that are being removed from a node."""
        self.queue: NDArray[np.int32] = np.full(size, -1, dtype=np.int32)
        """Row of the queue, -1 without a pod group or for a queue that does not exist."""

    def __len__(self) -> int:
        return len(self.jobs)

    def admit(self, job: Job) -> None:
        """Give a job a row."""
        if self._free:
            job.row = self._free.pop()
            self.jobs[job.row] = job
        else:
            job.row = len(self.jobs)
            self.jobs.append(job)

    def release(self, job: Job) -> None:
        """Take a job's row away."""
        self.jobs[job.row] = None
        self._free.append(job.row)

    def refresh(self, rows: Iterable[int], queue_rows: Mapping[str, int]) -> None:
        """Bring the rows up to date; all of them when there are new resources or no room."""
        if len(self.jobs) > self.min_available.shape[0] or self.allocated.shape[0] != len(self.axis):
            self._allocate(max(16, 2 * len(self.jobs)))
            rows = range(len(self.jobs))
        for row in rows:
            job = self.jobs[row]
            if job is None:
                self._clear(row)
            else:
                self._write(row, job)
                self.queue[row] = queue_rows.get(job.queue, -1) if job.group else -1

    def _clear(self, row: int) -> None:
        for column in (self.allocated, self.pending, self.elastic, self.reserved, self.admitted, self.counts):
            column[:, row] = 0
        self.phase[row] = -1
        self.queue[row] = -1
        self.waiting[row] = False

    def _write(self, row: int, job: Job) -> None:
        axis = self.axis
        pending: dict[str, float] = {}
        if job.counts[status.PENDING]:
            for task in job.pending():
                add(pending, task.spec.requests)
        self.allocated[:, row] = axis.vector(job.allocated)
        self.pending[:, row] = axis.vector(pending)
        self.elastic[:, row] = axis.vector(job.elastic()) if job.allocated else 0
        self.reserved[:, row], self.admitted[:, row] = 0, 0
        if job.min_resources is not None:
            if job.phase == INQUEUE:
                self.reserved[:, row] = axis.vector(job.ungate(job.reserve()))
                self.admitted[:, row] = axis.vector(job.ungate(job.min_resources))
            elif job.charged:
                self.reserved[:, row] = self.admitted[:, row] = axis.vector(job.ungate(job.reserve()))
        self.counts[:, row] = job.counts
        self.min_available[row] = job.min_available
        self.phase[row] = PHASES.index(job.phase) if job.group and job.phase in PHASES else -1 if not job.group else 0
        self.waiting[row] = job.group and (job.counts[status.PENDING] > 0 or job.is_pending)
        self.releasing[row] = (
            sum(1 for t in job.tasks.values() if t.node and t.status == status.RELEASING)
            if (job.counts[status.RELEASING])
            else 0
        )
