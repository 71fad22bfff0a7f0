"""The Plan: the decisions of a cycle, as data, and why waiting pods still wait.

Nothing here refers to the session: a plan can be printed, compared, carried out or thrown away.
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
    """Annotations that the pod gets with it: key and value, by key."""
    claims: tuple[ClaimAllocation, ...] = ()
    """Its resource claims, with the devices that they get."""
    volumes: tuple[ClaimVolume, ...] = ()
    """Its volume claims that are not bound yet, with the volumes that they get."""
    locks: tuple[str, ...] = ()
    """Annotations of the node by which its device plugins are told that a pod is coming: one pod at a time."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod is nominated to a node where room is being freed."""

    pod: str
    """The pod, as `namespace/name`."""
    node: str
    """The node."""
    claims: tuple[ClaimAllocation, ...] = ()
    """Its resource claims, with the devices that are kept for them."""
    cards: tuple[GivenCard, ...] = ()
    """Parts of cards that are kept for it."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod is evicted for a pod group."""

    pod: str
    """The pod, as `namespace/name`."""
    node: str
    """The node that it runs on."""
    by: str
    """The pod group that gets the room, as `namespace/name`."""
    action: str
    """The action that evicts, such as `preempt`."""


@dataclass(frozen=True, slots=True)
class Release:
    """A resource claim gives its devices back, as the pod that it is for cannot start where they are."""

    claim: str
    """The claim, as `namespace/name`."""
    uid: str
    """Its UID."""
    pod: str
    """The pod that waits, as `namespace/name`."""
    devices: tuple[DeviceId, ...]
    """The devices that it has."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod group or a queue; of each type an object has at most one."""

    type: str
    """Its type, such as `Unschedulable`."""
    reason: str
    """The reason, one word for programs."""
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
    """The reason why it is not admitted, or not valid."""
    ignored: Condition | None = None
    """A wish that no configured plugin serves."""


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """Figures of a queue after the cycle, in the engine's units; None where the queue plugin says nothing."""

    parent: str
    """The queue above it; empty for the root."""
    capability: Mapping[str, float] | None
    """The most that it may hold, as its object says."""
    deserved: Mapping[str, float] | None
    """The amounts that it deserves."""
    guarantee: Mapping[str, float]
    """The amounts kept for it at any time."""
    real_capability: Mapping[str, float] | None
    """The most that it can hold: of the cluster, what is not kept for others, and no more than its capability."""
    allocated: Mapping[str, float]
    """The amounts that its pods hold after the cycle."""
    request: Mapping[str, float]
    """The amounts that its pods hold, and those that wait request."""
    inqueue: Mapping[str, float]
    """The amounts reserved for groups that are admitted and not placed."""
    elastic: Mapping[str, float]
    """The amounts that its groups hold beyond their minima."""
    share: float | None
    """The largest fraction, over all resources, of what it holds to what it deserves."""
    conditions: tuple[Condition, ...] = ()
    """The conditions to set."""


@dataclass(frozen=True, slots=True)
class NodeReason:
    """The reason why some nodes do not take a pod, with one of them as an example."""

    reason: str
    """The reason, in words."""
    count: int
    """The number of nodes."""
    example: str
    """The name of one of them."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that waits, and the most binding reason; amounts are in the engine's units."""

    pod: str
    """The pod, as `namespace/name`."""
    group: str
    """Its pod group, as `namespace/name`."""
    code: str
    """The reason, for programs: one of these, or that of a plugin's rejection.

    `PodGroupNotFound`, `NoPodGroup`, `QueueNotFound`: the pod's group or queue does not exist.
    `SchedulingGated`: the pod has a scheduling gate.
    `NotEnoughTasks`, `NotEnoughPodsOfTask`: the group has too few pods.
    `NotAdmitted` and the codes of the plugins that vote: the group is not admitted yet.
    `QueueClosed`, `QueueQuotaExceeded`, `QueueOverused`: the queue does not take the pod.
    `Unschedulable`: no node can take the pod; the message counts the reasons.
    `RoomKept`: the room that there is goes to a group that would take it back at once.
    `GangWaiting`: a node could take the pod, but not its whole gang.
    `Nominated`: room is being freed for the pod.
    `NotReached`: no action dealt with the pod.
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
    """Reasons of nodes, where they are what the pod waits for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a cycle decided."""

    binds: tuple[Bind, ...] = ()
    """Pods that start, and where."""
    nominations: tuple[Nomination, ...] = ()
    """Pods for which room is being freed."""
    evictions: tuple[Eviction, ...] = ()
    """Pods that are evicted."""
    released: tuple[Release, ...] = ()
    """Resource claims that give their devices back."""
    groups: Mapping[str, GroupOutcome] = field(default_factory=dict)
    """Pod groups that changed or that wait; the others are as their objects say."""
    queues: Mapping[str, QueueOutcome] = field(default_factory=dict)
    """All queues, by name."""
    pending: tuple[Pending, ...] = ()
    """Pods that wait."""
    findings: tuple[Finding, ...] = ()
    """Findings: arguments of the configuration, plugins or actions that failed, objects."""
    backoff: AdmissionBackoff | None = None
    """Groups that were admitted in vain, for the next cycle; None if this one does not tell."""
