"""Readiness of nodes by their heartbeats, and the taints that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.api.wellknown import UNSCHEDULABLE_TAINT
from kilauea.controllers.objects import condition_of, spec_of

GRACE_SECONDS = 50
"""Seconds without a heartbeat after which a node is unreachable."""
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_BY_CONDITION = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_HEARD_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
OURS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE_TAINT, *_BY_CONDITION.values()})
"""Taints that this controller adds and removes."""


def last_heartbeat(node: Obj, lease: Obj | None, since: int) -> int:
    """The last heartbeat of a node, in microseconds since 1970; at least `since`, when listening started."""
    found = [since, parse_time(node["metadata"]["creationTimestamp"])]
    ready = condition_of(node, "Ready")
    if ready is not None and ready.get("status") != "Unknown" and ready.get("lastHeartbeatTime"):
        found.append(parse_time(ready["lastHeartbeatTime"]))
    return max(*found, last_renewal(lease))


def last_renewal(lease: Obj | None) -> int:
    """The time at which a Lease was renewed, in microseconds since 1970; 0 if never."""
    renewed = spec_of(lease).get("renewTime") if lease is not None else None
    return parse_time(renewed) if renewed else 0


def readiness(node: Obj) -> str:
    """True, False or Unknown; a node without a heartbeat yet gets time."""
    ready = condition_of(node, "Ready")
    return str(ready["status"]) if ready is not None else "True"


def unknown(node: Obj, now: int) -> list[dict[str, Any]]:
    """The conditions to set for an unreachable node, without those already set."""
    stamp = format_time(now - now % SECOND)
    said = []
    for type in _HEARD_CONDITIONS:
        before = condition_of(node, type)
        if before is None:
            never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            said.append({"type": type, "status": "Unknown", "lastTransitionTime": stamp, **never})
        elif before.get("status") != "Unknown":
            silent = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            said.append({"type": type, "status": "Unknown", "lastTransitionTime": stamp, **silent})
    return said


def taints(node: Obj, state: str, now: int) -> Sequence[Any]:
    """The taints that a node should have; existing ones keep their time.

    Args:
        node: its current state.
        state: its readiness.
        now: time in microseconds since 1970.
    """
    wanted = []
    if state != "True":
        key = UNREACHABLE if state == "Unknown" else NOT_READY
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    for type, key in _BY_CONDITION.items():
        condition = condition_of(node, type)
        if condition is not None and condition.get("status") == "True":
            wanted.append((key, "NoSchedule"))
    if spec_of(node).get("unschedulable"):
        wanted.append((UNSCHEDULABLE_TAINT, "NoSchedule"))
    has = spec_of(node).get("taints") or []
    there = {(each["key"], each["effect"]) for each in has}
    kept = [each for each in has if each["key"] not in OURS or (each["key"], each["effect"]) in wanted]
    stamp = format_time(now - now % SECOND)
    new = [{"key": key, "effect": effect, "timeAdded": stamp} for key, effect in wanted if (key, effect) not in there]
    return has if len(kept) == len(has) and not new else [*kept, *new]
