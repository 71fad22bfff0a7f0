"""The kinds that admission looks at, as addresses name them, and by what it looks them up."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.ports import Interest, Key, Obj, Resource

PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
CRON_JOBS = Resource("batch.volcano.sh", "v1alpha1", "cronjobs", "CronJob")
JOB_FLOWS = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False)
HYPER_NODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False)


def parent_of(queue: Obj) -> str:
    """The parent of a queue as it is written; empty if it is not."""
    return str((queue.get("spec") or {}).get("parent") or "")


def queue_of(group: Obj) -> str:
    """The queue of a pod group."""
    return str((group.get("spec") or {}).get("queue") or "")


def _nothing(_obj: Obj) -> Iterable[Key]:
    return ()


INTERESTS = (
    Interest(QUEUES, _nothing, indexes={"parent": parent_of}),
    Interest(POD_GROUPS, _nothing, indexes={"queue": queue_of}),
    Interest(JOBS, _nothing),
    Interest(NAMESPACES, _nothing),
)
"""What hooks look up in their view."""
