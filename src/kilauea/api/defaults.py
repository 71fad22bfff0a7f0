"""Defaults of an API server, for objects that were read from files.

Only absent fields are set. Objects are changed in place. Objects from a cluster are already complete, and so unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kilauea.api.core import Container, Pod
from kilauea.api.errors import CLUSTER_KINDS, kind_of, object_label
from kilauea.api.meta import Object
from kilauea.api.scheduling import PriorityClass
from kilauea.api.storage import PersistentVolumeClaim, StorageClass
from kilauea.api.wellknown import (
    BETA_STORAGE_CLASS,
    DEFAULT_SCHEDULER,
    DEFAULT_STORAGE_CLASS,
    GROUP_NAME,
    SYSTEM_CLASSES,
)

DEFAULT_NAMESPACE = "default"


class _Class(NamedTuple):
    """The fields that a pod takes from a priority class."""

    value: int
    preemption_policy: str | None


class _Classes(NamedTuple):
    """The priority classes of a set of objects, and the name of the default one."""

    by_name: dict[str, _Class]
    default: str | None


def _classes(objects: Iterable[Object]) -> _Classes:
    """Return the priority classes among the objects, in addition to those of every cluster.

    Of several default classes, the one with the lowest value is used, as in Kubernetes, and then the first by name.
    """
    by_name = {name: _Class(value, None) for name, value in SYSTEM_CLASSES.items()}
    defaults = []
    for obj in objects:
        if isinstance(obj, PriorityClass):
            by_name[obj.name] = _Class(obj.value, obj.preemption_policy)
            if obj.global_default:
                defaults.append((obj.value, obj.name))
    return _Classes(by_name, min(defaults)[1] if defaults else None)


def _fill_metadata(obj: Object) -> None:
    """Set namespace and UID."""
    metadata = obj.metadata
    if kind_of(obj) not in CLUSTER_KINDS and not metadata.namespace:
        metadata.namespace = DEFAULT_NAMESPACE
    if not metadata.uid:
        metadata.uid = f"{obj.namespace}-{obj.name}" if isinstance(obj, Pod) else obj.name


def _fill_requests(container: Container) -> None:
    """Set absent requests to the limits."""
    resources = container.resources
    if resources is None or not resources.limits:
        return
    requests = dict(resources.requests or {})
    for name, limit in resources.limits.items():
        requests.setdefault(name, limit)
    resources.requests = requests


def _fill_priority(pod: Pod, classes: _Classes) -> str | None:
    """Set priority and preemption policy from the pod's class; return a warning if the class does not exist."""
    spec = pod.spec
    if spec.priority is None and not spec.priority_class_name and classes.default is not None:
        spec.priority_class_name = classes.default
    named = spec.priority_class_name
    found = classes.by_name.get(named) if named else None
    if spec.preemption_policy is None and found is not None:
        spec.preemption_policy = found.preemption_policy
    if spec.priority is not None:
        return None
    spec.priority = found.value if found is not None else 0
    if named and found is None:
        return (
            f'Pod {object_label(pod)}: spec.priorityClassName: there is no PriorityClass "{named}", '
            "so the priority is 0: add the class or correct the name"
        )
    return None


def _default_storage_class(objects: Iterable[Object]) -> str | None:
    """Return the name of the default storage class: the newest, and then the first by name, as in Kubernetes."""
    marked = [o for o in objects if isinstance(o, StorageClass) and o.annotations.get(DEFAULT_STORAGE_CLASS) == "true"]
    newest = max((o.metadata.creation_timestamp or "" for o in marked), default="")
    return min((o.name for o in marked if (o.metadata.creation_timestamp or "") == newest), default=None)


def _fill_storage(obj: Object, default_class: str | None) -> None:
    """Set the class of a claim without one (an empty name counts as one), and the volume binding mode of a class."""
    if isinstance(obj, StorageClass):
        obj.volume_binding_mode = obj.volume_binding_mode or "Immediate"
    if not isinstance(obj, PersistentVolumeClaim) or BETA_STORAGE_CLASS in obj.annotations:
        return
    if obj.spec.storage_class_name is None:
        obj.spec.storage_class_name = default_class


def fill_in(objects: Sequence[Object]) -> list[str]:
    """Set, in place, the defaults that an API server would set.

    Namespace `default`; uid (`namespace-name` for pods, the name for other kinds); requests of containers and init
    containers from their limits, resource by resource; priority and preemptionPolicy of pods from their PriorityClass
    among the same objects, the system classes, or the default class, else priority 0; schedulerName of pods that name
    no pod group, as pods of a group are for the scheduler of groups; the default StorageClass of claims, and
    volumeBindingMode of StorageClasses.

    Args:
        objects: all objects that belong together, in any order.

    Returns:
        Warnings that name the pod and the class, one per pod whose class does not exist.
    """
    classes = _classes(objects)
    storage_class = _default_storage_class(objects)
    warnings = []
    for obj in objects:
        _fill_metadata(obj)
        _fill_storage(obj, storage_class)
        if isinstance(obj, Pod):
            for container in (*(obj.spec.containers or ()), *(obj.spec.init_containers or ())):
                _fill_requests(container)
            if not (obj.spec.scheduler_name or obj.spec.scheduling_group or GROUP_NAME in obj.annotations):
                obj.spec.scheduler_name = DEFAULT_SCHEDULER
            warning = _fill_priority(obj, classes)
            if warning:
                warnings.append(warning)
    return warnings
