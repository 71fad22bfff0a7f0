"""What a waiting pod's status says: the condition `PodScheduled`, and the node where room is made for it.

The reason `Unschedulable` makes cluster autoscalers add nodes. So it is given only where more nodes would help; for all
else (a closed queue, a quota, a gang with too few pods) the reason is the engine's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kilauea.api.core import Pod
from kilauea.engine.plan import Pending

UNSCHEDULABLE = "Unschedulable"
MENDED_BY_NODES = frozenset({"Unschedulable", "GangWaiting", "ClusterOvercommitted"})
"""Codes of pods for which an autoscaler can do something; `GangWaiting` if a mate lacks nodes."""


class Content(NamedTuple):
    """What of a pod's status the scheduler sets."""

    uid: str
    reason: str
    message: str
    nominated: str


def wanted(pending: Pending, uid: str, nominated: str) -> Content | None:
    """What a pod's status should say; None for a pod that says for itself why it waits."""
    if pending.code == "SchedulingGated":
        return None
    return Content(uid, _reason(pending), pending.message, nominated)


def _reason(pending: Pending) -> str:
    if pending.code == "GangWaiting" and not pending.nodes:
        return pending.code  # what its gang lacks is not nodes
    return UNSCHEDULABLE if pending.code in MENDED_BY_NODES else pending.code


def content_of(pod: Pod) -> Content:
    """What a pod's status says."""
    status = pod.status
    found = next((c for c in (status.conditions if status else None) or () if c.type == "PodScheduled"), None)
    reason, message = (found.reason or "", found.message or "") if found and found.status == "False" else ("", "")
    return Content(pod.metadata.uid or "", reason, message, (status and status.nominated_node_name) or "")


def patch_of(pod: Pod, content: Content, now: str) -> Mapping[str, Any]:
    """The strategic patch of the status; the condition keeps its time unless the pod said something else before."""
    known = content_of(pod)
    condition = {"type": "PodScheduled", "status": "False", "reason": content.reason, "message": content.message}
    if not known.reason:
        condition["lastTransitionTime"] = now
    status: dict[str, Any] = {"conditions": [condition]}
    if content.nominated != known.nominated:
        status["nominatedNodeName"] = content.nominated or None
    return {"metadata": {"uid": content.uid}, "status": status}
