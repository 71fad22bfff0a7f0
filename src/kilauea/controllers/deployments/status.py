"""Progress of the rollout of a deployment, as `kubectl rollout status` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.deployments.scaling import margins, wanted_replicas
from kilauea.controllers.objects import condition_of, name_of, spec_of, status_of

ENDLESS = 2**31 - 1
"""The value for no deadline."""
DONE, LATE = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
FAILURE = "ReplicaFailure"
"""The condition of a replica set whose pods are rejected, and of its deployment."""


class ConditionState(NamedTuple):
    """A condition without its times."""

    type: str
    status: str
    reason: str
    message: str


def counts(deployment: Obj, owned: Sequence[Obj], newest: Obj | None) -> dict[str, Any]:
    """The counts of the status; None removes a field whose count is zero."""
    states = [status_of(each) for each in owned]
    replicas, available = (sum(each.get(name) or 0 for each in states) for name in ("replicas", "availableReplicas"))
    missing = max(0, sum(wanted_replicas(each) for each in owned) - available)
    return {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": replicas or None,
        "updatedReplicas": (status_of(newest).get("replicas") if newest is not None else 0) or None,
        "readyReplicas": sum(each.get("readyReplicas") or 0 for each in states) or None,
        "availableReplicas": available or None,
        "unavailableReplicas": missing or None,
        "terminatingReplicas": sum(each.get("terminatingReplicas") or 0 for each in states),
    }


def is_complete(deployment: Obj, status: dict[str, Any]) -> bool:
    """Return True if all pods are of the current template and available."""
    wanted = wanted_replicas(deployment)
    return all((status[name] or 0) == wanted for name in ("updatedReplicas", "replicas", "availableReplicas"))


def availability(deployment: Obj, status: dict[str, Any]) -> ConditionState:
    """The condition Available."""
    if (status["availableReplicas"] or 0) >= wanted_replicas(deployment) - margins(deployment)[1]:
        return ConditionState("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    message = "Deployment does not have minimum availability."
    return ConditionState("Available", "False", "MinimumReplicasUnavailable", message)


def _deadline(deployment: Obj) -> int | None:
    """Seconds without progress after which a rollout fails; None for no deadline."""
    seconds = spec_of(deployment).get("progressDeadlineSeconds")
    return None if seconds is None or int(seconds) == ENDLESS else int(seconds)


def progress(
    deployment: Obj, status: dict[str, Any], newest: Obj | None, now: int
) -> tuple[ConditionState | None, bool]:
    """Return the condition Progressing (None to leave it as it is), and True if there was progress just now."""
    deadline, before = _deadline(deployment), condition_of(deployment, "Progressing")
    if deadline is None:
        return None, False
    subject = f'ReplicaSet "{name_of(newest)}"' if newest is not None else f'Deployment "{name_of(deployment)}"'
    settled = before is not None and before.get("reason") == DONE and status["replicas"] == status["updatedReplicas"]
    if settled:
        return None, False
    if is_complete(deployment, status):
        return ConditionState("Progressing", "True", DONE, f"{subject} has successfully progressed."), True
    if _moved(status_of(deployment), status):
        return ConditionState("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing."), True
    if before is not None and before.get("reason") not in (DONE, LATE) and late_in(deployment, now) == 0:
        return ConditionState("Progressing", "False", LATE, f"{subject} has timed out progressing."), True
    return None, False


def _moved(old: Any, new: dict[str, Any]) -> bool:
    """Return True if there are more new pods, fewer old ones, or more ready ones."""

    def grown(name: str) -> int:
        return int(new[name] or 0) - int(old.get(name) or 0)

    fewer_old = grown("replicas") - grown("updatedReplicas") < 0
    return fewer_old or any(grown(name) > 0 for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))


def late_in(deployment: Obj, now: int) -> float | None:
    """Seconds until a rollout without progress misses its deadline; None if it cannot."""
    deadline, before = _deadline(deployment), condition_of(deployment, "Progressing")
    if deadline is None or before is None or before.get("reason") in (DONE, LATE, "DeploymentPaused"):
        return None
    since = parse_time(before.get("lastUpdateTime") or before["lastTransitionTime"])
    return max(0.0, (since + deadline * SECOND - now) / SECOND)


def failure(owned: Sequence[Obj], newest: Obj | None) -> ConditionState | None:
    """The condition of the newest replica set whose pods are rejected, or else of an old one; None without any."""
    for each in (newest, *owned):
        found = condition_of(each, FAILURE) if each is not None else None
        if found is not None:
            return ConditionState(FAILURE, found["status"], found.get("reason", ""), found.get("message", ""))
    return None


def conditions(deployment: Obj, said: Sequence[tuple[ConditionState, bool]], now: int) -> list[dict[str, Any]]:
    """Update the conditions; the transition time stays if nothing has changed.

    ReplicaFailure is removed if it is not among the new ones.

    Args:
        deployment: its current state.
        said: the new conditions, each with True if its update time changes even if status and reason do not.
        now: time in microseconds since 1970.
    """
    stamp = format_time(now - now % SECOND)
    kept = {each["type"]: dict(each) for each in status_of(deployment).get("conditions") or ()}
    if all(state.type != FAILURE for state, _ in said):
        kept.pop(FAILURE, None)
    for (type, status, reason, message), renewed in said:
        before = kept.get(type)
        if before and (before["status"], before["reason"]) == (status, reason) and not renewed:
            continue
        since = before["lastTransitionTime"] if before and before["status"] == status else stamp
        kept[type] = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "lastUpdateTime": stamp,
        }
    return list(kept.values())
