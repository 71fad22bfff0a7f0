"""Objects reduced to the few fields that pages show, in the engine's units.

A cluster may have 50,000 pods, so an object is decoded once, when it arrives from a watch, and stored as a small row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from kilauea.api import batch, core, scheduling, topology
from kilauea.api.meta import ObjectMeta, OwnerReference, ResourceMap, Wire
from kilauea.api.ports import Key
from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.api.times import parse_time
from kilauea.api.wellknown import DEFAULT_QUEUE, GROUP_NAME, ROOT_QUEUE, TASK_ROLE, is_paused
from kilauea.engine.model.hypernodes import Domain, domain_of
from kilauea.engine.model.task_specs import requests_of

Amounts = Mapping[str, float]
"""Amounts by resource, in the engine's units."""
NOTHING: Amounts = MappingProxyType({})
VC_JOB = "batch.volcano.sh"


def amounts_of(resources: ResourceMap | None) -> Amounts:
    """Amounts of a resource list; empty if one of them is invalid, which the scheduler reports."""
    try:
        return resource_amounts(resources)
    except QuantityError:
        return NOTHING


def time_of(text: str | None) -> int:
    """Microseconds since 1970; 0 if missing or invalid."""
    try:
        return parse_time(text) if text else 0
    except ValueError:
        return 0


def _key(metadata: ObjectMeta) -> Key:
    return Key(metadata.namespace or "", metadata.name)


def _controller(metadata: ObjectMeta) -> OwnerReference | None:
    owners = metadata.owner_references or ()
    return next((each for each in owners if each.controller), next(iter(owners), None))


class Pod(NamedTuple):
    """A pod.

    Attributes:
        key: namespace and name.
        uid: its uid.
        group: name of its pod group; empty for none.
        task: name of its task in a Volcano job.
        node: its node; empty while it waits.
        phase: `Pending`, `Running`, `Succeeded`, `Failed`, or `Terminating` while it is being deleted.
        requests: its requests, including `pods`.
        created: microseconds since 1970.
        started: time of its start; 0 before.
        ended: end of its last container; 0 before.
        nominated: the node that it is nominated to.
        reason: the reason in its status why it waits or failed.
        owner: kind and name of its controller.
    """

    key: Key
    uid: str
    group: str
    task: str
    node: str
    phase: str
    requests: Amounts
    created: int
    started: int
    ended: int
    nominated: str
    reason: str
    owner: tuple[str, str]

    @property
    def holds(self) -> bool:
        """True if it uses resources of its node."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")


_shared: dict[bytes, Amounts] = {}
"""Requests by their content: pods of a job share them."""
_MOST_SHARED = 10_000


def _requests(spec: core.PodSpec) -> Amounts:
    try:
        found = requests_of(spec)[0]
    except QuantityError:
        return NOTHING
    if len(_shared) > _MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(msgspec.json.encode(found), MappingProxyType(found))


class _Ended(Wire):
    finished_at: str | None = None
    reason: str | None = None


class _ContainerState(Wire):
    terminated: _Ended | None = None


class _ContainerStatus(Wire):
    state: _ContainerState | None = None


class _PodStatus(Wire):
    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    conditions: list[core.PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    reason: str | None = None
    message: str | None = None


class WatchedPod(Wire):
    """The fields of a Pod that are read."""

    metadata: ObjectMeta
    spec: core.PodSpec = msgspec.field(default_factory=core.PodSpec)
    status: _PodStatus | None = None


def pod(found: WatchedPod) -> Pod:
    """The row of a pod."""
    metadata, spec = found.metadata, found.spec
    status = found.status or _PodStatus()
    notes = metadata.annotations or {}
    phase = status.phase or "Pending"
    if metadata.deletion_timestamp and phase in ("Pending", "Running"):
        phase = "Terminating"
    group = notes.get(GROUP_NAME) or (spec.scheduling_group and spec.scheduling_group.pod_group_name) or ""
    reason = ""
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            reason = condition.message or condition.reason or ""
    ends = [each.state.terminated for each in status.container_statuses or () if each.state and each.state.terminated]
    if phase == "Failed":
        reason = status.message or status.reason or next((each.reason for each in ends if each.reason), "") or ""
    owner = _controller(metadata)
    return Pod(
        _key(metadata),
        metadata.uid or "",
        group,
        notes.get(TASK_ROLE, ""),
        spec.node_name or "",
        phase,
        _requests(spec),
        time_of(metadata.creation_timestamp),
        time_of(status.start_time),
        max((time_of(each.finished_at) for each in ends), default=0) if phase in ("Succeeded", "Failed") else 0,
        status.nominated_node_name or "",
        reason,
        (owner.kind, owner.name) if owner is not None else ("", ""),
    )


class Group(NamedTuple):
    """A pod group of Volcano.

    Attributes:
        key: namespace and name.
        uid: its uid.
        queue: its queue.
        phase: its phase.
        least: minimum number of pods.
        running: running pods.
        created: microseconds since 1970.
        reason: code of the condition that keeps it waiting, such as `NotEnoughResources`; empty if it does not wait.
        message: the same as a sentence.
        since: when that condition became true, microseconds since 1970.
        owner: API group, kind and name of its controller; empty for none.
        priority: name of its priority class.
    """

    key: Key
    uid: str
    queue: str
    phase: str
    least: int
    running: int
    created: int
    reason: str
    message: str
    since: int
    owner: tuple[str, str, str]
    priority: str


def group(found: scheduling.PodGroup) -> Group:
    """The row of a pod group."""
    metadata, spec = found.metadata, found.spec
    status = found.status or scheduling.PodGroupStatus()
    true = [each for each in status.conditions or () if each.status == "True"]
    last = max(true, key=lambda each: each.last_transition_time or "", default=None)
    waits = last if last is not None and last.type != "Scheduled" else None
    owner = _controller(metadata)
    return Group(
        _key(metadata),
        metadata.uid or "",
        spec.queue or DEFAULT_QUEUE,
        status.phase or "Pending",
        spec.min_member,
        status.running or 0,
        time_of(metadata.creation_timestamp),
        (waits.reason or waits.type) if waits is not None else "",
        (waits.message or "") if waits is not None else "",
        time_of(waits.last_transition_time) if waits is not None else 0,
        (owner.api_version.partition("/")[0], owner.kind, owner.name) if owner is not None else ("", "", ""),
        spec.priority_class_name or "",
    )


class Task(NamedTuple):
    """A task of a Volcano job: its name, desired number of pods, and pods by phase."""

    name: str
    replicas: int
    phases: Mapping[str, int]


class Job(NamedTuple):
    """A Volcano job.

    Attributes:
        key: namespace and name.
        uid: its uid.
        queue: its queue.
        phase: its phase.
        message: the message in its status.
        changed: time of the last phase change, microseconds since 1970.
        least: minimum number of pods.
        tasks: its tasks.
        counts: pods by phase, in lower case.
        created: microseconds since 1970.
        retries: restarts.
        priority: name of its priority class.
    """

    key: Key
    uid: str
    queue: str
    phase: str
    message: str
    changed: int
    least: int
    tasks: Sequence[Task]
    counts: Mapping[str, int]
    created: int
    retries: int
    priority: str


def job(found: batch.Job) -> Job:
    """The row of a job."""
    metadata, spec = found.metadata, found.spec
    status = found.status or batch.JobStatus()
    state = status.state or batch.JobState()
    by_task = status.task_status_count or {}
    tasks = [
        Task(
            task.name or f"default{number}",
            task.replicas,
            (by_task.get(task.name or "") or batch.TaskState()).phase or {},
        )
        for number, task in enumerate(spec.tasks or ())
    ]
    counts = {name: getattr(status, name) or 0 for name in ("pending", "running", "succeeded", "failed", "terminating")}
    return Job(
        _key(metadata),
        metadata.uid or "",
        spec.queue or DEFAULT_QUEUE,
        state.phase or "Pending",
        state.message or state.reason or "",
        time_of(state.last_transition_time),
        spec.min_available or 0,
        tasks,
        counts,
        time_of(metadata.creation_timestamp),
        status.retry_count or 0,
        spec.priority_class_name or "",
    )


class Queue(NamedTuple):
    """A queue, with the limits that its object states.

    Attributes:
        name: its name.
        parent: the queue above it; empty for the root.
        state: `Open`, `Paused`, `Closed`, `Closing` or `Unknown`.
        weight: its weight.
        priority: its priority.
        guarantee: guaranteed amounts.
        deserved: deserved amounts; None if they are not in the object.
        capability: maximum amounts; None for no limit.
        allocated: amounts that its pods and those of its descendants hold.
    """

    name: str
    parent: str
    state: str
    weight: int
    priority: int
    guarantee: Amounts
    deserved: Amounts | None
    capability: Amounts | None
    allocated: Amounts


def queue(found: scheduling.Queue) -> Queue:
    """The row of a queue."""
    spec = found.spec or scheduling.QueueSpec()
    status = found.status or scheduling.QueueStatus()
    name = found.metadata.name
    return Queue(
        name,
        "" if name == ROOT_QUEUE else spec.parent or ROOT_QUEUE,
        "Paused" if status.state == "Open" and is_paused(found.annotations) else status.state or "Unknown",
        spec.weight or 0,
        spec.priority or 0,
        amounts_of(spec.guarantee.resource if spec.guarantee else None),
        amounts_of(spec.deserved) or None,
        amounts_of(spec.capability) or None,
        amounts_of(status.allocated),
    )


class Node(NamedTuple):
    """A node.

    Attributes:
        name: its name.
        uid: its uid.
        state: `Ready`, `NotReady`, or `Cordoned` if no new pods may come.
        offers: its allocatable amounts.
        labels: its labels.
        taints: its taints in kubectl's syntax.
    """

    name: str
    uid: str
    state: str
    offers: Amounts
    labels: Mapping[str, str]
    taints: Sequence[str]


class _NodeCondition(Wire):
    type: str = ""
    status: str = ""


class _NodeStatus(Wire):
    allocatable: ResourceMap | None = None
    conditions: list[_NodeCondition] | None = None


class WatchedNode(Wire):
    """The fields of a Node that are read."""

    metadata: ObjectMeta
    spec: core.NodeSpec | None = None
    status: _NodeStatus | None = None


def node(found: WatchedNode) -> Node:
    """The row of a node."""
    spec, status = found.spec or core.NodeSpec(), found.status or _NodeStatus()
    ready = next((each.status for each in status.conditions or () if each.type == "Ready"), "Unknown")
    taints = [f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in spec.taints or ()]
    state = "NotReady" if ready != "True" else "Cordoned" if spec.unschedulable else "Ready"
    labels = found.metadata.labels or {}
    return Node(found.metadata.name, found.metadata.uid or "", state, amounts_of(status.allocatable), labels, taints)


class HyperNode(NamedTuple):
    """A network domain; if it is invalid, `fault` is the reason and its domain is None."""

    name: str
    domain: Domain | None
    fault: str = ""


def hypernode(found: topology.HyperNode) -> HyperNode:
    """The row of a HyperNode."""
    try:
        return HyperNode(found.name, domain_of(found))
    except ValueError as error:
        return HyperNode(found.name, None, str(error))


class _About(Wire):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class WatchedEvent(Wire):
    """The fields of an Event that are read."""

    metadata: ObjectMeta
    involved_object: _About = msgspec.field(default_factory=_About)
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class Event(NamedTuple):
    """An event: its message about an object, its count, and its last time (microseconds since 1970)."""

    key: Key
    about: tuple[str, Key, str]
    """Kind, key and uid of the object."""
    reason: str
    message: str
    type: str
    times: int
    at: int


def event(found: WatchedEvent) -> Event:
    """Convert an event to its row.

    The namespace of the object is always that of the event: permission to write events in one namespace must not affect
    others, although the API server allows it.
    """
    about, own = found.involved_object, found.metadata.namespace or ""
    if about.namespace not in ("", own):
        about = _About(about.kind, own, about.name)
    last = found.last_timestamp or found.event_time or found.first_timestamp or found.metadata.creation_timestamp
    return Event(
        _key(found.metadata),
        (about.kind, Key(about.namespace, about.name), about.uid),
        found.reason,
        found.message,
        found.type,
        found.count or 1,
        time_of(last),
    )


def reader(wire: type[Any], row: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Return a function from the bytes of an object to its row.

    It raises `msgspec.MsgspecError` for what is not such an object.
    """
    decode = msgspec.json.Decoder(wire).decode
    return lambda text: row(decode(text))


READ_POD: Callable[[bytes], Pod] = reader(WatchedPod, pod)
READ_GROUP: Callable[[bytes], Group] = reader(scheduling.PodGroup, group)
READ_JOB: Callable[[bytes], Job] = reader(batch.Job, job)
READ_QUEUE: Callable[[bytes], Queue] = reader(scheduling.Queue, queue)
READ_NODE: Callable[[bytes], Node] = reader(WatchedNode, node)
READ_HYPER_NODE: Callable[[bytes], HyperNode] = reader(topology.HyperNode, hypernode)
READ_EVENT: Callable[[bytes], Event] = reader(WatchedEvent, event)
