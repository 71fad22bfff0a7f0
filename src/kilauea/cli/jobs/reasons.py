"""The reasons why a job waits, from its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.ports import Obj
from kilauea.cli.vcctl.tables import part

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def job_reason(job: Obj) -> str:
    """The reason on the job itself: a fault, or its suspension; empty for none."""
    state = part(job, "status", "state") or {}
    if state.get("phase") in ("Aborting", "Aborted"):
        return f"it is suspended; `vresume -n {job['metadata']['name']}` continues it"
    if state.get("phase") == "Pending" and state.get("reason"):
        return str(state.get("message") or state["reason"])
    return ""


def group_reason(group: Obj | None) -> str:
    """The newest reason in the conditions of a pod group; empty if it does not wait."""
    found = waiting_condition(group)
    return str(found.get("message") or found.get("reason") or "") if found else ""


def waiting_condition(group: Obj | None) -> Mapping[str, Any] | None:
    """The newest condition with the reason why a pod group waits; None if it does not wait."""
    conditions = part(group or {}, "status", "conditions") or ()
    true = [each for each in conditions if each.get("status") == "True"]
    last = max(true, key=lambda each: str(each.get("lastTransitionTime") or ""), default=None)
    return None if last is None or last.get("type") == "Scheduled" else last


def fault_of(pod: Obj) -> str:
    """The reason why a container of a pod does not start, or why the pod was terminated; empty for none."""
    for status in part(pod, "status", "containerStatuses") or ():
        state = status.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") and waiting["reason"] not in _STARTING:
            return _sentence(waiting)
        if ended.get("message") or ended.get("reason") == "OOMKilled":
            return _sentence(ended)
    status = pod.get("status") or {}
    return _sentence(status) if status.get("phase") == "Failed" and status.get("reason") else ""


def _sentence(state: Mapping[str, Any]) -> str:
    return ": ".join(str(each) for each in (state.get("reason"), state.get("message")) if each)
