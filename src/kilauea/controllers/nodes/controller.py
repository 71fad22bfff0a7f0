"""The node lifecycle controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kilauea.api.kinds import LEASES, NODES, PODS
from kilauea.api.ports import (
    Confirm,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    Reference,
    View,
    no_keys,
)
from kilauea.api.times import SECOND
from kilauea.controllers.nodes.eviction import lost, stay_left, taint_eviction, unready
from kilauea.controllers.nodes.health import GRACE_SECONDS, last_heartbeat, last_renewal, readiness, taints, unknown
from kilauea.controllers.objects import condition_of, is_going, name_of, own_key, spec_of, uid_of
from kilauea.controllers.pods import is_finished

LEASE_NAMESPACE = "kube-node-lease"
NODE_NAME = "spec.nodeName"
ARRIVAL_SECONDS = 1.0
"""Seconds for which new pods on a node are collected before the node is reconciled."""


def node_of(pod: Obj) -> str:
    """An index: the node of a pod."""
    return str(spec_of(pod).get("nodeName") or "")


def _keys_of_pod(pod: Obj) -> Iterable[Key]:
    """Yield the node of a pod: the node may have taints that the pod does not tolerate, or may not exist.

    That matters of pods that are new on it, but who comes late may see them for the first time when they run, or have
    ended.
    """
    name = node_of(pod)
    return (Key("", name),) if name else ()


WELL = "well"


def _name_if_well(node: Obj) -> str:
    """An index: the name of a node that can accept and keep pods, according to its object."""
    driving = any(each["effect"] == "NoExecute" for each in spec_of(node).get("taints") or ())
    return "" if driving or readiness(node) != "True" else name_of(node)


def _is_well(key: Key, view: View) -> bool:
    """Return True for a node whose pods need no check; a node that becomes unready is a separate event."""
    return view.count_indexed(NODES, WELL, key.name) > 0


SETTLED = "settled"


def _name_if_settled(node: Obj) -> str:
    """An index: the name of a node that needs nothing as long as its heartbeats arrive."""
    if is_going(node) or not _name_if_well(node):
        return ""
    return name_of(node) if taints(node, "True", 0) == (spec_of(node).get("taints") or []) else ""


EVERYWHERE = Key("", "")
"""Reconciled at the start: nodes may have been deleted while the controller was down, without an event."""


class NodeLifecycleController:
    """Monitors nodes.

    Args:
        running_since: returns the time since which this process has run without a stall, in microseconds since 1970,
            given the current time; earlier silence of nodes does not count.
        speaks_for: returns True for a node that this very process runs: it is alive, however late its heartbeats are.
    """

    name = "node-lifecycle-controller"
    interests = (
        Interest(NODES, own_key, indexes={WELL: _name_if_well, SETTLED: _name_if_settled}, always=(EVERYWHERE,)),
        Interest(PODS, _keys_of_pod, indexes={NODE_NAME: node_of}, delay=ARRIVAL_SECONDS, unless=_is_well),
        Interest(LEASES, no_keys),
    )

    def __init__(
        self,
        running_since: Callable[[int], int] = lambda now: 0,
        speaks_for: Callable[[Obj], bool] = lambda node: False,
    ) -> None:
        self._running_since = running_since
        self._speaks_for = speaks_for

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Update the conditions and taints of a node, and evict pods if necessary."""
        if key == EVERYWHERE:
            return _without_any_node(view, now)
        lease = view.get(LEASES, Key(LEASE_NAMESPACE, key.name))
        renewed = last_renewal(lease)
        if renewed and view.count_indexed(NODES, SETTLED, key.name):
            left = (renewed - now) / SECOND + GRACE_SECONDS
            if left > 0:  # most calls are of this kind: it is only time to check if the Lease was renewed
                return Outcome(again=left)
        node = view.get(NODES, key)
        if node is None:
            return _without_node(view, key.name, now)
        if is_going(node):
            return Outcome()
        patience = self._patience(node, lease, now)
        silent = patience is not None and patience <= 0
        state = "Unknown" if silent else readiness(node)
        operations: list[Operation] = []
        if silent:
            operations += _silenced(node, now)
        if state != "True":
            for pod in view.indexed(PODS, NODE_NAME, key.name):
                operations += unready(pod, now)
        wanted = taints(node, state, now)
        if wanted != (spec_of(node).get("taints") or []):
            version = "" if silent else node["metadata"]["resourceVersion"]
            operations.append(Patch(NODES, key, {"spec": {"taints": wanted}}, version=version))
        driving = [each for each in wanted if each["effect"] == "NoExecute"]
        gone, wait = _driven(view, key.name, driving, now) if driving else ([], None)
        waits = [each for each in (wait, None if silent else patience) if each is not None]
        return Outcome([*operations, *gone], min(waits, default=None))

    def _patience(self, node: Obj, lease: Obj | None, now: int) -> float | None:
        """Seconds until a node counts as unreachable, 0 or less if it already does; None if it cannot."""
        if self._speaks_for(node):
            return None
        return (last_heartbeat(node, lease, self._running_since(now)) - now) / SECOND + GRACE_SECONDS


def _without_any_node(view: View, now: int) -> Outcome:
    """Delete pods whose node was deleted before the start."""
    there = {"", *(node["metadata"]["name"] for node in view.list(NODES))}
    return _lost((pod for pod in view.list(PODS) if node_of(pod) not in there), now)


def _without_node(view: View, name: str, now: int) -> Outcome:
    """Delete pods of a deleted node."""
    return _lost(view.indexed(PODS, NODE_NAME, name), now)


def _lost(pods: Iterable[Obj], now: int) -> Outcome:
    """Delete pods once it is certain that their node does not exist: watches of kinds are not synchronized."""
    operations: list[Operation] = []
    nodes: dict[str, None] = {}
    waits = []
    for pod in pods:
        doing, wait = lost(pod, now)
        operations += doing
        if wait is not None:
            waits.append(wait)
        else:
            nodes[node_of(pod)] = None
    absent = [Reference(NODES, Key("", name), "") for name in nodes]
    return Outcome([Confirm(absent), *operations] if absent else [], min(waits, default=None))


def _silenced(node: Obj, now: int) -> list[Operation]:
    """Set the conditions of an unreachable node to Unknown."""
    said = unknown(node, now)
    if not said:
        return []
    key = Key("", node["metadata"]["name"])
    patch = {"metadata": {"uid": uid_of(node)}, "status": {"conditions": said}}
    operations: list[Operation] = [Patch(NODES, key, patch, "strategic", "status")]
    ready = condition_of(node, "Ready")
    if ready is not None and ready.get("status") == "True":
        operations.append(Record(node, "Normal", "NodeNotReady", f"Node {key.name} status is now: NodeNotReady"))
    return operations


def _driven(view: View, name: str, driving: list[dict[str, str]], now: int) -> tuple[list[Operation], float | None]:
    """Delete pods that no longer tolerate the taints; returns the seconds until the next one."""
    operations: list[Operation] = []
    waits = []
    for pod in view.indexed(PODS, NODE_NAME, name):
        left = None if is_going(pod) or is_finished(pod) else stay_left(pod, driving, now)
        if left == 0:
            operations += taint_eviction(pod, now)
        elif left is not None:
            waits.append(left)
    return operations, min(waits, default=None)
