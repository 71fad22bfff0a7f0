"""Nodes, pods, pod groups and queues after a single change, for trials of `what_if`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from kilauea.api.core import (
    Node,
    NodeAffinity,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAffinity,
    ResourceQuota,
    Taint,
    Toleration,
)
from kilauea.api.meta import ObjectMeta, ResourceMap
from kilauea.api.quantity import format_amount, resource_amounts
from kilauea.api.scheduling import NetworkTopology, PodGroup, Queue
from kilauea.api.selectors import TaintKey
from kilauea.api.wellknown import PAUSED
from kilauea.engine.model.tasks import Task

CORDON = "node.kubernetes.io/unschedulable"
"""The taint of cordoned nodes."""

HARD = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods away."""


# --- nodes


def uncordoned(node: Node) -> Node:
    """The node as `kubectl uncordon` leaves it."""
    spec = node.spec or NodeSpec()
    taints = [taint for taint in spec.taints or () if taint.key != CORDON]
    return replace(node, spec=replace(spec, unschedulable=False, taints=taints or None))


def ready(node: Node) -> Node:
    """The node once its kubelet reports that it is healthy: without the taints of conditions."""
    spec = node.spec or NodeSpec()
    taints = [taint for taint in spec.taints or () if not of_condition(taint.key)]
    return replace(node, spec=replace(spec, taints=taints or None))


def is_ready(node: Node) -> bool:
    """False for a node with a taint for a problem of the node."""
    taints: Sequence[Taint] = (node.spec.taints if node.spec else None) or ()
    return not any(of_condition(taint.key) and taint.effect in HARD for taint in taints)


def of_condition(key: str) -> bool:
    """True for the key of a taint that Kubernetes sets and removes by a condition of the node."""
    return key.startswith("node.kubernetes.io/") and key != CORDON


def hard_taints(node: Node) -> list[TaintKey]:
    """The taints that keep pods away, except that of a cordon."""
    taints: Sequence[Taint] = (node.spec.taints if node.spec else None) or ()
    return [TaintKey(t.key, t.value or "", t.effect) for t in taints if t.effect in HARD and t.key != CORDON]


def in_words(taint: TaintKey) -> str:
    """A taint in the syntax of `kubectl taint`."""
    return f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


def offered(node: Node) -> dict[str, int]:
    """The resources of a node, in the engine's units."""
    status = node.status
    return dict(resource_amounts((status.allocatable or status.capacity) if status else None))


def twin(node: Node, name: str, offer: ResourceMap | None = None) -> Node:
    """A new, empty node like another, on request with other resources."""
    status = node.status or NodeStatus()
    given = (status.allocatable or status.capacity or {}) if offer is None else offer
    labels = {**node.labels, "kubernetes.io/hostname": name}
    return Node(
        "v1", "Node", ObjectMeta(name=name, labels=labels), ready(uncordoned(node)).spec, NodeStatus(given, given)
    )


# --- pods


def tolerating(pod: Pod, taint: TaintKey) -> Pod:
    """The pod with a toleration of a taint."""
    toleration = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return replace(pod, spec=replace(pod.spec, tolerations=[*(pod.spec.tolerations or ()), toleration]))


def without_selector(pod: Pod, keys: Collection[str]) -> Pod:
    """The pod without some keys of its node selector."""
    left = {name: value for name, value in (pod.spec.node_selector or {}).items() if name not in keys}
    return replace(pod, spec=replace(pod.spec, node_selector=left or None))


def without_node_affinity(pod: Pod) -> Pod:
    """The pod without required node affinity."""
    return _without_required(pod, "node_affinity")


def without_pod_affinity(pod: Pod) -> Pod:
    """The pod without required affinity to other pods."""
    return _without_required(pod, "pod_affinity")


def without_anti_affinity(pod: Pod) -> Pod:
    """The pod without required anti-affinity to other pods."""
    return _without_required(pod, "pod_anti_affinity")


def _without_required(pod: Pod, kind: Literal["node_affinity", "pod_affinity", "pod_anti_affinity"]) -> Pod:
    affinity = pod.spec.affinity
    rules: NodeAffinity | PodAffinity | None = getattr(affinity, kind, None)
    if affinity is None or rules is None:
        return pod
    wanted = {kind: replace(rules, required=None)}
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **wanted)))


def without_spread(pod: Pod) -> Pod:
    """The pod without topology spread constraints."""
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=None))


def without_gates(pod: Pod) -> Pod:
    """The pod without scheduling gates."""
    return replace(pod, spec=replace(pod.spec, scheduling_gates=None))


def renamed(pod: Pod, name: str) -> Pod:
    """Another pod with the same specification."""
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{name}"))


# --- pod groups and quotas


def smaller(group: PodGroup, minimum: int, tasks: Iterable[Task]) -> PodGroup:
    """The group with a lower minMember and the matching minResources, as its job's controller would write it."""
    spec = group.spec
    first = sorted(tasks, key=lambda task: (-task.priority, task.order))[:minimum]
    if not spec.min_resources or len(first) < minimum:
        return replace(group, spec=replace(spec, min_member=minimum))
    needed = {name: _needed(name, first) for name in spec.min_resources}
    resources = {name: format_amount(name, amount) for name, amount in needed.items()}
    return replace(group, spec=replace(spec, min_member=minimum, min_resources=resources))


def _needed(name: str, tasks: Sequence[Task]) -> float:
    if name in ("pods", "count/pods"):
        return len(tasks)
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return sum(task.spec.requests.get(plain, 0) for task in tasks)


def in_queue(group: PodGroup, queue: str) -> PodGroup:
    """The group in another queue."""
    return replace(group, spec=replace(group.spec, queue=queue))


def within_tier(group: PodGroup, tier: int) -> PodGroup:
    """The group with this highest allowed tier of the network topology."""
    topology = NetworkTopology(highest_tier_allowed=tier)
    return replace(group, spec=replace(group.spec, network_topology=topology))


def raised(quota: ResourceQuota, resource: str, amount: int) -> ResourceQuota:
    """The quota with another limit for one resource."""
    limit: Mapping[str, Any] = {resource: format_amount(resource, amount)}
    spec, status = quota.spec, quota.status
    if spec is not None:
        spec = replace(spec, hard={**(spec.hard or {}), **limit})
    if status is not None and status.hard:
        status = replace(status, hard={**status.hard, **limit})
    return replace(quota, spec=spec, status=status)


# --- queues


def traversed(queue: Queue) -> Queue:
    """The queue as `vcctl queue operate -a update --dequeue-strategy traverse` leaves it."""
    return replace(queue, spec=replace(queue.spec, dequeue_strategy="traverse")) if queue.spec is not None else queue


def resumed(queue: Queue) -> Queue:
    """The queue as `vcctl queue operate -a resume` leaves it."""
    kept = {name: value for name, value in queue.annotations.items() if name != PAUSED}
    return replace(queue, metadata=replace(queue.metadata, annotations=kept))
