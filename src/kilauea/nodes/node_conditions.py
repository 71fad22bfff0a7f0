"""The conditions with which a simulated node reports its state, and when they must be written.

Conditions of others stay: `Ready` is set here if it is missing, if it is Unknown (a controller has missed heartbeats),
if it was set here before, or if an annotation requires it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import NODE_STATE, NOT_READY, SILENT, node_state
from kilauea.nodes.timestamps import moment_of, second_text

STATUS_SECONDS = 300
"""Seconds between two heartbeats in the status of a Node."""
_OURS = "simulated node"
"""Prefix of the message of our `Ready` condition."""
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
)
_LOW_DISK = "KubeletHasDiskPressure", "kubelet has disk pressure"
_ENOUGH_DISK = "KubeletHasNoDiskPressure", "kubelet has no disk pressure"


def turn_of(name: str, moment: int, period: int) -> int:
    """Return the period of a node at a time (in the same unit); each node has its own offset."""
    return (moment - crc32(name.encode()) % period) // period


def is_ready(node: Obj) -> bool:
    """Return True if a node reports that it can run pods."""
    return (_ready(node) or {}).get("status") == "True"


def _ready(node: Obj) -> Obj | None:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Ready"), None)


def conditions_to_write(node: Obj, now: int, says: tuple[str, str, str] | None = None) -> list[dict[str, Any]] | None:
    """All conditions, if they must be written; None if not.

    Args:
        node: the node.
        now: microseconds since 1970.
        says: status, reason and message of `Ready`; by default those of a simulated node.
    """
    before: Sequence[Obj] = (node.get("status") or {}).get("conditions") or ()
    ready, verdict = _ready(node), says or _verdict(node)
    if ready is None:
        kept = [dict(each) for each in before]
        types = {each.get("type") for each in before}
        return kept + [_condition(*each, None, now) for each in _first(verdict) if each[0] not in types]
    if verdict is not None and verdict != (ready.get("status"), ready.get("reason"), ready.get("message")):
        news = _condition("Ready", *verdict, ready, now)
    elif _is_old(node["metadata"]["name"], ready, now):
        news = {**ready, "lastHeartbeatTime": second_text(now)}
    else:
        return None
    return [news if each.get("type") == "Ready" else dict(each) for each in before]


def with_disk_pressure(conditions: Sequence[Obj], is_low: bool, now: int) -> list[Obj]:
    """Return the conditions of a node with `DiskPressure`; it keeps its times if it does not change.

    Args:
        conditions: the conditions.
        is_low: True if the disk is nearly full.
        now: microseconds since 1970.
    """
    told = ("True", *_LOW_DISK) if is_low else ("False", *_ENOUGH_DISK)
    before = next((each for each in conditions if each.get("type") == "DiskPressure"), None)
    if before is not None and before.get("status") == told[0]:
        return list(conditions)
    news = _condition("DiskPressure", *told, before, now)
    if before is None:
        return [*conditions, news]
    return [news if each is before else each for each in conditions]


def _is_old(name: str, ready: Obj, now: int) -> bool:
    beat = moment_of(ready.get("lastHeartbeatTime"))
    # In whole seconds, as heartbeats are written: otherwise a time in the second of the turn could be before it.
    return beat is None or turn_of(name, beat // SECOND, STATUS_SECONDS) < turn_of(name, now // SECOND, STATUS_SECONDS)


def _verdict(node: Obj) -> tuple[str, str, str] | None:
    """Status, reason and message of `Ready`; None if it was set from outside and the node has no state annotation."""
    state, ready = node_state(node), _ready(node)
    if state == NOT_READY:
        return "False", "KubeletNotReady", f"{_OURS}, made unready by the annotation {NODE_STATE}"
    if ready and ready.get("status") != "Unknown" and not ready.get("message", "").startswith(_OURS):
        return None
    if state:
        problem = f'the annotation {NODE_STATE}: "{state}" is not known: use {NOT_READY} or {SILENT}'
        return "True", "KubeletReady", f"{_OURS} is ready; {problem}"
    return "True", "KubeletReady", f"{_OURS} is ready"


def _first(verdict: tuple[str, str, str] | None) -> list[tuple[str, str, str, str]]:
    """Conditions of a node that has not reported any."""
    found = [(type, "False", reason, "") for type, reason in _PRESSURES]
    return [*found, ("Ready", *verdict)] if verdict else found


def _condition(type: str, status: str, reason: str, message: str, before: Obj | None, now: int) -> dict[str, Any]:
    text = second_text(now)
    since = before.get("lastTransitionTime") if before and before.get("status") == status else None
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": text,
        "lastTransitionTime": since or text,
    }
