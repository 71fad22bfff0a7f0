"""The row of a pod: how many containers are ready, what it is doing, how often it was started again."""

from __future__ import annotations

from typing import Any

from kilauea.api.ages import age, since
from kilauea.apiserver.tables.columns import NONE, Object, Row, listed, part

_COMPLETED = {
    "type": "Completed",
    "status": "True",
    "reason": "Succeeded",
    "message": "The pod has completed successfully.",
}
_FAILED = {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
_ENDED = {"Succeeded": _COMPLETED, "Failed": _FAILED}


def pod_row(obj: Object, now: int) -> Row:
    """A pod as a row; pods that have ended are marked."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    statuses = state.get("containerStatuses") or []
    ready = sum(bool(each.get("ready")) and "running" in (each.get("state") or {}) for each in statuses)
    address = next((each.get("ip", "") for each in state.get("podIPs") or []), "") or state.get("podIP", "")
    cells = [
        obj["metadata"].get("name", ""),
        f"{ready}/{len(spec.get('containers') or [])}",
        _doing(obj, spec, state),
        _restarts(statuses, now),
        age(obj, now),
        address or NONE,
        spec.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        _gates(spec, state),
    ]
    mark = _ENDED.get(state.get("phase", ""))
    return Row(cells, [mark] if mark else [])


def _doing(obj: Object, spec: Object, state: Object) -> str:
    """The phase, or what says more: why containers wait or have ended, that initialising goes on, that it goes away."""
    word = state.get("reason") or state.get("phase", "")
    conditions = {each.get("type"): each for each in state.get("conditions") or []}
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    started = _initialising(spec, state)
    if started:
        word = started
    else:
        word = _of_containers(state, conditions) or word
    if obj["metadata"].get("deletionTimestamp"):
        return "Unknown" if state.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _initialising(spec: Object, state: Object) -> str:
    """`Init:1/2`, or why the init container that is next does not end; empty once all have ended."""
    total = len(spec.get("initContainers") or [])
    for number, each in enumerate(state.get("initContainerStatuses") or []):
        ended, waiting = part(each, "state", "terminated"), part(each, "state", "waiting")
        if ended is not None:
            if ended.get("exitCode", 0) == 0:
                continue
            return f"Init:{ended.get('reason') or _exit(ended)}"
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{number}/{total}"
    return ""


def _exit(ended: Object) -> str:
    """The end of a container without a reason."""
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _of_containers(state: Object, conditions: dict[Any, Object]) -> str:
    """The reason of the first container that waits or has ended."""
    word, running = "", False
    for each in reversed(state.get("containerStatuses") or []):
        waiting, ended = part(each, "state", "waiting"), part(each, "state", "terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = ended.get("reason") or _exit(ended)
        elif each.get("ready") and part(each, "state", "running") is not None:
            running = True
    if word == "Completed" and running:
        return "Running" if (conditions.get("Ready") or {}).get("status") == "True" else "NotReady"
    return word


def _restarts(statuses: list[Object], now: int) -> str:
    """The number of restarts, and the time of the last one."""
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = [part(each, "lastState", "terminated", "finishedAt") for each in statuses]
    last = max((each for each in ends if each), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _gates(spec: Object, state: Object) -> str:
    """The number of open readiness gates."""
    gates = spec.get("readinessGates") or []
    if not gates:
        return listed([])
    true = {each.get("type") for each in state.get("conditions") or [] if each.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
