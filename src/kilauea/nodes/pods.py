"""Manages the life cycle of pods on simulated nodes, with one status patch for each change.

Pods on nodes that are not simulated, or do not exist, are not changed; those on silent ones wait, as on dead ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kilauea.api import sysctls
from kilauea.api.devices import ALLOCATING, NPU_CORES, SUCCESS
from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from kilauea.api.ports import Delete, Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of, no_keys
from kilauea.api.times import SECOND
from kilauea.nodes import npus, systems
from kilauea.nodes.annotations import (
    SILENT,
    annotation_errors,
    annotations_of,
    is_simulated,
    node_state,
)
from kilauea.nodes.containers import KILLED, NO_CONFIG
from kilauea.nodes.devices import REFUSED, Family, npu_cores, refusal, serving
from kilauea.nodes.host_ports import MESSAGE as PORTS_TAKEN
from kilauea.nodes.host_ports import REFUSED as NO_PORT
from kilauea.nodes.host_ports import collide
from kilauea.nodes.lifecycle import Step, active, advance, bound_at, killed, started
from kilauea.nodes.node_conditions import is_ready
from kilauea.nodes.occupants import AGGREGATES, INDEXES, STARTED, Occupants
from kilauea.nodes.pod_status import PENDING, is_scheduled, is_told_refused, observed
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.references import FIRST_LOOK, VIEW_LAG, Unmet, unmet_of
from kilauea.nodes.requests import shortage
from kilauea.nodes.resizing import INFEASIBLE, is_resized, refusal_of
from kilauea.nodes.stopping import stop_time
from kilauea.nodes.timestamps import moment_of, second_text

STOPPED = 143
"""The exit code of a container that ends by SIGTERM."""
ROOM = ("cpu", "memory", "ephemeral-storage")
"""Resources that a node checks for a pod; extended ones are checked by their device plugins."""
NODE_AWAY, NODE_UNREADY = 10.0, 1.0
"""Seconds until a pod checks its node again: one that does not exist or is silent, one that is not ready."""


def _concerned(pod: Obj) -> Iterable[Key]:
    """Yield the key of a pod that its node must handle."""
    if pod["spec"].get("nodeName") and (active(pod) or "deletionTimestamp" in pod["metadata"]):
        return (key_of(pod),)
    return ()


class Pods:
    """The part of a kubelet that runs pods.

    Args:
        start_delay: seconds for creating containers; with 0, a pod becomes Running in one step.
        run_time: microseconds for commands of unknown run time; 0 for no end.
        waits_for_objects: True if pods wait for the objects that they name, which requires a view of all ConfigMaps and
            Secrets of the cluster.
    """

    name = "simulated-pods"

    def __init__(
        self, start_delay: float = 0.0, run_time: int = JOB_RUN_TIME, *, waits_for_objects: bool = True
    ) -> None:
        self._run_time = run_time
        self._waits_for_objects = waits_for_objects
        self._start_delay = int(start_delay * SECOND)
        named = (
            *(Interest(kind, no_keys) for kind in (CONFIG_MAPS, SECRETS, CLAIMS)),
            Interest(SERVICE_ACCOUNTS, no_keys, fields=()),
        )
        self.interests: Sequence[Interest] = (
            Interest(PODS, _concerned, indexes=INDEXES, aggregates=AGGREGATES),
            Interest(NODES, no_keys),
            *(named if waits_for_objects else ()),
        )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Take the next step of a pod, and return the time of the next one."""
        pod = view.get(PODS, key)
        if pod is None or not pod["spec"].get("nodeName"):
            return Outcome()
        node = view.get(NODES, Key("", pod["spec"]["nodeName"]))
        if node is None:
            # A node that returns ends pods that were being deleted, even if they were marked as failed meanwhile.
            return Outcome(again=NODE_AWAY if active(pod) or "deletionTimestamp" in pod["metadata"] else None)
        if not is_simulated(node):
            return Outcome()
        if node_state(node) == SILENT:
            return Outcome(again=NODE_AWAY)
        if "deletionTimestamp" in pod["metadata"]:
            return _end(pod, node, now, self._run_time)
        if not active(pod):
            return Outcome()
        if not started(pod) and not is_ready(node):
            return Outcome(again=NODE_UNREADY)
        return self._go_on(pod, node, view, now)

    def _go_on(self, pod: Obj, node: Obj, view: View, now: int) -> Outcome:
        if not started(pod) and systems.is_for_another_system(pod, node):
            return Outcome(_failed(pod, systems.REFUSED, systems.MESSAGE, now))
        if not started(pod) and (forbidden := sysctls.refusal(pod["spec"])):
            return Outcome(_failed(pod, sysctls.REFUSED, f"Pod was rejected: {forbidden}", now))
        asking = serving(pod, node)
        if not started(pod):
            rejected = _rejected(pod, node, asking, Occupants(view, pod), now)
            if rejected:
                return Outcome(rejected)
        refused = None
        if is_resized(pod):
            refused = refusal_of(pod, node, lambda: view.indexed(PODS, STARTED, pod["spec"]["nodeName"]))
        waits = self._waits_for_objects and (pod.get("status") or {}).get("phase", PENDING) == PENDING
        unmet = unmet_of(pod, view.get) if waits else None
        if unmet is not None and not started(pod) and now - (bound_at(pod) or 0) < VIEW_LAG:
            return Outcome(again=FIRST_LOOK / SECOND)
        step = advance(pod, node, now, self._start_delay, self._run_time, refused, unmet)
        operations = [*_told(pod, step), *_lacks(pod, step, unmet)]
        if refused is not None and not is_told_refused(pod, refused):
            if refused.reason == INFEASIBLE:
                operations.append(Record(pod, "Warning", "ResizeInfeasible", refused.message))
            else:
                operations.append(Record(pod, "Warning", "ResizeDeferred", refused.message))
        if asking and started(pod):
            operations += _given(pod, node, asking)
        rests = step.rests and not asking  # annotations of cards are written after the start
        return Outcome(operations, None if step.due is None else max(step.due - now, 0) / SECOND, rests)


def _rejected(pod: Obj, node: Obj, asking: Sequence[Family], occupants: Occupants, now: int) -> list[Operation]:
    """The writes for a pod for which the node has no room; none if it has."""
    if occupants.own.ports and collide(occupants.own.ports, occupants.ports):
        return _failed(pod, NO_PORT, PORTS_TAKEN, now)
    # A scheduler has counted the other pods. Repeating that for each of them would take too long.
    taken = () if is_scheduled(pod) else occupants
    offered = (node.get("status") or {}).get("allocatable") or {}
    wanted = {name: value for name, value in occupants.own.requests.items() if name in ROOM and name in offered}
    short = shortage(wanted, node, taken)
    if short is not None:
        return _failed(pod, short[0], f"Pod was rejected: {short[1]}", now)
    if asking:
        names = [name for each in asking for name in each.resources]
        if message := refusal(pod, node, occupants.requesting(names)):
            return _refused(pod, node, asking, message, now)
    if (cores := npu_cores(pod)) and (message := npus.refusal(pod, node, cores, occupants.requesting([NPU_CORES]))):
        return _refused(pod, node, (), message, now)
    return []


def _told(pod: Obj, step: Step) -> list[Operation]:
    """The writes of a step."""
    if not step.status:
        return []
    operations: list[Operation] = [_patch(pod, step.status)]
    if not started(pod):
        wrong = annotation_errors(annotations_of(pod))
        operations += [Record(pod, "Warning", "InvalidAnnotation", f"ignored: {each}") for each in wrong]
    return operations


def _lacks(pod: Obj, step: Step, unmet: Unmet | None) -> Iterable[Operation]:
    """Yield an event for each volume that cannot be mounted, once, and for each container that cannot be created."""
    if unmet is None or not step.status:
        return
    if not started(pod):
        yield from (Record(pod, "Warning", "FailedMount", message) for message in unmet.volumes)
    for part in ("initContainerStatuses", "containerStatuses"):
        before = {each.get("name"): each.get("state") for each in (pod.get("status") or {}).get(part) or ()}
        for each in step.status.get(part) or ():
            waiting = each["state"].get("waiting") or {}
            if waiting.get("reason") == NO_CONFIG and before.get(each["name"]) != each["state"]:
                yield Record(pod, "Warning", "Failed", f"Error: {waiting['message']}")


def _given(pod: Obj, node: Obj, asking: Sequence[Family]) -> list[Operation]:
    """The writes of the device plugin for a pod that has started: once, the phase of its bind, and its node's lock."""
    notes = annotations_of(pod)
    phases = {each.phase: SUCCESS for each in asking if notes.get(each.phase) == ALLOCATING}
    if not phases:
        return []
    return [*_unlocked(node, asking), Patch(PODS, key_of(pod), {"metadata": {"annotations": phases}})]


def _unlocked(node: Obj, asking: Sequence[Family]) -> list[Operation]:
    locks = {each.lock: None for each in asking if each.lock in annotations_of(node)}
    return [Patch(NODES, key_of(node), {"metadata": {"annotations": locks}})] if locks else []


def _refused(pod: Obj, node: Obj, asking: Sequence[Family], message: str, now: int) -> list[Operation]:
    """The writes for a pod whose cards the device plugin rejects."""
    text = f"Allocate failed due to {message}, which is unexpected"
    return [*_unlocked(node, asking), *_failed(pod, REFUSED, text, now)]


def _failed(pod: Obj, reason: str, message: str, now: int) -> list[Operation]:
    """The writes for a pod that the node rejects."""
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": second_text(now), **observed(pod)}
    return [_patch(pod, status), Record(pod, "Warning", reason, message)]


def _patch(pod: Obj, status: Mapping[str, Any]) -> Patch:
    """A change of the status, if the pod is unchanged."""
    version = pod["metadata"].get("resourceVersion", "")
    return Patch(PODS, key_of(pod), {"status": status}, subresource="status", version=version)


def _end(pod: Obj, node: Obj, now: int, run_time: int) -> Outcome:
    """The remaining writes for a pod that is being deleted."""
    metadata = pod["metadata"]
    grace = int(metadata.get("deletionGracePeriodSeconds") or 0)
    needed = min(stop_time(pod), grace * SECOND)
    end = (moment_of(metadata["deletionTimestamp"]) or now) - grace * SECOND + needed
    if active(pod) and now < end:
        return Outcome(again=(end - now) / SECOND)
    operations: list[Operation] = []
    if active(pod):
        # Kubelets write the end before they remove a pod, so that watchers see how its containers ended.
        code = KILLED if needed == grace * SECOND and needed else STOPPED
        status = killed(pod, node, now, code, run_time)
        operations += [_patch(pod, status)] if status else []
    if grace or not metadata.get("finalizers"):
        operations.append(Delete(PODS, key_of(pod), metadata["uid"], grace=0))
    return Outcome(operations)
