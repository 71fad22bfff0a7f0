"""The Plan: what a cycle decided, as data, and why what waits still waits.

Nothing here refers to the session: a plan can be printed, compared, carried out or thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.engine.conf import Finding
from kilauea.engine.model.attempts import AdmissionBackoff


class Refusal(NamedTuple):
    """The reason why a queue or a job is refused, with numbers if it is about a resource (in the engine's units)."""

    code: str
    message: str
    queue: str = ""
    resource: str = ""
    asked: float = 0
    left: float = 0


class SpareReason(NamedTuple):
    """The reason why evictions spare a pod: a code, a message, and the plugin whose reason it is, if any."""

    code: str
    words: str
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """A pod starts on a node."""

    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod is nominated to a node where room is being freed."""

    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod is evicted for a pod group."""

    pod: str
    node: str
    by: str
    action: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod group or a queue; of each type an object has at most one."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The outcome of a pod group."""

    phase: str
    counts: Mapping[str, int]
    """Tasks by name of their status, without zeros."""
    condition: Condition | None = None
    refusal: Refusal | None = None
    """The reason why it is not admitted, or not valid."""
    ignored: Condition | None = None
    """A wish that no configured plugin serves."""


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """Figures of a queue after the cycle, in the engine's units; None where the queue plugin says nothing."""

    parent: str
    capability: Mapping[str, float] | None
    deserved: Mapping[str, float] | None
    guarantee: Mapping[str, float]
    real_capability: Mapping[str, float] | None
    allocated: Mapping[str, float]
    request: Mapping[str, float]
    inqueue: Mapping[str, float]
    elastic: Mapping[str, float]
    share: float | None
    conditions: tuple[Condition, ...] = ()
    """The conditions to set."""


@dataclass(frozen=True, slots=True)
class NodeReason:
    """The reason why some nodes do not take a pod, with one of them as an example."""

    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that waits, and the most binding reason.

    `code` is one of the names below or that of a plugin's rejection; `resource`, `asked` and `left` are set where the
    reason is about an amount (in the engine's units).

    PodGroupNotFound, NoPodGroup, QueueNotFound: the pod's group or queue does not exist.
    SchedulingGated: the pod has a scheduling gate.
    NotEnoughTasks, NotEnoughPodsOfTask: the group has too few pods.
    NotAdmitted and what the voters say: the group is not admitted yet.
    QueueClosed, QueueQuotaExceeded, QueueOverused: the queue does not take the pod.
    Unschedulable: no node can take the pod; the message counts the reasons.
    RoomKept: the room that there is goes to a group that would take it back at once.
    GangWaiting: a node could take the pod, but not its whole gang.
    Nominated: room is being freed for the pod.
    NotReached: no action dealt with the pod.
    """

    pod: str
    group: str
    code: str
    message: str
    queue: str = ""
    resource: str = ""
    asked: float = 0
    left: float = 0
    nodes: tuple[NodeReason, ...] = ()
    """Reasons of nodes, where they are what the pod waits for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a cycle decided."""

    binds: tuple[Bind, ...] = ()
    nominations: tuple[Nomination, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    groups: Mapping[str, GroupOutcome] = field(default_factory=dict)
    """Pod groups that changed or that wait; the others are as their objects say."""
    queues: Mapping[str, QueueOutcome] = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings: arguments of the configuration, plugins or actions that failed, objects."""
    backoff: AdmissionBackoff | None = None
    """Groups that were admitted in vain, for the next cycle; None if this one does not tell."""
