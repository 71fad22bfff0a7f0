"""The status of a Volcano job: written as a unit, so that counts and phase are always consistent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Patch
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.vcjobs.counting import Counts
from kilauea.controllers.vcjobs.work import Work


def changed(
    work: Work,
    counts: Counts,
    now: int,
    *,
    phase: str,
    reason: str | None = None,
    message: str = "",
    version: int = 0,
    retries: int = 0,
    controlled: Mapping[str, str],
    duration: bool = False,
) -> list[Patch]:
    """The patch that updates the status of a job; empty if it is current.

    Args:
        work: the job.
        counts: counts of its pods.
        now: the time, in microseconds since 1970.
        phase: the new phase.
        reason: the action that led to the phase, or the problem; empty removes it, None keeps it as long as the phase.
        message: more about the reason, in words.
        version: the new version.
        retries: retries so far.
        controlled: objects that the job has created, for `controlledResources`.
        duration: True to include the time until this phase.
    """
    before = work.status
    state = _state(before.get("state") or {}, phase, reason, message)
    wanted = {
        "state": state,
        "minAvailable": work.min_available,
        "version": version,
        "retryCount": retries,
        "controlledResources": dict(sorted(controlled.items())),
        "conditions": before.get("conditions"),
        "runningDuration": before.get("runningDuration") if duration else None,
        **counts.fields(),
    }
    same_phase = phase == work.phase
    if same_phase and _said(wanted) == _said(before) and (not duration or before.get("runningDuration")):
        return []
    stamp = format_time(now - now % SECOND)
    if not same_phase or not duration:
        state["lastTransitionTime"] = stamp
    if not same_phase:
        wanted["conditions"] = _with(before.get("conditions") or (), phase, stamp)
    if duration:
        wanted["runningDuration"] = _since_creation(work, state.get("lastTransitionTime") or stamp)
    return [_patch(work, _said(wanted))]


def _state(before: Mapping[str, Any], phase: str, reason: str | None, message: str) -> dict[str, Any]:
    state = {**before} if before.get("phase") == phase else {"phase": phase}
    if reason is None:
        return state
    return _said({**state, "reason": reason, "message": message})


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not 0 or empty."""
    return {name: value for name, value in fields.items() if value}


def _with(conditions: Any, phase: str, stamp: str) -> list[dict[str, Any]]:
    """The conditions, with one for the phase at the end; each phase has one."""
    return [
        *({**each} for each in conditions if each.get("status") != phase),
        {"status": phase, "lastTransitionTime": stamp},
    ]


def _since_creation(work: Work, until: str) -> str:
    created = work.obj["metadata"].get("creationTimestamp") or until
    return format_duration(max(0, parse_time(until) - parse_time(created)) // SECOND)


def format_duration(seconds: int) -> str:
    """Format seconds as a Go duration: `0s`, `1m5s`, `1h0m0s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _patch(work: Work, status: Mapping[str, Any]) -> Patch:
    """Replace the status of this very job, if it is unchanged.

    A later job with the same name is not changed, and retries counted meanwhile are not lost: a write whose response
    was lost may have succeeded.
    """
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": work.uid}]
    if work.status:
        patch.append({"op": "test", "path": "/status", "value": work.status})
    patch.append({"op": "add", "path": "/status", "value": status})
    return Patch(VC_JOBS, work.key, patch, "json", subresource="status")
