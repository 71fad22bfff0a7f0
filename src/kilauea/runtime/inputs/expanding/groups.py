"""Creates the pod groups of pods that name none, as the podgroup controller of a cluster does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kilauea.api.core import Pod
from kilauea.api.kinds import POD_GROUPS, PODS
from kilauea.api.meta import Object
from kilauea.api.ports import Create, Key, Obj, Resource
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.api.wellknown import GANG_SCHEDULERS, GROUP_NAME, QUEUE_NAME
from kilauea.controllers.podgroups import PodGroupController
from kilauea.runtime.inputs.expanding.objects import made_group

CONTROLLER = PodGroupController(GANG_SCHEDULERS)


def group_for(pod: Obj, owner: tuple[Resource, Obj] | None = None) -> dict[str, Any] | None:
    """The group that the podgroup controller would create for a pod; None if the pod gets none.

    Args:
        pod: the pod.
        owner: the kind and the object of the workload that owns the pod, if it is known.
    """
    key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
    for operation in CONTROLLER.reconcile(key, _One(pod, owner), 0).operations:
        if isinstance(operation, Create) and operation.resource == POD_GROUPS:
            return dict(operation.body)
    return None


def group_pods(pods: Iterable[Pod], objects: Iterable[Object]) -> list[PodGroup]:
    """Return the groups of pods that name none, and set them in the pods, in place.

    A pod whose queue does not exist, or is not open, gets no group: the webhook of a cluster refuses the group.

    Args:
        pods: complete pods, with their defaults.
        objects: all objects, among them the queues.
    """
    open_queues = {obj.name for obj in objects if isinstance(obj, Queue) and _is_open(obj)}
    made: dict[str, PodGroup] = {}
    for pod in pods:
        queue = pod.annotations.get(QUEUE_NAME)
        body = msgspec.to_builtins(pod)
        group = group_for(body) if not queue or queue in open_queues else None
        if group is not None:
            obj = made_group(group, body)
            made.setdefault(obj.key, obj)
            pod.metadata.annotations = {**pod.annotations, GROUP_NAME: obj.name}
    return list(made.values())


def _is_open(queue: Queue) -> bool:
    """Return True if a queue accepts groups; one that its controller has not seen yet has no state."""
    return not queue.status or queue.status.state in {None, "", "Open"}


class _One:
    """A view of one pod and its owner, if that is known."""

    def __init__(self, pod: Obj, owner: tuple[Resource, Obj] | None) -> None:
        self._objects = {PODS: pod} | dict([owner] if owner else [])

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """The owner or the pod."""
        found = self._objects.get(resource)
        return found if found is not None and found["metadata"]["name"] == key.name else None

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """One object, whole."""
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """The owner or the pod, alone."""
        return [self._objects[resource]] if resource in self._objects else []

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        """The pod, of its owner."""
        return self.list(resource) if resource == PODS else []

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """None."""
        return []

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """None."""
        return []

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects."""
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> None:
        """None: nothing is aggregated."""
