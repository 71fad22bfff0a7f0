"""The status of a pending pod: the condition `PodScheduled`.

The reason `Unschedulable` makes cluster autoscalers add nodes. So it is set only if more nodes would help; otherwise (a
closed queue, a capability, a gang with too few pods) the reason is the engine's. It is also set if a claim is not
ready: autoscalers check claims themselves, and clients of Kubernetes wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kilauea.api.core import Pod, PodCondition
from kilauea.engine.plan import Pending

UNSCHEDULABLE = "Unschedulable"
ABOUT_NODES = frozenset({"Unschedulable", "ClusterOvercommitted", "RoomKept"})
"""Codes of reasons about nodes."""
ABOUT_CLAIMS = frozenset({"ResourceClaimsNotReady", "VolumesNotReady"})
"""Codes of reasons about claims, which autoscalers check as well as the scheduler."""
ABOUT_SHARES = frozenset(
    {"GangWaiting", "QueueQuotaExceeded", "QueueQuotaInsufficient", "QueueOverused", "QueueOutOfTurn"}
)
"""Codes of reasons about either a share of the cluster, which grows with it, or a fixed limit, which does not."""


class Room(NamedTuple):
    """The configured limit of a queue and what it holds, in the engine's units."""

    capability: Mapping[str, float]
    held: Mapping[str, float]

    def has(self, resource: str, amount: float) -> bool:
        """True if an additional amount is within the limit; without a resource, True if anything is."""
        if not resource:
            return all(self.held.get(name, 0) < most for name, most in self.capability.items())
        return self.held.get(resource, 0) + amount <= self.capability.get(resource, float("inf"))


class Content(NamedTuple):
    """Fields of a pod's status that the scheduler sets."""

    uid: str
    reason: str
    message: str


def wanted(pending: Pending, uid: str, rooms: Iterable[Room]) -> Content | None:
    """Return the wanted status of a pod; None for a pod whose own conditions give the reason why it waits.

    Args:
        pending: the reason why it waits.
        uid: uid of the pod.
        rooms: limits of its queue and the queues above it.
    """
    if pending.code == "SchedulingGated":
        return None
    unschedulable = pending.code in ABOUT_CLAIMS or mended_by_nodes(pending, rooms)
    reason = UNSCHEDULABLE if unschedulable else pending.code
    return Content(uid, reason, pending.message)


def mended_by_nodes(pending: Pending, rooms: Iterable[Room]) -> bool:
    """True if more nodes would let a pod run."""
    if pending.code in ABOUT_NODES or (pending.code == "GangWaiting" and pending.nodes):
        return True
    return pending.code in ABOUT_SHARES and all(room.has(pending.resource, pending.asked) for room in rooms)


def _scheduled(pod: Pod) -> PodCondition | None:
    status = pod.status
    return next((c for c in (status.conditions if status else None) or () if c.type == "PodScheduled"), None)


def is_about_earlier(pod: Pod) -> bool:
    """Return True if the condition of a pod is about an earlier generation of it.

    A condition without a generation is not: servers before Kubernetes 1.34 may not keep it.
    """
    found = _scheduled(pod)
    seen = found.observed_generation if found is not None else None
    return seen is not None and seen != pod.metadata.generation


def content_of(pod: Pod) -> Content:
    """Return the content of a pod's status."""
    found = _scheduled(pod)
    reason, message = (found.reason or "", found.message or "") if found and found.status == "False" else ("", "")
    return Content(pod.metadata.uid or "", reason, message)


def patch_of(pod: Pod, content: Content, now: str) -> Mapping[str, Any]:
    """The strategic patch of the status; an unchanged condition keeps its time."""
    known = content_of(pod)
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": content.reason,
        "message": content.message,
    }
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    if not known.reason:
        condition["lastTransitionTime"] = now
    return {"metadata": {"uid": content.uid}, "status": {"conditions": [condition]}}
