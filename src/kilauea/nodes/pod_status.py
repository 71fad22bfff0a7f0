"""The parts of a pod's status that are derived from its containers: phase, conditions, addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from kilauea.api.ports import Obj
from kilauea.api.restarts import may_restart_all
from kilauea.nodes.containers import Run
from kilauea.nodes.resizing import PENDING as PENDING_RESIZE
from kilauea.nodes.resizing import Refusal

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED = (SUCCEEDED, FAILED)


def phase_of(inits: Sequence[Run], mains: Sequence[Run]) -> str:
    """The phase of a pod by its containers."""
    prepared = [run.exit_code for run in inits if run.role == "init"]
    if any(prepared):
        return FAILED
    if None in prepared or any(run.fresh for run in mains):
        return PENDING
    codes = [run.exit_code for run in mains]
    if None in codes:
        return RUNNING
    return FAILED if any(codes) else SUCCEEDED


def conditions_of(
    pod: Obj, phase: str, inits: Sequence[Run], mains: Sequence[Run], text: str, refusal: Refusal | None = None
) -> list[dict[str, Any]]:
    """The conditions of a pod; those of others stay unchanged.

    Args:
        pod: the pod with its current conditions.
        phase: its new phase.
        inits: its init containers.
        mains: its other containers.
        text: the time now.
        refusal: the reason why its containers do not get their desired resources; None if they do.
    """
    before = {each.get("type"): each for each in (pod.get("status") or {}).get("conditions") or ()}
    waits = [run.container["name"] for run in inits if not _prepared(run)]
    unready = [run.container["name"] for run in (*inits, *mains) if run.role != "init" and not run.entry.get("ready")]
    once = (before.get("Initialized") or {}).get("status") == "True"
    initialized = _verdict([] if once else waits, "ContainersNotInitialized", "incomplete")
    containers_ready = ready = _verdict(unready, "ContainersNotReady", "unready")
    if phase in ENDED:
        initialized = {"status": "True", "reason": "PodCompleted"} if phase == SUCCEEDED else initialized
        ready = {"status": "False", "reason": "PodCompleted" if phase == SUCCEEDED else "PodFailed"}
        containers_ready = ready
    elif not unready and (message := closed_gates(pod, before)):
        ready = {"status": "False", "reason": "ReadinessGatesNotReady", "message": message}
    ours = {"Initialized": initialized, "Ready": ready, "ContainersReady": containers_ready}
    if "PodScheduled" not in before:
        ours["PodScheduled"] = {"status": "True"}
    if may_restart_all(pod["spec"]):
        over = {"reason": "PodCompleted" if phase == SUCCEEDED else "PodFailed"} if phase in ENDED else {}
        ours["AllContainersRestarting"] = {"status": "False", **over}
    if refusal is not None:
        ours[PENDING_RESIZE] = {"status": "True", "reason": refusal.reason, "message": refusal.message}
    seen = observed(pod)
    found = [{**_condition(type, verdict, before.get(type) or {}, text), **seen} for type, verdict in ours.items()]
    # Nothing probes here. The server adds these nulls itself, and processes a patch without nulls faster.
    kept = [
        each | seen if type == "PodScheduled" else each
        for type, each in before.items()
        if type not in ours and type != PENDING_RESIZE
    ]
    return found + [{field: value for field, value in each.items() if value is not None} for each in kept]


def closed_gates(pod: Obj, before: Mapping[str, Obj]) -> str:
    """Return the message about readiness gates that are not open; empty if all are.

    Args:
        pod: the pod.
        before: its conditions, by type.
    """
    words = []
    for gate in pod["spec"].get("readinessGates") or ():
        type = gate["conditionType"]
        if type not in before:
            words.append(f'corresponding condition of pod readiness gate "{type}" does not exist.')
        elif before[type].get("status") != "True":
            words.append(f'the status of pod readiness gate "{type}" is not "True", but {before[type].get("status")}')
    return ", ".join(words)


def is_scheduled(pod: Obj) -> bool:
    """Return True if a scheduler has bound the pod to its node, after checking its resources.

    Other pods were created with the name of their node.
    """
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "PodScheduled" and each.get("status") == "True" for each in conditions)


def is_told_ready(pod: Obj) -> bool:
    """Return True if the condition `Ready` matches the containers and readiness gates."""
    before = {each.get("type"): each for each in (pod.get("status") or {}).get("conditions") or ()}
    if before.get("ContainersReady", {}).get("status") != "True":
        return True
    is_ready: bool = before.get("Ready", {}).get("status") == "True"
    return is_ready == (not closed_gates(pod, before))


def is_told_refused(pod: Obj, refusal: Refusal | None) -> bool:
    """Return True if the conditions give the reason why a resize waits, or show that none does."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said = next((each.get("reason") for each in conditions if each.get("type") == PENDING_RESIZE), None)
    return bool(said == (refusal.reason if refusal is not None else None))


def observed(pod: Obj) -> dict[str, Any]:
    """The field with the generation of a pod that its node has observed; empty for a pod without a generation."""
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}


def _prepared(run: Run) -> bool:
    return run.exit_code == 0 if run.role == "init" else not run.fresh


def _verdict(names: Sequence[str], reason: str, word: str) -> dict[str, str]:
    if not names:
        return {"status": "True"}
    return {"status": "False", "reason": reason, "message": f"containers with {word} status: [{' '.join(names)}]"}


def _condition(type: str, verdict: dict[str, str], before: Obj, text: str) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == verdict["status"] else None
    return {"type": type, "lastTransitionTime": since or text, **verdict}


def addresses(pod: Obj, node: Obj) -> dict[str, Any]:
    """Addresses of a pod that starts on a node.

    The pod's address is derived from its uid, in 10.0.0.0/8: the same for the same pod, and rarely the same for two.
    """
    host = next((each["address"] for each in _node_addresses(node) if each.get("type") == "InternalIP"), "")
    number = crc32(pod["metadata"].get("uid", "").encode())
    ip = (
        host
        if pod["spec"].get("hostNetwork") and host
        else f"10.{number >> 8 & 255}.{number >> 16 & 255}.{number % 254 + 1}"
    )
    found = {"podIP": ip, "podIPs": [{"ip": ip}]}
    return {"hostIP": host, "hostIPs": [{"ip": host}], **found} if host else found


def _node_addresses(node: Obj) -> Sequence[Obj]:
    return (node.get("status") or {}).get("addresses") or ()
