"""Kubernetes' own PodGroups (`scheduling.k8s.io`) as the pod groups of the engine.

A group of Kubernetes is a job like any other, with these fields:

- `schedulingPolicy.gang.minCount` is its minimum; with `basic`, it is one pod.
- Its queue is named by its annotation or label `scheduling.volcano.sh/queue-name`, else by that of its pods.
- Its priority is that of its spec, else the highest of its pods.
- `schedulingConstraints.topology` names a node label; it means the HyperNodes whose `tierName` is that label.

Such a group has no phase. Each cycle admits it again, until its condition says that it was scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.api.core import Pod
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.scheduling import NetworkTopology, PodGroup, PodGroupSpec, PodGroupStatus
from kilauea.api.wellknown import GROUP_NAME, QUEUE_NAME

MARK = "k8s:"
"""Prefix of the names of such groups in plans; names of objects cannot contain a colon."""


def key_of(namespace: str, name: str) -> str:
    """The key of a Kubernetes group: it can have the same name as a group of Volcano."""
    return f"{namespace}/{MARK}{name}"


def key_from(object_key: str) -> str:
    """The key of the group that an object `namespace/name` describes."""
    return key_of(*object_key.split("/", 1))


def object_key(key: str) -> str:
    """The `namespace/name` of a group's object; empty if it is not a Kubernetes group."""
    namespace, _, name = key.partition("/")
    return f"{namespace}/{name.removeprefix(MARK)}" if name.startswith(MARK) else ""


def group_of(pod: Pod) -> str:
    """The key of the group that a pod names in `spec.schedulingGroup`; empty without one."""
    named = pod.spec.scheduling_group
    return key_of(pod.namespace, named.pod_group_name) if named is not None and named.pod_group_name else ""


def named_group(pod: Pod) -> str:
    """The key of the group that a pod names, of Volcano or else of Kubernetes; empty without one."""
    name = pod.annotations.get(GROUP_NAME)
    return f"{pod.namespace}/{name}" if name else group_of(pod)


def queue_in(annotations: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """The queue that an object names; empty without one."""
    return annotations.get(QUEUE_NAME) or labels.get(QUEUE_NAME, "")


def as_pod_group(obj: KubernetesPodGroup) -> PodGroup:
    """Convert the group to one of Volcano.

    Raises:
        ValueError: it uses unsupported fields.
    """
    spec = obj.spec
    if spec.parent_composite_pod_group_name:
        raise ValueError(
            f'spec.parentCompositePodGroupName: "{spec.parent_composite_pod_group_name}": '
            "groups of groups are not supported; use a PodGroup without a parent"
        )
    keys = [each.key for each in (spec.scheduling_constraints and spec.scheduling_constraints.topology) or ()]
    gang = spec.scheduling_policy.gang
    return PodGroup(
        api_version=obj.api_version,
        kind=obj.kind,
        metadata=obj.metadata,
        spec=PodGroupSpec(
            min_member=gang.min_count if gang is not None else 1,
            queue=queue_in(obj.annotations, obj.labels) or None,
            priority_class_name=spec.priority_class_name,
            network_topology=NetworkTopology("hard", None, keys[0]) if keys else None,
        ),
        status=PodGroupStatus(phase="Running" if was_scheduled(obj) else "Pending"),
    )


def was_scheduled(obj: KubernetesPodGroup) -> bool:
    """True if the group has been scheduled once; additional pods that wait later do not change that."""
    condition = obj.scheduled
    return condition is not None and condition.status == "True"
