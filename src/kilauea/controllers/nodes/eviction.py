"""Pods that are evicted because of a node's taints, and pods whose node no longer exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import Delete, Obj, Operation, Patch, Record, key_of
from kilauea.api.selectors import TaintKey, TolerationKey, tolerates
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.objects import condition_of, is_going, spec_of, uid_of
from kilauea.controllers.pods import is_finished, is_ready

QUARANTINE_SECONDS = 40
"""Seconds for which a pod stays on a missing node: the node may be too new to be known."""


def stay_left(pod: Obj, taints: Sequence[Any], now: int) -> float | None:
    """Seconds that a pod may stay on a node with evicting taints; None for no limit."""
    left: float | None = None
    for taint in taints:
        patience = _patience(pod, taint)
        if patience is None:
            continue
        until = time_left(taint, patience, now)
        left = until if left is None else min(left, until)
    return left


def time_left(taint: Obj, patience: float, now: int) -> float:
    """Seconds left of the toleration time of a taint since it was added."""
    added = taint.get("timeAdded")
    return max(0.0, (parse_time(added) - now) / SECOND + patience) if added and patience > 0 else 0.0


def _patience(pod: Obj, taint: Any) -> float | None:
    """Seconds for which a pod tolerates a taint; None for no limit, 0 if not at all."""
    matching = matching_tolerations(spec_of(pod).get("tolerations") or (), taint)
    if not matching:
        return 0.0
    seconds = [each["tolerationSeconds"] for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, float(min(seconds))) if seconds else None


def matching_tolerations(tolerations: Sequence[Obj], taint: Obj) -> list[Obj]:
    """The tolerations that match a taint."""
    key = TaintKey(taint["key"], taint.get("value") or "", taint["effect"])
    return [each for each in tolerations if tolerates(_toleration(each), key)]


def _toleration(toleration: Any) -> TolerationKey:
    operator = toleration.get("operator") or "Equal"
    value = "" if operator == "Exists" else toleration.get("value") or ""
    return TolerationKey(toleration.get("key") or "", operator, value, toleration.get("effect") or "")


def taint_eviction(pod: Obj, now: int) -> list[Operation]:
    """Delete a pod because of a taint."""
    message = "Taint manager: deleting due to NoExecute taint"
    event = Record(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key_of(pod)}")
    return eviction(pod, now, ("DeletionByTaintManager", message), event)


def eviction(pod: Obj, now: int, disrupted: tuple[str, str], event: Record) -> list[Operation]:
    """Delete a pod that a controller evicts.

    Args:
        pod: the pod.
        now: microseconds since 1970.
        disrupted: reason and message of its condition DisruptionTarget.
        event: the event about it.
    """
    reason, message = disrupted
    return [
        event,
        _condition(pod, now, type="DisruptionTarget", status="True", reason=reason, message=message),
        Delete(PODS, key_of(pod), uid_of(pod)),
    ]


def lost(pod: Obj, now: int) -> tuple[list[Operation], float | None]:
    """Delete a pod whose node is gone, once that is certain; before, returns the seconds until then."""
    scheduled = condition_of(pod, "PodScheduled")
    since = scheduled.get("lastTransitionTime") if scheduled else None
    since = since or pod["metadata"]["creationTimestamp"]
    left = (parse_time(since) - now) / SECOND + QUARANTINE_SECONDS
    if left > 0:
        return [], left
    said: list[Operation] = []
    if not is_finished(pod):
        message = "PodGC: node no longer exists"
        target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": message}
        said.append(_status(pod, now, target, phase="Failed"))
    return [*said, Delete(PODS, key_of(pod), uid_of(pod), grace=0)], None


def unready(pod: Obj, now: int) -> list[Operation]:
    """Mark a pod as not ready because its node is not ready."""
    if not is_ready(pod) or is_going(pod):
        return []
    return [_condition(pod, now, type="Ready", status="False")]


def _condition(pod: Obj, now: int, **said: str) -> Patch:
    return _status(pod, now, said)


def _status(pod: Obj, now: int, condition: dict[str, str], **more: str) -> Patch:
    condition = {**condition, "lastTransitionTime": format_time(now - now % SECOND)}
    status = {"conditions": [condition], **more}
    patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
    return Patch(PODS, key_of(pod), patch, "strategic", "status")
