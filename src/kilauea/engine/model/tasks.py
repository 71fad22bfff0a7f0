"""A task is a pod as the scheduler sees it; its `TaskSpec` contains everything that decides where the pod may run.

Pods with equal requests share one `TaskSpec`, so that everything about it is computed once. Labels, images and the
namespace are separate: they matter only in clusters that select pods by them (`shapes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import (
    Pod,
    PodSpec,
    PodStatus,
)
from kilauea.api.numa import DECISION, parse_decision
from kilauea.api.shared import shared
from kilauea.api.times import parse_time
from kilauea.engine.model import status
from kilauea.engine.model.asked import AskedTable
from kilauea.engine.model.claims.table import ClaimRef, claims_of_pod
from kilauea.engine.model.devices import Record, record_of
from kilauea.engine.model.kubernetes_groups import named_group, object_key, queue_in
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.wishes import wants_numa


class TaskTemplate(NamedTuple):
    """The constant fields of a task that all pods of a template have in common.

    Equal tasks share one, which saves memory with many tasks. The fields are those of `Task`.
    """

    namespace: str
    role: str
    images: tuple[int, tuple[str, ...]]
    priority_class: str
    gated: bool
    foreign_gate: bool
    no_preemption: bool
    owner_kind: str
    cooldown: str
    limits: tuple[int, int]
    qos: int
    numa: bool
    containers: tuple[str, ...]
    queue: str
    scheduler: str
    preemptable: bool | None


class TaskDetails(NamedTuple):
    """Fields that few tasks have; all other tasks share one empty instance, to save memory. See `Task`."""

    claims: tuple[ClaimRef, ...] = ()
    nominated: str = ""
    scheduled: int = 0
    ends: int = 0
    record: Record = ()
    numa_cpus: tuple[tuple[int, int], ...] = ()
    sub_job: str = ""
    foreign: bool = False


NO_DETAILS = TaskDetails()
"""The details of a task without any of these fields."""


@dataclass(slots=True, eq=False)
class Task:
    """A pod: its identity, requests and node. A session changes `status` and `node`, and restores them."""

    key: str
    """`namespace/name`."""
    uid: str
    group: str
    """Key of the pod group, empty for a pod without one."""
    spec: TaskSpec
    template: TaskTemplate
    """Fields that it shares with other pods of its template; each is also an attribute of the task."""
    priority: int
    node: str
    status: int
    index: int
    """The number at the end of its name; -1 for names without one (`index_in_name`)."""
    creation: int
    """Time at which the pod was created, in microseconds since 1970; 0 if unknown."""
    label_class: int = 0
    row: int = -1
    """Row in the placements."""
    shape: TaskShape | None = None
    """Set while a session evaluates the task."""
    started: int = 0
    """Time at which a running pod started, in microseconds since 1970; 0 if it does not run, or if unknown."""
    version: int = -1
    """The newest version of the pod that was seen; -1 if it is not a number."""
    details: TaskDetails = NO_DETAILS
    """Fields that few tasks have; each is also an attribute of the task."""

    def detail(self, details: TaskDetails) -> None:
        """Replace the details."""
        self.details = details if details != NO_DETAILS else NO_DETAILS

    @property
    def name(self) -> str:
        """The name of the pod, the last part of its key."""
        return self.key[self.key.index("/") + 1 :]

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Fallback of the task order: presence of an index in the name, the index, creation time, UID."""
        index = self.index
        return (0, index, self.creation, self.uid) if index >= 0 else (1, 0, self.creation, self.uid)

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.template.namespace

    @property
    def role(self) -> str:
        """The task of the job that the pod belongs to, from its annotation; empty without one."""
        return self.template.role

    @property
    def images(self) -> tuple[int, tuple[str, ...]]:
        """The number of its containers, and the images of containers and image volumes with their tags."""
        return self.template.images

    @property
    def priority_class(self) -> str:
        """Its priority class; empty without one."""
        return self.template.priority_class

    @property
    def gated(self) -> bool:
        """True if it has a scheduling gate."""
        return self.template.gated

    @property
    def foreign_gate(self) -> bool:
        """True if it has a scheduling gate other than the queue's own."""
        return self.template.foreign_gate

    @property
    def no_preemption(self) -> bool:
        """True if its preemption policy is Never."""
        return self.template.no_preemption

    @property
    def owner_kind(self) -> str:
        """Kind of the pod's first owner."""
        return self.template.owner_kind

    @property
    def cooldown(self) -> str:
        """Time after scheduling for which the pod must not be evicted; the duration as written."""
        return self.template.cooldown

    @property
    def limits(self) -> tuple[int, int]:
        """Limits of cpu and memory; 0 without a limit."""
        return self.template.limits

    @property
    def qos(self) -> int:
        """Its QoS class as a number; see `kilauea.engine.model.service_classes`."""
        return self.template.qos

    @property
    def numa(self) -> bool:
        """True if its cpus must be on certain NUMA nodes."""
        return self.template.numa

    @property
    def containers(self) -> tuple[str, ...]:
        """Names of its init containers and then its containers, if any requests an extended resource."""
        return self.template.containers

    @property
    def queue(self) -> str:
        """The queue that it names for a PodGroup of Kubernetes, or for the group that it does not have yet."""
        return self.template.queue

    @property
    def scheduler(self) -> str:
        """Name of the scheduler that the pod is for."""
        return self.template.scheduler

    @property
    def preemptable(self) -> bool | None:
        """The pod's own annotation; None without one."""
        return self.template.preemptable

    @property
    def claims(self) -> tuple[ClaimRef, ...]:
        """Its resource claims."""
        return self.details.claims

    @property
    def nominated(self) -> str:
        """The node that it is nominated to; empty for none."""
        return self.details.nominated

    @property
    def scheduled(self) -> int:
        """Time at which the pod was scheduled, in microseconds since 1970, if it has a cooldown; 0 if unknown."""
        return self.details.scheduled

    @property
    def ends(self) -> int:
        """Time at which a terminating pod should have ended, in microseconds since 1970; 0 if it does not terminate."""
        return self.details.ends

    @property
    def record(self) -> Record:
        """Parts of cards that are assigned to the pod, from its annotations."""
        return self.details.record

    @property
    def numa_cpus(self) -> tuple[tuple[int, int], ...]:
        """NUMA nodes and numbers of processors that are assigned to the pod, from its annotation."""
        return self.details.numa_cpus

    @property
    def sub_job(self) -> str:
        """Key of the sub-gang, in a job with sub-group policies."""
        return self.details.sub_job

    @property
    def foreign(self) -> bool:
        """True if it belongs to another scheduler: it uses resources, and is never evicted."""
        return self.details.foreign

    @property
    def stage(self) -> Stage:
        """The stage of its life."""
        details = self.details
        return Stage(self.node, self.status, details.nominated, details.scheduled, details.ends, self.started)

    @stage.setter
    def stage(self, stage: Stage) -> None:
        self.node, self.status, nominated, scheduled, ends, self.started = stage
        if self.details is not NO_DETAILS or nominated or scheduled or ends:
            self.detail(self.details._replace(nominated=nominated, scheduled=scheduled, ends=ends))


def task_of(pod: Pod, table: AskedTable) -> Task:
    """Return the task of a pod, which is not in any table yet.

    Raises:
        QuantityError, ValueError: a field cannot be read.
    """
    meta, annotations = pod.metadata, pod.annotations
    group = named_group(pod)
    gates = [g.name for g in pod.spec.scheduling_gates] if pod.spec.scheduling_gates else []
    owners = meta.owner_references
    cooldown = pod.labels.get(wellknown.COOLDOWN_TIME) or annotations.get(wellknown.COOLDOWN_TIME, "")
    stage = stage_of(pod, cooldown)
    asked = table.of(pod)
    spec = asked.spec
    containers = _containers(pod.spec) if spec.extended else ()
    template = _template_for(asked.images[1], containers)(  # by position, which is faster: in the order of its fields
        pod.namespace,
        annotations.get(wellknown.TASK_ROLE) or pod.labels.get(wellknown.TASK_ROLE, ""),
        asked.images,
        pod.spec.priority_class_name or "",
        bool(gates),
        bool(gates) and gates != [wellknown.QUEUE_ALLOCATION_GATE],
        pod.spec.preemption_policy == "Never",
        owners[0].kind if owners else "",
        cooldown,
        asked.limits,
        asked.qos,
        wants_numa(annotations),
        containers,
        queue_in(annotations, pod.labels) if object_key(group) or not group else "",
        pod.spec.scheduler_name or wellknown.SCHEDULER_NAMES[0],
        _preemptable(annotations, pod.labels),
    )
    task = Task(
        key=pod.key,
        uid=shared(meta.uid or pod.key),  # the history in this process stores the same string
        group=group,
        spec=spec,
        template=template,
        priority=_priority(pod),
        node=stage.node,
        status=stage.status,
        index=index_in_name(meta.name),
        creation=parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0,
        started=stage.started,
    )
    task.detail(
        TaskDetails(
            claims_of_pod(pod) if pod.spec.resource_claims else (),
            stage.nominated,
            stage.scheduled,
            stage.ends,
            record_of(annotations) if spec.device_source is not None else (),
            tuple(sorted(parse_decision(annotations[DECISION]).items())) if DECISION in annotations else (),
        )
    )
    return task


_template = lru_cache(maxsize=4096)(TaskTemplate)
"""Return the template with these fields; equal templates are the same object."""
LONGEST = 4096
"""Templates whose names have more characters are not cached: the images of a pod can have a megabyte."""


def _template_for(*names: tuple[str, ...]) -> Callable[..., TaskTemplate]:
    return _template if sum(sum(map(len, each)) for each in names) <= LONGEST else TaskTemplate


class Stage(NamedTuple):
    """The stage of a pod's life: all fields of a task that change after its creation."""

    node: str
    status: int
    nominated: str
    scheduled: int
    ends: int = 0
    """Time at which a terminating pod should have ended, in microseconds since 1970; 0 if it does not terminate."""
    started: int = 0
    """Time at which a running pod started, in microseconds since 1970; 0 if it does not run, or if unknown."""


def stage_of(pod: Pod, cooldown: str) -> Stage:
    """Return the stage of a pod with this cooldown."""
    pod_status, node = pod.status, shared(pod.spec.node_name or "")
    return Stage(
        node,
        status.of_pod(pod_status.phase if pod_status else None, bool(pod.metadata.deletion_timestamp), node),
        (pod_status and pod_status.nominated_node_name) or "",
        _scheduled(pod) if cooldown else 0,
        _ends(pod.metadata.deletion_timestamp),
        _started(pod_status),
    )


def index_in_name(name: str) -> int:
    """The number at the end of `job-task-3`; -1 for names with fewer than three parts or another ending."""
    parts = name.rsplit("-", 2)
    last = parts[-1]
    return int(last) if len(parts) == 3 and last.isascii() and last.isdigit() and len(last) < 10 else -1


def _ends(deletion: str | None) -> int:
    """Return the time in a deletion timestamp, which includes the grace period; 0 if missing or invalid."""
    try:
        return parse_time(deletion) if deletion else 0
    except ValueError:
        return 0


def _started(pod_status: PodStatus | None) -> int:
    """Return the time at which a running pod started; 0 if missing or invalid."""
    if pod_status is None or pod_status.phase != "Running" or not pod_status.start_time:
        return 0
    try:
        return parse_time(pod_status.start_time)
    except ValueError:
        return 0


def _scheduled(pod: Pod) -> int:
    """Return the time at which a running pod was scheduled; 0 if its conditions do not contain it."""
    if pod.status is None or pod.status.phase != "Running":
        return 0
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            try:
                return parse_time(condition.last_transition_time or "")
            except ValueError:
                return 0
    return 0


def _containers(spec: PodSpec) -> tuple[str, ...]:
    return tuple(container.name for container in (*(spec.init_containers or ()), *(spec.containers or ())))


def _priority(pod: Pod) -> int:
    text = pod.annotations.get(wellknown.TASK_PRIORITY)
    if text is not None:
        try:
            value = int(text)
        except ValueError:
            value = 1 << 31
        if -(1 << 31) <= value < 1 << 31:
            return value
    return 1 if pod.spec.priority is None else pod.spec.priority


def _preemptable(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool | None:
    """The pod's own annotation; None without one."""
    text = annotations.get(wellknown.PREEMPTABLE, labels.get(wellknown.PREEMPTABLE))
    return None if text is None else bool(wellknown.parse_bool(text))
