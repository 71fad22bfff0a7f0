"""The status of a pod, from those of its containers: phase, conditions, addresses. All functions are pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.restarts import may_restart_all
from kilauea.kubelet.members import Member
from kilauea.nodes.pod_status import FAILED, PENDING, RUNNING, SUCCEEDED, closed_gates

_RESIZE = ("PodResizePending", "PodResizeInProgress")
OURS = (
    *("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled", "DisruptionTarget"),
    "AllContainersRestarting",
)


def phase_of(members: Sequence[Member], *, ending: bool = False) -> str:
    """Return the phase of a pod by its containers.

    Args:
        members: the containers.
        ending: True if none of them is restarted: the pod ends when they have ended.
    """
    mains = [each for each in members if each.role == "main"]
    inits = [each for each in members if each.role == "init"]
    if any(each.running for each in members):
        waits = any(each.exit_code != 0 for each in inits) or all(each.fresh for each in mains)
        return PENDING if waits else RUNNING
    codes = [each.exit_code for each in mains]
    if any(each.exit_code for each in inits):
        return FAILED
    if ending:
        ends = [int((each.ended or {"exitCode": 137})["exitCode"]) for each in mains]
        return FAILED if any(ends) else SUCCEEDED
    if any(each.exit_code != 0 for each in inits) or any(each.fresh for each in mains):
        return PENDING
    if None in codes:
        return RUNNING
    return FAILED if any(codes) else SUCCEEDED


def conditions_of(
    pod: Obj, phase: str, members: Sequence[Member], text: str, resize: Mapping[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """Return the conditions that a kubelet maintains, without those of others.

    Args:
        pod: the pod with its current conditions.
        phase: its new phase.
        members: its containers.
        text: the time now.
        resize: conditions about a resize that is not done.
    """
    before = {each.get("type"): each for each in (pod.get("status") or {}).get("conditions") or ()}
    verdicts = {**_verdicts(pod, phase, members, before), **resize}
    gone: list[dict[str, Any]] = [
        {"$patch": "delete", "type": type} for type in _RESIZE if type in before and type not in verdicts
    ]
    generation = pod["metadata"].get("generation")
    return [
        _condition(type, verdict, before.get(type) or {}, text, generation) for type, verdict in verdicts.items()
    ] + gone


def _verdicts(pod: Obj, phase: str, members: Sequence[Member], before: Mapping[str, Obj]) -> dict[str, dict[str, str]]:
    """The content of each condition, by its type."""
    members = [each for each in members if each.role != "ephemeral"]
    waits = [each.name for each in members if each.role != "main" and not _prepared(each)]
    unready = [each.name for each in members if each.role != "init" and not each.entry.get("ready")]
    once = (before.get("Initialized") or {}).get("status") == "True"
    initialized = _verdict([] if once else waits, "ContainersNotInitialized", "incomplete")
    containers_ready = ready = _verdict(unready, "ContainersNotReady", "unready")
    if phase in (SUCCEEDED, FAILED):
        initialized = {"status": "True", "reason": "PodCompleted"} if phase == SUCCEEDED else initialized
        ready = {"status": "False", "reason": "PodCompleted" if phase == SUCCEEDED else "PodFailed"}
        containers_ready = ready
    elif containers_ready["status"] == "True" and (message := closed_gates(pod, before)):
        ready = {"status": "False", "reason": "ReadinessGatesNotReady", "message": message}
    again = any(each.is_reset or each.restarts_all for each in members)
    sandbox = "True" if again or any(each.running for each in members) else "False"
    found = {"PodReadyToStartContainers": {"status": sandbox}, "Initialized": initialized}
    found |= {"Ready": ready, "ContainersReady": containers_ready}
    if may_restart_all(pod["spec"]):
        found["AllContainersRestarting"] = _restarting(phase, members)
    if "PodScheduled" not in before:
        found["PodScheduled"] = {"status": "True"}
    return found


def _restarting(phase: str, members: Sequence[Member]) -> dict[str, str]:
    """The content of the condition that shows if all containers are being restarted."""
    if phase in (SUCCEEDED, FAILED):
        return {"status": "False", "reason": "PodCompleted" if phase == SUCCEEDED else "PodFailed"}
    if not any(each.restarts_all for each in members):
        return {"status": "False"}
    message = "container exited with restart policy rule"
    return {"status": "True", "reason": "RestartAllContainersStarted", "message": message}


def _prepared(member: Member) -> bool:
    if member.role == "init":
        return member.exit_code == 0
    return bool(member.entry.get("started")) or (not member.fresh and not member.running)


def _verdict(names: Sequence[str], reason: str, word: str) -> dict[str, str]:
    if not names:
        return {"status": "True"}
    return {"status": "False", "reason": reason, "message": f"containers with {word} status: [{' '.join(names)}]"}


def _condition(type: str, verdict: Mapping[str, str], before: Obj, text: str, generation: int | None) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == verdict["status"] else None
    found = {"type": type, "lastProbeTime": None, "lastTransitionTime": since or text, **verdict}
    for field in ("reason", "message"):
        if field not in verdict and field in before:
            found[field] = None  # a strategic merge patch keeps missing fields
    if generation is not None:
        found["observedGeneration"] = generation
    return found


def pod_status(
    pod: Obj,
    phase: str,
    members: Sequence[Member],
    text: str,
    others: Mapping[str, Any],
    resize: Mapping[str, dict[str, str]],
) -> dict[str, Any]:
    """Return the fields of a pod's status that a kubelet maintains.

    Args:
        pod: the pod in the API.
        phase: the phase.
        members: its containers.
        text: the time now.
        others: further fields: addresses, reason, message.
        resize: conditions about a resize that is not done.
    """
    conditions = conditions_of(pod, phase, members, text, resize)
    status: dict[str, Any] = {"phase": phase, "conditions": conditions, **others}
    if not (pod.get("status") or {}).get("startTime"):
        status["startTime"] = text
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    status["containerStatuses"] = [each.entry for each in members if each.role == "main"]
    inits = [each.entry for each in members if each.role in ("init", "sidecar")]
    if inits:
        status["initContainerStatuses"] = inits
    ephemeral = [each.entry for each in members if each.role == "ephemeral"]
    if ephemeral:
        status["ephemeralContainerStatuses"] = ephemeral
    return status


def changed(pod: Obj, status: Mapping[str, Any]) -> bool:
    """Return True if a status differs from that of the pod."""
    before = pod.get("status") or {}
    for field, value in status.items():
        if field == "conditions":
            known = {each.get("type"): each for each in before.get(field) or ()}
            if any("$patch" in each or not _same(known.get(each["type"]), each) for each in value):
                return True
        elif before.get(field) != value and not (not value and field not in before):
            return True
    return False


def _same(known: Obj | None, condition: Mapping[str, Any]) -> bool:
    if known is None:
        return False
    fields = ("status", "reason", "message", "observedGeneration")
    return all((known.get(each) or None) == (condition.get(each) or None) for each in fields)
