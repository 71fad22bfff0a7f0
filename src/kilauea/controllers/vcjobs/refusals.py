"""The reason why pods of a Volcano job cannot be created, in the job's status and as a condition of its pod group.

The status contains it as the reason of the phase, so that `kubectl describe` and `vcctl job view` show it. Both are
removed once the pods can be created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.api.kinds import POD_GROUPS, VC_JOBS
from kilauea.api.ports import Create, Obj, Operation, Patch, Together, Wording, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.objects import condition_of, status_of, uid_of
from kilauea.controllers.vcjobs.work import Work

PODS_NOT_CREATED = "PodsNotCreated"
"""Type of the condition of a pod group, and code of the reason in `kilauea explain`."""
WISH_IGNORED = "WishIgnored"
"""Type of a group's condition: a field needs a plugin that is not configured. The group need not wait."""
PLUGIN_NOT_CONFIGURED = "PluginNotConfigured"
FAILED_CREATE = "FailedCreate"
QUEUE_ERROR, PLUGIN_ERROR, CLAIM_ERROR, GROUP_ERROR = "QueueError", "PluginError", "PVCError", "PodGroupError"
POD_REFUSED = Wording(FAILED_CREATE, "Error creating pods: ")
GROUP_REFUSED = Wording(GROUP_ERROR, "Failed to create PodGroup, err: ")
CLAIM_REFUSED = Wording(CLAIM_ERROR, "Failed to create PVC, err: ")
PLUGIN_REFUSED = Wording(PLUGIN_ERROR, "Execute plugin when job add failed, err: ")
"""Events about objects of a job that the server refuses to create."""
FAULTS = frozenset({FAILED_CREATE, QUEUE_ERROR, PLUGIN_ERROR, CLAIM_ERROR, GROUP_ERROR})
"""Reasons in the status of a job with missing pods because they cannot be created."""


def is_refused(work: Work) -> bool:
    """Return True if the status of a job shows that its pods cannot be created."""
    return (work.status.get("state") or {}).get("reason") in FAULTS


def refusal(work: Work, group: Obj | None, now: int, reason: str, message: str) -> list[Operation]:
    """Report on the job and its group that the server rejects an object of the job, with the reason of the event."""
    said = {"reason": reason, "message": message}
    state = work.status.get("state") or {}
    operations: list[Operation] = []
    if any(state.get(name) != text for name, text in said.items()):
        patch = {"metadata": {"uid": work.uid}, "status": {"state": said}}
        operations.append(Patch(VC_JOBS, work.key, patch, subresource="status"))
    return [*operations, *group_refusal(group, now, reason, message)]


def group_refusal(group: Obj | None, now: int, reason: str, message: str) -> list[Patch]:
    """Set the condition of a group whose pods cannot be created, if it is not set yet."""
    if group is None:
        return []
    found = condition_of(group, PODS_NOT_CREATED) or {}
    if (found.get("status"), found.get("reason"), found.get("message")) == ("True", reason, message):
        return []
    said = {"type": PODS_NOT_CREATED, "status": "True", "reason": reason, "message": message}
    return [_patch(group, {**said, "lastTransitionTime": _since(found, "True", now)})]


def group_retraction(group: Obj | None, now: int) -> list[Patch]:
    """Set the condition to False, if it is True."""
    found = condition_of(group, PODS_NOT_CREATED) if group is not None else None
    if group is None or found is None or found.get("status") != "True":
        return []
    return [_patch(group, {**found, "status": "False", "lastTransitionTime": _since(found, "False", now)})]


def _since(found: Mapping[str, Any], status: str, now: int) -> str:
    """Return the transition time of a condition; it stays while the status does."""
    kept = found.get("lastTransitionTime") if found.get("status") == status else None
    return str(kept or format_time(now - now % SECOND))


def _patch(group: Obj, condition: dict[str, Any]) -> Patch:
    """Set one condition of the group if the group is unchanged: the scheduler writes the others."""
    others = [each for each in status_of(group).get("conditions") or () if each["type"] != PODS_NOT_CREATED]
    patch = {"metadata": {"uid": uid_of(group)}, "status": {"conditions": [*others, condition]}}
    version = group["metadata"]["resourceVersion"]
    return Patch(POD_GROUPS, key_of(group), patch, version=version)


def creates(operations: Iterable[Operation]) -> bool:
    """Return True if any operation creates an object."""
    for each in operations:
        if isinstance(each, Together):
            if any(creates(chain) for chain in each.chains):
                return True
        elif isinstance(each, Create):
            return True
    return False
