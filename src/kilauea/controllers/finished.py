"""Deletes finished Volcano jobs after their time to live.

The job of a flow stays until the flow has recorded its end: otherwise it would run again.
"""

from __future__ import annotations

from kilauea.api.kinds import JOB_FLOWS, VC_JOBS
from kilauea.api.ports import Delete, Interest, Key, Obj, Outcome, View, no_keys
from kilauea.api.times import SECOND, parse_time
from kilauea.controllers.objects import NOTHING, controller_of, is_going, name_of, own_key, spec_of, status_of, uid_of

OVER = frozenset({"Completed", "Failed", "Terminated"})
"""Final phases of a job; an aborted job may be resumed."""
NOTING_SECONDS = 1.0
"""Seconds until the next check that a flow has recorded the end of a job."""


class FinishedJobController:
    """Deletes jobs with `ttlSecondsAfterFinished`, after their pods."""

    name = "gc-controller"
    interests = (Interest(VC_JOBS, own_key), Interest(JOB_FLOWS, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete a job, or wait until it expires."""
        job = view.get(VC_JOBS, key)
        due = None if job is None else expiry(job)
        if job is None or due is None:
            return NOTHING
        if due > now:
            return Outcome(again=(due - now) / SECOND)
        if not is_noted(job, view):
            return Outcome(again=NOTING_SECONDS)
        return Outcome([Delete(VC_JOBS, key, uid_of(job), propagation="Foreground")])


def expiry(job: Obj) -> int | None:
    """Return the time at which a job expires, in microseconds since 1970; None if it stays, or its end is unknown."""
    seconds, state = spec_of(job).get("ttlSecondsAfterFinished"), status_of(job).get("state") or {}
    since = state.get("lastTransitionTime")
    if seconds is None or since is None or state.get("phase") not in OVER or is_going(job):
        return None
    return parse_time(since) + int(seconds) * SECOND


def is_noted(job: Obj, view: View) -> bool:
    """Return True if the flow of a finished job has recorded its end; also if it has none, or one that has ended."""
    owner = controller_of(job)
    if owner is None or owner["kind"] != JOB_FLOWS.kind:
        return True
    flow = view.get(JOB_FLOWS, Key(job["metadata"]["namespace"], owner["name"]))
    if flow is None or uid_of(flow) != owner["uid"]:
        return True
    status = status_of(flow)
    said = (status.get("conditions") or {}).get(name_of(job)) or {}
    ended = (status.get("state") or {}).get("phase") in ("Succeed", "Failed")
    return ended or said.get("phase") == status_of(job)["state"]["phase"]
