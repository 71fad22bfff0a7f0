"""Helpers for pods: which ones count, which are ready, which are deleted first, and creation from a template."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import Create, Key, Obj, Operation, Record, Resource, Single, View
from kilauea.api.times import SECOND, parse_time
from kilauea.controllers.hashes import LONGEST_BASE, suffixes
from kilauea.controllers.objects import (
    adoption,
    annotations_of,
    condition_of,
    is_going,
    labels_of,
    matcher,
    name_of,
    orphans,
    owned_by,
    owner_reference,
    release,
    spec_of,
    status_of,
    uid_of,
)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINISHED = frozenset({"Succeeded", "Failed"})
READ_PER_STEP = 200
"""Number of pods to read in a step."""
_PHASE_RANK = {"": 0, "Pending": 0, "Unknown": 1, "Running": 2}


def phase_of(pod: Obj) -> str:
    """Return the phase; empty if not set."""
    return str(status_of(pod).get("phase") or "")


def is_finished(pod: Obj) -> bool:
    """Return True if all containers have ended for good."""
    return phase_of(pod) in FINISHED


def is_active(pod: Obj) -> bool:
    """Return True if a pod counts as a replica: neither finished nor being deleted."""
    return not pod["metadata"].get("deletionTimestamp") and status_of(pod).get("phase") not in FINISHED


def is_ready(pod: Obj) -> bool:
    """Return True if a pod is ready."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Obj) -> int | None:
    """Return the time since which a pod is ready, in microseconds since 1970; None if it is not."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    when = condition.get("lastTransitionTime")
    return parse_time(when) if when else 0


def seconds_until_available(pod: Obj, min_ready_seconds: int, now: int) -> float | None:
    """Return the seconds until a ready pod is available; 0 if it is, None if it is not ready."""
    if not min_ready_seconds:
        return 0.0 if is_ready(pod) else None
    since = ready_since(pod)
    return None if since is None else max(0.0, (since - now) / SECOND + min_ready_seconds)


def restarts(pod: Obj) -> int:
    """The highest number of restarts of its containers."""
    return max((each.get("restartCount") or 0 for each in status_of(pod).get("containerStatuses") or ()), default=0)


# --- ownership


Claimed = Generator[Sequence[Operation], None, tuple[list[Obj], list[Operation]]]
"""Pods of an owner, and the operations that adopt or release them; read in steps, as in `kilauea.api.ports.Steps`."""


def claim(view: View, resource: Resource, owner: Obj) -> Claimed:
    """The pods of an owner with a selector, and the operations that adopt or release them.

    Matching pods without a controller are adopted, and pods that no longer match are released.
    """
    selected = matcher(spec_of(owner).get("selector"))
    mine: list[Obj] = []
    operations: list[Operation] = []
    for number, pod in enumerate(owned_by(view, PODS, owner), 1):
        if selected(labels_of(pod)):
            mine.append(pod)
        elif not is_going(pod):
            operations.append(release(PODS, pod, owner))
        if number % READ_PER_STEP == 0:
            yield ()
    if not is_going(owner):
        for pod in orphans(view, PODS, owner, selected):
            mine.append(pod)
            operations.append(adoption(PODS, pod, resource, owner))
    return mine, operations


# --- order of deletion


def pods_by_node(pods: list[Obj]) -> Mapping[str, int]:
    """Return the number of some pods on each node."""
    counts: dict[str, int] = {}
    for pod in pods:
        node = spec_of(pod).get("nodeName")
        if node:
            counts[node] = counts.get(node, 0) + 1
    return counts


def _cost(pod: Obj) -> int:
    """The annotated cost of deleting a pod; 0 if missing or invalid."""
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def deletion_rank(pod: Obj, beside: Mapping[str, int]) -> tuple[object, ...]:
    """Sort key: the pods to delete first come first.

    Args:
        pod: the pod.
        beside: number of pods of the same owner on each node.
    """
    node = spec_of(pod).get("nodeName") or ""
    since = ready_since(pod)
    created = parse_time(pod["metadata"]["creationTimestamp"])
    crowded = -beside.get(node, 0)
    phase = _PHASE_RANK.get(phase_of(pod), 2)
    rank = (bool(node), phase, since is not None, _cost(pod), crowded)
    return (*rank, -(since or 0), -restarts(pod), -created, name_of(pod))


# --- creation


def from_template(template: Mapping[str, Any], resource: Resource, owner: Obj, name: str) -> dict[str, Any]:
    """Create the pod of a template, controlled by an owner; parts that may be extended are copies."""
    given = template.get("metadata") or {}
    metadata: dict[str, Any] = {"name": name, "namespace": owner["metadata"]["namespace"]}
    for part in ("labels", "annotations", "finalizers"):
        if given.get(part):
            metadata[part] = given[part].copy()
    metadata["ownerReferences"] = [owner_reference(resource, owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def free_names(view: View, owner: Obj, base: str = "") -> Iterator[str]:
    """Yield free names for pods of an owner, in the same order as long as the owner has the same version."""
    namespace, taken = owner["metadata"]["namespace"], set()
    base = generate_name(base or name_of(owner))
    for suffix in suffixes(f"{uid_of(owner)}/{owner['metadata']['resourceVersion']}"):
        name = base + suffix
        if name not in taken and view.get(PODS, Key(namespace, name)) is None:
            taken.add(name)
            yield name


def generate_name(base: str) -> str:
    """Return the prefix of generated pod names: a name and a hyphen, truncated so that a suffix fits."""
    return f"{base}-"[:LONGEST_BASE]


def creation(resource: Resource, owner: Obj, pod: Obj) -> tuple[Single, Single]:
    """Create a pod, with an event."""
    told = Record(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
    return Create(PODS, pod, about=owner), told
