"""Requests of pods whose containers are being resized, as counted by kube-scheduler.

Desired amounts (`spec`), amounts allocated by the node (`allocatedResources` in the status), and actual amounts
(`resources` there) may differ. The largest counts: desired amounts must be available later, and actual ones are in use
until released. A resize that the node reports as infeasible is not done, so desired amounts do not count then.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kilauea.api.core import Container, ContainerStatus, Pod, PodStatus, Requirements
from kilauea.api.meta import ResourceMap
from kilauea.api.quantity import QuantityError, resource_amounts

PENDING, INFEASIBLE = "PodResizePending", "Infeasible"
"""The condition of a pending resize, and its reason if it is infeasible."""


def counted(pod: Pod) -> Pod:
    """Return a pod whose spec has the counted requests; the same object if they are unchanged."""
    status, spec = pod.status, pod.spec
    if status is None or not (status.container_statuses or status.init_container_statuses):
        return pod
    infeasible = _is_infeasible(status)
    containers = _counted(spec.containers, status.container_statuses, infeasible)
    sidecars = _counted(spec.init_containers, status.init_container_statuses, infeasible, only="Always")
    if containers is spec.containers and sidecars is spec.init_containers:
        return pod
    return replace(pod, spec=replace(spec, containers=containers, init_containers=sidecars))


def counts_alike(before: Pod, now: Pod) -> bool:
    """Return True if two versions of a pod with equal specs have the same counted requests."""
    one, other = counted(before), counted(now)
    if one is before and other is now:
        return True
    return (one.spec.containers, one.spec.init_containers) == (other.spec.containers, other.spec.init_containers)


def _is_infeasible(status: PodStatus) -> bool:
    pending = next((each for each in status.conditions or () if each.type == PENDING), None)
    return pending is not None and pending.reason == INFEASIBLE


def _counted(
    containers: list[Container] | None, statuses: Sequence[ContainerStatus] | None, infeasible: bool, only: str = ""
) -> list[Container] | None:
    """Return containers with the counted requests; the same list if no request differs.

    Args:
        containers: the containers in the spec.
        statuses: the container statuses.
        infeasible: True if desired amounts do not count.
        only: the restart policy of resizable containers; empty for any.
    """
    if not statuses or not containers or all(map(_has_what_it_wants, containers, statuses)):
        return containers
    granted = {each.name: each for each in statuses if each.resources is not None}
    found, same = [], True
    for each in containers:
        status = granted.get(each.name)
        if status is not None and only in ("", each.restart_policy):
            wanted = (each.resources.requests if each.resources else None) or {}
            requests = _largest(wanted, status, infeasible)
            if requests != wanted:
                each, same = replace(each, resources=_with_requests(each, requests)), False
        found.append(each)
    return containers if same else found


def _has_what_it_wants(container: Container, status: ContainerStatus) -> bool:
    """Return True if a status is of this container and it has its desired amounts, the common case."""
    if status.name != container.name or status.resources is None:
        return status.name == container.name
    wanted = container.resources.requests if container.resources is not None else None
    return status.resources.requests == wanted and status.allocated_resources in (None, wanted)


def _with_requests(container: Container, requests: ResourceMap) -> Requirements:
    return replace(container.resources or Requirements(), requests=requests)


def _largest(wanted: ResourceMap, status: ContainerStatus, infeasible: bool) -> ResourceMap:
    """Return the counted amounts of a container, as written."""
    actual = (status.resources.requests if status.resources else None) or {}
    allocated = status.allocated_resources or {}
    if actual == wanted and allocated in ({}, wanted):
        return wanted
    candidates = (actual, allocated) if infeasible else (wanted, actual, allocated)
    found: ResourceMap = {}
    for amounts in candidates:
        for name, text in amounts.items():
            if name not in found or _amount(name, text) > _amount(name, found[name]):
                found[name] = text
    return found


def _amount(name: str, text: str | float) -> int:
    """Parse an amount; -1 if invalid, so that any other is preferred."""
    try:
        return resource_amounts({name: text}).get(name, 0)
    except QuantityError:
        return -1
