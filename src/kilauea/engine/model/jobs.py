"""A job: a pod group and its tasks, with the counts that gang scheduling needs (spec of the scheduler, 1.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from kilauea.api import quantity, wellknown
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.quantity import is_countable, resource_amounts
from kilauea.api.scheduling import NetworkTopology, PodGroup
from kilauea.api.shared import shared
from kilauea.api.times import parse_duration, parse_time
from kilauea.engine.model import status
from kilauea.engine.model.cards import NO_CARDS, card_counts
from kilauea.engine.model.counts import TaskCounts
from kilauea.engine.model.kubernetes_groups import as_pod_group, queue_in
from kilauea.engine.model.resources import ALWAYS, MOST_PODS, add, exceeded, within
from kilauea.engine.model.status import CHARGED, HOLDING
from kilauea.engine.model.subjobs import SubGroup, SubJob, sub_group_of, sub_job_of
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.wishes import NUMA_BIT, wishes_of_group

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
"""Phases of a pod group."""

NOTHING: Mapping[str, int] = MappingProxyType({})


class Job(TaskCounts):
    """A pod group and its tasks. It may lack either: pods can come before their group."""

    __slots__ = (
        "allocated",
        "budget",
        "cards",
        "creation",
        "default_queue",
        "group",
        "key",
        "min_resources",
        "name",
        "namespace",
        "numa_tasks",
        "of_kubernetes",
        "order",
        "own_priority",
        "own_wishes",
        "phase",
        "preemptable",
        "priority",
        "priority_class",
        "queue",
        "role_counts",
        "role_minimum",
        "role_minimum_total",
        "row",
        "service",
        "service_type",
        "sub_group_minimum",
        "sub_groups",
        "sub_jobs",
        "task_topology",
        "tasks",
        "topology",
        "uncounted_minimum",
        "waiting_time",
        "whole",
    )

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        namespace, _, self.name = key.partition("/")
        self.namespace = shared(namespace)
        self.row = -1
        self.tasks: dict[str, Task] = {}
        self.sub_jobs: dict[str, SubJob] = {}
        """Sub-gangs by key; empty for a group without sub-group policies."""
        self.allocated: dict[str, float] = {}
        """Resources that tasks hold or, within a session, are nominated for."""
        self.role_counts: dict[str, list[int]] | None = None
        self.numa_tasks = 0
        """Tasks that want their cpus on certain NUMA nodes."""
        self.priority = 0
        self.clear_group()

    def clear_group(self) -> None:
        """Forget the pod group, keep the tasks."""
        self.group = False
        self.service = False
        """One pod of Kubernetes' own scheduler, in no queue (`kilauea.engine.services`)."""
        self.of_kubernetes = False
        """A PodGroup of Kubernetes (`kilauea.engine.model.kubernetes_groups`)."""
        self.default_queue = ""
        """The queue unless the pods name one; empty if the group names it."""
        self.own_priority: int | None = None
        """The number in its spec, which counts more than the class."""
        self.whole = False
        """All its pods are evicted together, also those beyond its minimum."""
        self.queue = ""
        self.min_available = 0
        self.min_resources: dict[str, float] | None = None
        self.uncounted_minimum: Mapping[str, int] = NOTHING
        """The part of minResources that quotas count and scheduling does not: `requests.cpu`, `count/pods` etc.
        """
        self.waiting_time: int | None = None
        """Time that the group may wait, in microseconds; None if it does not tell."""
        self.cards = NO_CARDS
        """Accelerator cards by model that the group will want; its pods know better once they are there."""
        self.service_type = ""
        """The kind of work that the group declares: `inference`, `training`, or anything."""
        self.budget = ("", "")
        """Number of pods that have to be available, or may be unavailable; numbers or percentages as written.
        """
        self.role_minimum: Mapping[str, int] = NOTHING
        self.role_minimum_total = 0
        self.role_counts = None
        self.priority_class = ""
        self.preemptable: bool | None = None
        self.phase = PENDING
        self.topology: NetworkTopology | None = None
        self.task_topology = ("", "", "")
        """Tasks that belong together, that belong apart, and their order, as annotations say it."""
        self.own_wishes = 0
        """Bits of what the group itself asks of plugins that may not be configured (`kilauea.engine.model.wishes`)."""
        self.sub_groups: tuple[SubGroup, ...] = ()
        self.sub_group_minimum: Mapping[str, int] = NOTHING
        """By sub-group policy: how many of its sub-gangs have to be there."""
        self._dissolve()
        self.creation = 0
        self.order = (0, self.key)

    def set_group(self, obj: PodGroup, default_queue: str, labels_of: Callable[[Task], Mapping[str, str]]) -> None:
        """Take over a pod group's wishes.

        Args:
            obj: the pod group.
            default_queue: the queue of groups that name none.
            labels_of: the labels of a task.

        Raises:
            QuantityError, ValueError: a field cannot be read.
        """
        spec = obj.spec
        minimum: dict[str, float] | None = (
            dict(resource_amounts(spec.min_resources)) if spec.min_resources is not None else None
        )
        self.creation = parse_time(obj.metadata.creation_timestamp) if obj.metadata.creation_timestamp else 0
        self.min_resources = minimum
        named = (spec.min_resources or {}).items()
        self.uncounted_minimum = {n: quantity.amount(n, q) for n, q in named if not is_countable(n)} or NOTHING
        self.waiting_time = waiting_time(obj.annotations)
        self.cards = card_counts(obj.annotations, wellknown.CARD_REQUEST, f"job/{self.key}")
        self.service_type = obj.annotations.get(wellknown.SERVICE_TYPE, "")
        of_budget = (wellknown.MIN_AVAILABLE, wellknown.MAX_UNAVAILABLE)
        self.budget = (obj.annotations.get(of_budget[0], ""), obj.annotations.get(of_budget[1], ""))
        self.group = True
        self.queue = spec.queue or default_queue
        self.min_available = within(spec.min_member, 0, MOST_PODS)
        self.role_minimum = {r: within(m, 0, MOST_PODS) for r, m in (spec.min_task_member or {}).items()} or NOTHING
        self.role_minimum_total = sum(self.role_minimum.values())
        self.priority_class = spec.priority_class_name or ""
        text = obj.annotations.get(wellknown.PREEMPTABLE, obj.labels.get(wellknown.PREEMPTABLE))
        self.preemptable = None if text is None else bool(wellknown.parse_bool(text))
        self.phase = (obj.status.phase if obj.status else None) or PENDING
        self.topology = spec.network_topology
        _, together, apart, order = (obj.annotations.get(key, "") for key in wellknown.TASK_TOPOLOGY)
        self.task_topology = (together, apart, order)
        topologies = (spec.network_topology, *(policy.network_topology for policy in spec.sub_group_policy or ()))
        self.own_wishes = wishes_of_group(obj.annotations, obj.labels, topologies)
        self.order = (self.creation, self.key)
        if not self.role_minimum:
            self.role_counts = None
        elif self.role_counts is None:  # else they have followed all tasks, of which there may be thousands
            self.role_counts = {}
            for task in self.tasks.values():
                self._count_role(task, task.status, 1)
        self.sub_groups = tuple(map(sub_group_of, spec.sub_group_policy or ()))
        self.sub_group_minimum = {g.name: g.minimum for g in self.sub_groups} or NOTHING
        self._dissolve()
        if self.sub_groups:
            for task in self.tasks.values():
                self._join(task, labels_of(task))
                self.sub_jobs[task.sub_job].tally(task, task.status, 1)

    def set_kubernetes_group(
        self, obj: KubernetesPodGroup, default_queue: str, labels_of: Callable[[Task], Mapping[str, str]]
    ) -> None:
        """Take over the wishes of a PodGroup of Kubernetes. Arguments and errors are those of `set_group`."""
        self.set_group(as_pod_group(obj), default_queue, labels_of)
        self.of_kubernetes = True
        self.own_priority = obj.spec.priority
        self.whole = obj.whole
        self.default_queue = "" if queue_in(obj.annotations, obj.labels) else default_queue

    def settle_kubernetes_group(self) -> None:
        """Take the queue from the pods, if the group itself names none."""
        if self.default_queue:
            named = (task for task in self.tasks.values() if task.queue)
            first = min(named, key=lambda task: task.order, default=None)
            self.queue = first.queue if first is not None else self.default_queue

    def set_service(self, task: Task) -> None:
        """Be the job of one pod that is in no queue, and needs no admission."""
        self.group = self.service = True
        self.min_available = 1
        self.phase = INQUEUE
        self.creation = task.creation
        self.order = (self.creation, self.key)

    # --- tasks

    def add_task(self, task: Task, labels: Mapping[str, str]) -> None:
        """Take in a task with the status it has."""
        self.tasks[task.key] = task
        self.numa_tasks += task.numa
        if self.sub_groups:
            self._join(task, labels)
        self._count(task, task.status, 1)

    def _dissolve(self) -> None:
        """Take all tasks out of their sub-gangs."""
        if not self.sub_jobs:  # no task has one then
            return
        self.sub_jobs = {}
        for task in self.tasks.values():
            if task.sub_job:
                task.detail(task.details._replace(sub_job=""))

    def _join(self, task: Task, labels: Mapping[str, str]) -> None:
        """Assign a task to its sub-gang."""
        key, group, values = sub_job_of(self.key, self.sub_groups, labels)
        sub_job = self.sub_jobs.get(key)
        if sub_job is None:
            sub_job = self.sub_jobs[key] = SubJob(key, group, values, self.topology)
        task.detail(task.details._replace(sub_job=key))
        sub_job.tasks[task.key] = task

    def remove_task(self, task: Task) -> None:
        """Let go of a task."""
        del self.tasks[task.key]
        self.numa_tasks -= task.numa
        self._count(task, task.status, -1)
        sub_job = self.sub_jobs.get(task.sub_job)
        if sub_job is not None:
            del sub_job.tasks[task.key]
            if not sub_job.tasks:
                del self.sub_jobs[task.sub_job]

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
        if self.sub_jobs:
            sub_job = self.sub_jobs[task.sub_job]
            sub_job.tally(task, before, -1)
            sub_job.tally(task, to, 1)
        task.status = to

    def _count(self, task: Task, state: int, sign: int) -> None:
        self.tally(task, state, sign)
        if self.sub_jobs:
            self.sub_jobs[task.sub_job].tally(task, state, sign)
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

    @property
    def releasing_count(self) -> int:
        """Tasks that terminate on a node."""
        if not self.counts[status.RELEASING]:
            return 0
        return sum(1 for task in self.tasks.values() if task.status == status.RELEASING and task.node)

    @property
    def wishes(self) -> int:
        """Bits of what the group and its tasks ask of plugins that may not be configured."""
        return self.own_wishes | (NUMA_BIT if self.numa_tasks else 0)

    @property
    def is_pending(self) -> bool:
        """Not admitted yet."""
        return not self.group or self.phase in (PENDING, "")

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

    # --- sub-gangs (spec 1.5.5)

    def sub_groups_have(self, enough: Callable[[SubJob], bool]) -> bool:
        """Every sub-group policy with a minimum has that many sub-gangs that are enough."""
        if not self.sub_group_minimum:
            return True
        have = Counter(sub_job.group for sub_job in self.sub_jobs.values() if enough(sub_job))
        return all(have[name] >= minimum for name, minimum in self.sub_group_minimum.items() if minimum > 0)

    # --- resources (spec 1.5.4 and, for the queue plugins, 1.2)

    def total_request(self) -> dict[str, float]:
        """Sum of the requests of all tasks that hold resources or wait."""
        total: dict[str, float] = {}
        for task in self.tasks.values():
            if task.status in HOLDING or task.status == status.PENDING:
                add(total, task.spec.requests)
        return total

    def waiting_request(self) -> dict[str, float]:
        """Sum of the requests of waiting tasks; most of them ask for the same."""
        total: dict[str, float] = {}
        if self.counts[status.PENDING]:
            for spec, count in Counter(task.spec for task in self.pending()).items():
                add(total, spec.requests, count)
        return total

    def elastic(self) -> dict[str, float]:
        """Resources that the job holds beyond its minimum."""
        return exceeded(self.allocated, self.min_resources or {})

    def reserve(self) -> dict[str, float]:
        """Resources of the minimum that are not held yet."""
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


def waiting_time(annotations: Mapping[str, str]) -> int | None:
    """Return the time that a pod group may wait, in microseconds: the first annotation that is above zero."""
    for key in wellknown.WAITING_TIME:
        wait = positive_duration(annotations.get(key))
        if wait is not None:
            return wait
    return None


def positive_duration(text: str | None) -> int | None:
    """Microseconds of a duration; None if it cannot be read or is not above zero."""
    try:
        wait = parse_duration(text) if text else 0
    except ValueError:
        return None
    return wait if wait > 0 else None
