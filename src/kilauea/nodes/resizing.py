"""Changes of cpu and memory of running containers, as a kubelet grants them to a resized pod.

The desired resources of a container are in the pod's specification, the actual ones in its status. A node with enough
resources makes the second equal to the first, here without delay. Otherwise the condition `PodResizePending` gives the
reason, and the containers keep their resources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND
from kilauea.nodes.requests import amounts_of, requests_of
from kilauea.nodes.timestamps import moment_of

PENDING = "PodResizePending"
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
RETRY = 2 * SECOND
"""Microseconds until a node checks again if a resize fits."""
RESIZED = ("cpu", "memory")
_QUALITY = {"Guaranteed": 0, "Burstable": 1}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A resize that a node does not carry out now.

    Attributes:
        reason: `Infeasible` if the node is too small, `Deferred` if it waits for free resources.
        message: the missing resource.
    """

    reason: str
    message: str


def is_resized(pod: Obj) -> bool:
    """Return True if a container of a pod does not have the resources in the specification."""
    return any(_wanted(container) != has for container, has in _reported(pod))


def refusal_of(pod: Obj, node: Obj, others: Callable[[], Sequence[Obj]]) -> Refusal | None:
    """Return the reason why a node does not resize a pod now; None if it does.

    Args:
        pod: the pod, which `is_resized`.
        node: its node.
        others: returns all pods that are bound to the node; called only if the node as such is large enough.
    """
    allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
    wanted = requests_of(pod)
    for name in RESIZED:
        if wanted.get(name, 0) > allocatable.get(name, 0):
            amounts = f"requested: {wanted[name]}, capacity: {allocatable.get(name, 0)}"
            return Refusal(INFEASIBLE, f"Node didn't have enough capacity: {name}, {amounts}")
    there = [each for each in others() if _is_beside(each, pod)]
    used = {each["metadata"].get("uid", ""): requests_of(each, _granted(each)) for each in there}
    missing = _missing(wanted, used.values(), allocatable)
    if missing is not None:
        return missing
    own = requests_of(pod, _granted(pod))
    for each in sorted((each for each in there if is_resized(each) and _turn(each) < _turn(pod)), key=_turn):
        # The other pod is checked again soon, too. If both do not fit, it gets the resources.
        uid, asked = each["metadata"].get("uid", ""), requests_of(each)
        beside = [had for other, had in used.items() if other != uid]
        if _missing(asked, [*beside, own], allocatable) is None:
            used[uid] = asked
    return _missing(wanted, used.values(), allocatable)


def _missing(
    wanted: Mapping[str, int], used: Collection[Mapping[str, int]], there: Mapping[str, int]
) -> Refusal | None:
    """Return the refusal of a pod that does not fit beside others."""
    for name in RESIZED:
        taken = sum(each.get(name, 0) for each in used)
        if wanted.get(name, 0) and wanted[name] + taken > there.get(name, 0):
            amounts = f"requested: {wanted[name]}, used: {taken}, capacity: {there.get(name, 0)}"
            return Refusal(DEFERRED, f"Node didn't have enough resource: {name}, {amounts}")
    return None


def _is_beside(other: Obj, pod: Obj) -> bool:
    """Return True if another pod uses resources of the node."""
    phase = (other.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and other["metadata"].get("uid") != pod["metadata"].get("uid")


def _turn(pod: Obj) -> tuple[int, int, int, str]:
    """The order in which pods are resized: by priority, QoS class, and waiting time."""
    status = pod.get("status") or {}
    since = next((each for each in status.get("conditions") or () if each.get("type") == PENDING), None)
    waits = moment_of((since or {}).get("lastTransitionTime"))
    quality = _QUALITY.get(status.get("qosClass", ""), len(_QUALITY))
    latest = 2**63
    return (
        -(pod["spec"].get("priority") or 0),
        quality,
        latest if waits is None else waits,
        pod["metadata"].get("uid", ""),
    )


def _granted(pod: Obj) -> dict[str, Obj]:
    """The actual resources of the containers of a pod, by name, as far as the status contains them."""
    return {container["name"]: has for container, has in _reported(pod)}


def _reported(pod: Obj) -> Iterator[tuple[Obj, Obj]]:
    """Yield the containers with resources in the status, and these."""
    spec, status = pod["spec"], pod.get("status") or {}
    for group, part in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        known = {each.get("name"): each.get("resources") for each in status.get(part) or ()}
        for container in spec.get(group) or ():
            has = known.get(container["name"])
            if has is not None:
                yield container, has


def _wanted(container: Obj) -> Obj:
    return container.get("resources") or {}


def granted(container: Obj) -> dict[str, Any]:
    """Return the status fields for the resources of a container, once it has the desired ones."""
    wanted = _wanted(container)
    requests = wanted.get("requests")
    return {"resources": wanted, "allocatedResources": requests} if requests else {"resources": wanted}


def restarts(container: Obj, has: Obj) -> bool:
    """Return True if a container must be restarted to get the resources in its specification.

    Args:
        container: the container in the specification.
        has: its actual resources.
    """
    rules = {each.get("resourceName"): each.get("restartPolicy") for each in container.get("resizePolicy") or ()}
    return any(
        rules.get(name) == "RestartContainer" and _amount(_wanted(container), side, name) != _amount(has, side, name)
        for name in RESIZED
        for side in ("requests", "limits")
    )


def _amount(resources: Obj, side: str, name: str) -> Any:
    return (resources.get(side) or {}).get(name)
