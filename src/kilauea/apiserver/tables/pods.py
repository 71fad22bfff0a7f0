"""The row of a pod: its ready containers, state and restarts."""

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
    """Return the row of a pod; finished pods are marked."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    first, rest = state.get("initContainerStatuses") or [], state.get("containerStatuses") or []
    sidecars = {each.get("name") for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"}
    starting = _initialising(spec, first, sidecars)
    initialised = not starting or _is_true(state, "Initialized")
    ready = [each for each in first if each.get("name") in sidecars and each.get("started") and each.get("ready")]
    counted = first
    if initialised:
        ready += [each for each in rest if each.get("ready") and part(each, "state", "running") is not None]
        counted = [each for each in first if each.get("name") in sidecars] + rest
    address = next((each.get("ip", "") for each in state.get("podIPs") or []), "") or state.get("podIP", "")
    cells = [
        obj["metadata"].get("name", ""),
        f"{len(ready)}/{len(spec.get('containers') or []) + len(sidecars)}",
        _doing(obj, state, starting, initialised),
        _restarts(counted, now),
        age(obj, now),
        address or NONE,
        spec.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        _gates(spec, state),
    ]
    mark = _ENDED.get(state.get("phase", ""))
    return Row(cells, [mark] if mark else [])


def _doing(obj: Object, state: Object, starting: str, initialised: bool) -> str:
    """Return the phase or a more specific status: the reason of a container, the progress of initialization, deletion.

    Args:
        obj: the pod.
        state: its status.
        starting: the status of initialization; empty if complete.
        initialised: True if its containers may run.
    """
    word = state.get("reason") or state.get("phase", "")
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in state.get("conditions") or []
    ):
        word = "SchedulingGated"
    word = starting or word
    if initialised:
        word = _of_containers(state, word)
    if obj["metadata"].get("deletionTimestamp"):
        if state.get("reason") == "NodeLost":
            return "Unknown"
        if state.get("phase") not in _ENDED:
            return "Terminating"
    return str(word)


def _is_true(state: Object, kind: str) -> bool:
    """Return True if the pod has a condition."""
    return any(each.get("type") == kind and each.get("status") == "True" for each in state.get("conditions") or [])


def _initialising(spec: Object, statuses: list[Object], sidecars: set[Any]) -> str:
    """Return `Init:1/2`, or the reason why the next init container does not finish; empty once all are done."""
    total = len(spec.get("initContainers") or [])
    for number, each in enumerate(statuses):
        ended, waiting = part(each, "state", "terminated"), part(each, "state", "waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if each.get("name") in sidecars and each.get("started"):
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or _exit(ended)}"
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{number}/{total}"
    return ""


def _exit(ended: Object) -> str:
    """Return the exit code or signal of a container without a reason."""
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _of_containers(state: Object, word: Any) -> Any:
    """Return the reason of the first waiting or terminated container, failures first; the word if none has one."""
    running, failure = False, ""
    for each in reversed(state.get("containerStatuses") or []):
        waiting, ended = part(each, "state", "waiting"), part(each, "state", "terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = ended.get("reason") or _exit(ended)
            failure = word if ended.get("exitCode", 0) else failure
        elif each.get("ready") and part(each, "state", "running") is not None:
            running = True
    if word != "Completed":
        return word
    if running and _is_true(state, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else word)


def _restarts(statuses: list[Object], now: int) -> str:
    """Return the number of restarts, and the time of the last one."""
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = [part(each, "lastState", "terminated", "finishedAt") for each in statuses]
    last = max((each for each in ends if each), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _gates(spec: Object, state: Object) -> str:
    """Return the number of ready readiness gates and of all."""
    gates = spec.get("readinessGates") or []
    if not gates:
        return listed([])
    true = {each.get("type") for each in state.get("conditions") or [] if each.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
