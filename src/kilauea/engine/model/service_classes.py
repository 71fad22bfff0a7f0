"""QoS classes of pods (`status.qosClass`), and their limits of cpu and memory.

The class depends on the requests and limits of cpu and memory of all containers; Kubernetes kills pods in this order
when a node runs out of memory, and assigns whole processors only to the last class.
"""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.api.core import Container, PodSpec
from kilauea.api.meta import ResourceMap
from kilauea.api.quantity import resource_amounts
from kilauea.engine.model.resources import CPU, MEMORY

BEST_EFFORT, BURSTABLE, GUARANTEED = range(3)
"""Classes, in the order in which pods are killed."""


def qos_of(spec: PodSpec) -> int:
    """The class of a pod."""
    every = (*(spec.init_containers or ()), *(spec.containers or ()))
    classes = {_class_of(container) for container in every} or {BEST_EFFORT}
    return classes.pop() if len(classes) == 1 else BURSTABLE


def _class_of(container: Container) -> int:
    """The class of a pod whose containers are all like this one."""
    resources = container.resources
    if resources is None or not (resources.requests or resources.limits):
        return BEST_EFFORT
    requests, limits = _amounts(resources.requests), _amounts(resources.limits)
    if all(limits.get(name) and requests.get(name, limits[name]) == limits[name] for name in (CPU, MEMORY)):
        return GUARANTEED
    return BURSTABLE if any(of.get(name) for of in (requests, limits) for name in (CPU, MEMORY)) else BEST_EFFORT


def limits_of(spec: PodSpec) -> tuple[int, int]:
    """The sums of the limits of cpu and memory, each 0 if a container has none."""
    cpu = memory = 0
    for container in spec.containers or ():
        limits = _amounts(container.resources.limits) if container.resources else {}
        cpu = cpu + limits[CPU] if cpu >= 0 and limits.get(CPU) else -1
        memory = memory + limits[MEMORY] if memory >= 0 and limits.get(MEMORY) else -1
    return max(cpu, 0), max(memory, 0)


def _amounts(resources: ResourceMap | None) -> Mapping[str, int]:
    return resource_amounts(resources) if resources else {}
