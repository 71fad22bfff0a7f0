"""The Plan: the decisions of a cycle, as data, and why waiting pods still wait.

A plan does not refer to the session: it can be printed, compared, carried out or discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.engine.conf import Finding
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.model.claims.facts import DeviceId
from kilauea.engine.model.claims.table import ClaimAllocation
from kilauea.engine.model.devices import GivenCard
from kilauea.engine.model.volumes import ClaimVolume


class Refusal(NamedTuple):
    """The reason why a queue or a job is refused, with numbers if it is about a resource (in the engine's units)."""

    code: str
    """The reason, for programs."""
    message: str
    """The reason, in words."""
    queue: str = ""
    """The queue that refuses; empty if none does."""
    resource: str = ""
    """The resource concerned, if any."""
    asked: float = 0
    """The amount requested of it."""
    left: float = 0
    """The amount available of it."""


class SpareReason(NamedTuple):
    """The reason why evictions spare a pod: a code, a message, and the plugin whose reason it is, if any."""

    code: str
    words: str
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """A pod starts on a node."""

    pod: str
    """The pod, as `namespace/name`."""
    node: str
    """The node."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations that the bind adds to the pod: key and value, sorted by key."""
    claims: tuple[ClaimAllocation, ...] = ()
    """Its resource claims, with their devices."""
    volumes: tuple[ClaimVolume, ...] = ()
    """Its unbound volume claims, with their volumes."""
    locks: tuple[str, ...] = ()
    """Annotations of the node that tell its device plugins that a pod is being bound; one pod at a time."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod is nominated to a node where resources are being released."""

    pod: str
    """The pod, as `namespace/name`."""
    node: str
    """The node."""
    claims: tuple[ClaimAllocation, ...] = ()
    """Its resource claims, with the devices that are reserved for them."""
    cards: tuple[GivenCard, ...] = ()
    """Parts of cards that are reserved for it."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod is evicted for a pod group."""

    pod: str
    """The pod, as `namespace/name`."""
    node: str
    """The node that it runs on."""
    by: str
    """The pod group that gets the resources, as `namespace/name`."""
    action: str
    """The action that evicts, such as `preempt`."""


@dataclass(frozen=True, slots=True)
class Release:
    """A resource claim returns its devices, because its pod cannot start where they are."""

    claim: str
    """The claim, as `namespace/name`."""
    uid: str
    """Its UID."""
    pod: str
    """The pending pod, as `namespace/name`."""
    devices: tuple[DeviceId, ...]
    """The devices that it returns."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod group or a queue; an object has at most one of each type."""

    type: str
    """Its type, such as `Unschedulable`."""
    reason: str
    """The reason, for programs."""
    message: str
    """The reason, in words."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The outcome of a pod group."""

    phase: str
    """The phase: `Pending`, `Inqueue`, `Running`, `Unknown` or `Completed`."""
    counts: Mapping[str, int]
    """Tasks by name of their status, without zeros."""
    condition: Condition | None = None
    """The condition to set; None to leave the conditions as they are."""
    refusal: Refusal | None = None
    """The reason why it is not admitted, or invalid."""
    ignored: Condition | None = None
    """A field that is ignored because its plugin is not configured."""


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """Metrics of a queue after the cycle, in the engine's units; None if the queue plugin does not compute one."""

    parent: str
    """The parent queue; empty for the root."""
    capability: Mapping[str, float] | None
    """The maximum amounts in its object."""
    deserved: Mapping[str, float] | None
    """Its deserved amounts."""
    guarantee: Mapping[str, float]
    """Its guaranteed amounts."""
    real_capability: Mapping[str, float] | None
    """The maximum amounts that it can hold: the cluster without the guarantees of others, limited by its capability."""
    allocated: Mapping[str, float]
    """The amounts that its pods hold after the cycle."""
    request: Mapping[str, float]
    """The requests of its running and pending pods."""
    inqueue: Mapping[str, float]
    """The amounts reserved for admitted groups that are not placed yet."""
    elastic: Mapping[str, float]
    """The amounts that its groups hold beyond their minima."""
    share: float | None
    """The largest ratio of allocated to deserved over all resources."""
    conditions: tuple[Condition, ...] = ()
    """The conditions to set."""
    paused: str = ""
    """The queue that pauses it, itself or one above it; empty if none does."""


@dataclass(frozen=True, slots=True)
class NodeReason:
    """The reason why some nodes cannot run a pod, with an example."""

    reason: str
    """The reason, in words."""
    count: int
    """The number of nodes."""
    example: str
    """The name of one of them."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending pod, and the most binding reason; amounts are in the engine's units."""

    pod: str
    """The pod, as `namespace/name`."""
    group: str
    """Its pod group, as `namespace/name`."""
    code: str
    """The reason, for programs: one of these, or that of a plugin's rejection.

    `PodGroupNotFound`, `NoPodGroup`, `QueueNotFound`: the pod's group or queue does not exist. `SchedulingGated`: the
    pod has a scheduling gate. `NotEnoughTasks`, `NotEnoughPodsOfTask`: the group has too few pods. `NotAdmitted` and
    the codes of the plugins that vote: the group is not admitted yet. `QueuePaused`, `QueueClosed`,
    `QueueBlocked`, `QueueQuotaExceeded`, `QueueOverused`: the queue does not accept the pod. `Unschedulable`: no node
    can run the pod; the message counts the reasons. `RoomKept`: the free resources go to a group that would reclaim
    them at once. `GangWaiting`: a node could run the pod, but its gang does not fit. `Nominated`: resources are being
    released for the pod. `NotReached`: no action processed the pod.
    """
    message: str
    """The reason, in words."""
    queue: str = ""
    """The queue that the reason is about."""
    resource: str = ""
    """The resource that the reason is about."""
    asked: float = 0
    """The amount requested of it."""
    left: float = 0
    """The amount available of it."""
    nodes: tuple[NodeReason, ...] = ()
    """Reasons of nodes, if the pod waits because of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a cycle decided."""

    binds: tuple[Bind, ...] = ()
    """Pods that start, and where."""
    nominations: tuple[Nomination, ...] = ()
    """Pods for which resources are being released."""
    evictions: tuple[Eviction, ...] = ()
    """Pods that are evicted."""
    released: tuple[Release, ...] = ()
    """Resource claims that return their devices."""
    groups: Mapping[str, GroupOutcome] = field(default_factory=dict)
    """Pod groups that changed or wait; the others stay unchanged."""
    queues: Mapping[str, QueueOutcome] = field(default_factory=dict)
    """All queues, by name."""
    pending: tuple[Pending, ...] = ()
    """Pending pods."""
    findings: tuple[Finding, ...] = ()
    """Findings about the configuration, about plugins or actions that failed, and about objects."""
    backoff: AdmissionBackoff | None = None
    """Groups that could not be placed after admission, for the next cycle; None if this plan does not contain them."""
