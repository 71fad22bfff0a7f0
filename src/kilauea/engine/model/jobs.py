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

SERVICE = "pod:"
"""Begins the name of the job of a service, and then the name of its pod; pod groups cannot have such names."""


class Job(TaskCounts):
    """A pod group and its tasks. Either can be missing: pods can be created before their group."""

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
        """Tasks whose CPUs must be on specific NUMA nodes."""
        self.priority = 0
        self.clear_group()

    def clear_group(self) -> None:
        """Remove the pod group, and keep the tasks."""
        self.group = False
        self.service = False
        """True for a single pod of kube-scheduler, which has no queue (`kilauea.engine.services`)."""
        self.of_kubernetes = False
        """True for a PodGroup of Kubernetes (`kilauea.engine.model.kubernetes_groups`)."""
        self.default_queue = ""
        """The queue if the pods do not name one; empty if the group names its queue."""
        self.own_priority: int | None = None
        """The priority in its spec, which overrides the class."""
        self.whole = False
        """True if all of its pods are evicted together, including those beyond its minimum."""
        self.queue = ""
        self.min_available = 0
        self.min_resources: dict[str, float] | None = None
        self.uncounted_minimum: Mapping[str, int] = NOTHING
        """The part of minResources that only quotas count: `requests.cpu`, `count/pods` etc.
        """
        self.waiting_time: int | None = None
        """Maximum waiting time of the group, in microseconds; None if not set."""
        self.cards = NO_CARDS
        """Accelerator cards by model that the group will request; those of its pods count once they exist."""
        self.service_type = ""
        """The declared type of service: `inference`, `training`, or any other."""
        self.budget = ("", "")
        """Pods that must be available, or may be unavailable; numbers or percentages as written.
        """
        self.role_minimum: Mapping[str, int] = NOTHING
        self.role_minimum_total = 0
        self.role_counts = None
        self.priority_class = ""
        self.preemptable: bool | None = None
        self.phase = PENDING
        self.topology: NetworkTopology | None = None
        self.task_topology = ("", "", "")
        """Affinity, anti-affinity and order of tasks, from annotations."""
        self.own_wishes = 0
        """Bits for fields of the group that need plugins (`kilauea.engine.model.wishes`)."""
        self.sub_groups: tuple[SubGroup, ...] = ()
        self.sub_group_minimum: Mapping[str, int] = NOTHING
        """Minimum number of sub-gangs, by sub-group policy."""
        self._dissolve()
        self.creation = 0
        self.order = (0, self.key)

    def set_group(self, obj: PodGroup, default_queue: str, labels_of: Callable[[Task], Mapping[str, str]]) -> None:
        """Set the fields from a pod group.

        Args:
            obj: the pod group.
            default_queue: the queue of groups that do not name one.
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
        elif self.role_counts is None:  # otherwise they are up to date, and there can be thousands of tasks
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
        """Set the fields from a PodGroup of Kubernetes. Arguments and errors are those of `set_group`."""
        self.set_group(as_pod_group(obj), default_queue, labels_of)
        self.of_kubernetes = True
        self.own_priority = obj.spec.priority
        self.whole = obj.whole
        self.default_queue = "" if queue_in(obj.annotations, obj.labels) else default_queue

    def settle_kubernetes_group(self) -> None:
        """Set the queue from the pods, if the group does not name one."""
        if self.default_queue:
            named = (task for task in self.tasks.values() if task.queue)
            first = min(named, key=lambda task: task.order, default=None)
            self.queue = first.queue if first is not None else self.default_queue

    def set_service(self, task: Task) -> None:
        """Make this the job of a single pod without a queue or admission."""
        self.group = self.service = True
        self.min_available = 1
        self.phase = INQUEUE
        self.creation = task.creation
        self.order = (self.creation, self.key)

    # --- tasks

    def add_task(self, task: Task, labels: Mapping[str, str]) -> None:
        """Add a task with its status."""
        self.tasks[task.key] = task
        self.numa_tasks += task.numa
        if self.sub_groups:
            self._join(task, labels)
        self._count(task, task.status, 1)

    def _dissolve(self) -> None:
        """Remove all tasks from their sub-gangs."""
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
        """Remove a task."""
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
        """Yield the pending tasks."""
        return (task for task in self.tasks.values() if task.status == status.PENDING)

    # --- counting functions (spec 1.5.3)

    @property
    def releasing_count(self) -> int:
        """Number of tasks that are terminating on a node."""
        if not self.counts[status.RELEASING]:
            return 0
        return sum(1 for task in self.tasks.values() if task.status == status.RELEASING and task.node)

    @property
    def wishes(self) -> int:
        """Bits for fields of the group and its tasks that need plugins."""
        return self.own_wishes | (NUMA_BIT if self.numa_tasks else 0)

    @property
    def is_pending(self) -> bool:
        """True if the job is not admitted yet."""
        return not self.group or self.phase in (PENDING, "")

    def roles_have(self, states: Iterable[int], *, best_effort_too: bool = False) -> bool:
        """Return True if every role has its minimum of tasks in these states.

        Also True if the gang's minimum is below the sum of the roles' minima (Volcano then skips the check). With
        `best_effort_too`, pending tasks without requests count, as they do for readiness.
        """
        if self.role_counts is None or self.min_available < self.role_minimum_total:
            return True
        states = tuple(states)
        return all(
            self.role_count(role, states, best_effort_too) >= minimum for role, minimum in self.role_minimum.items()
        )

    def role_is_ready(self, role: str, minimum: int) -> bool:
        """Return True if a role has this many ready tasks."""
        return self.role_count(role, status.READY, True) >= minimum

    def role_count(self, role: str, states: tuple[int, ...], best_effort_too: bool) -> int:
        """Number of tasks of a role in these states."""
        counts = (self.role_counts or {}).get(role)
        if counts is None:
            return 0
        return sum(counts[s] for s in states) + (counts[-1] if best_effort_too else 0)

    # --- sub-gangs (spec 1.5.5)

    def sub_groups_have(self, enough: Callable[[SubJob], bool]) -> bool:
        """Return True if every sub-group policy with a minimum has that many sufficient sub-gangs."""
        if not self.sub_group_minimum:
            return True
        have = Counter(sub_job.group for sub_job in self.sub_jobs.values() if enough(sub_job))
        return all(have[name] >= minimum for name, minimum in self.sub_group_minimum.items() if minimum > 0)

    # --- resources (spec 1.5.4 and, for the queue plugins, 1.2)

    def total_request(self) -> dict[str, float]:
        """Return the sum of the requests of all tasks that hold resources or are pending."""
        total: dict[str, float] = {}
        for task in self.tasks.values():
            if task.status in HOLDING or task.status == status.PENDING:
                add(total, task.spec.requests)
        return total

    def waiting_request(self) -> dict[str, float]:
        """Return the sum of the requests of pending tasks."""
        total: dict[str, float] = {}
        if self.counts[status.PENDING]:
            for spec, count in Counter(task.spec for task in self.pending()).items():
                add(total, spec.requests, count)
        return total

    def elastic(self) -> dict[str, float]:
        """Return the resources that the job holds beyond its minimum."""
        return exceeded(self.allocated, self.min_resources or {})

    def reserve(self) -> dict[str, float]:
        """Return the resources of the minimum that are not allocated yet."""
        out = {}
        for name, amount in (self.min_resources or {}).items():
            missing = amount - self.allocated.get(name, 0)
            if missing > 0 or name in ALWAYS:
                out[name] = max(missing, 0)
        return out

    def ungate(self, amounts: dict[str, float]) -> dict[str, float]:
        """Return the amounts minus the requests of tasks with a foreign gate, at least zero."""
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
        """True if it runs with its minimum placed; the rest of its minResources is still reserved."""
        held = self.count(HOLDING)
        return self.phase == RUNNING and self.min_resources is not None and held >= self.min_available


def waiting_time(annotations: Mapping[str, str]) -> int | None:
    """Return the maximum waiting time of a pod group, in microseconds: the first annotation above zero."""
    for key in wellknown.WAITING_TIME:
        wait = positive_duration(annotations.get(key))
        if wait is not None:
            return wait
    return None


def positive_duration(text: str | None) -> int | None:
    """Microseconds of a duration; None if it is invalid or not above zero."""
    try:
        wait = parse_duration(text) if text else 0
    except ValueError:
        return None
    return wait if wait > 0 else None
