"""The pod group of a Volcano job: its minimum and the required resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.kinds import POD_GROUPS, VC_JOBS
from kilauea.api.ports import Obj
from kilauea.api.wellknown import TASK_ROLE
from kilauea.controllers.objects import annotations_of, labels_of, owner_reference, spec_of
from kilauea.controllers.pod_usage import Amounts, pod_usage, times
from kilauea.controllers.remembering import Remembered
from kilauea.controllers.vcjobs.delays import NOTE
from kilauea.controllers.vcjobs.names import PARTITION_ID, group_name, queue_of, task_name

Task = Mapping[str, Any]
_ABOUT_THE_JOB = frozenset({"kubectl.kubernetes.io/last-applied-configuration", NOTE})
"""Annotations of a job that would be meaningless on its group, or mean something else."""


def group_of(job: Obj, priorities: Callable[[str], int]) -> dict[str, Any]:
    """Build the pod group of a job.

    Args:
        job: the job.
        priorities: returns the value of a priority class; 0 if it does not exist.
    """
    metadata: dict[str, Any] = {"name": group_name(job), "namespace": job["metadata"]["namespace"]}
    annotations = {name: value for name, value in annotations_of(job).items() if name not in _ABOUT_THE_JOB}
    for part, given in (("annotations", annotations), ("labels", {**labels_of(job)})):
        if given:
            metadata[part] = given
    metadata["ownerReferences"] = [owner_reference(VC_JOBS, job)]
    spec = {**_kept(job, priorities), "queue": queue_of(job)}
    topology = _topology(spec_of(job).get("networkTopology"))
    if topology:
        spec["networkTopology"] = topology
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata, "spec": spec}


def group_changes(job: Obj, group: Obj, priorities: Callable[[str], int]) -> dict[str, Any] | None:
    """The merge patch that updates a group from its job, or None if it is current; queue and topology stay.

    Removed tasks of the job keep their entries in `minTaskMember`.
    """
    wanted, spec = _kept(job, priorities), spec_of(group)
    patch: dict[str, Any] = {}
    for name in ("minMember", "priorityClassName", "subGroupPolicy"):
        if (wanted.get(name) or None) != (spec.get(name) or None):
            patch[name] = wanted.get(name)
    members = _changed(wanted["minTaskMember"], spec.get("minTaskMember") or {})
    if members:
        patch["minTaskMember"] = members
    needed, had = wanted.get("minResources") or {}, spec.get("minResources") or {}
    resources = {**dict.fromkeys(had.keys() - needed.keys()), **_changed(needed, had)}
    if resources:
        patch["minResources"] = resources
    return {"spec": patch} if patch else None


def _changed(wanted: Mapping[str, Any], had: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if had.get(name) != value}


def _kept(job: Obj, priorities: Callable[[str], int]) -> Mapping[str, Any]:
    """The fields that follow the job; read-only."""
    spec = spec_of(job)
    own = spec.get("priorityClassName") or ""
    names = [(_pod_spec(task).get("priorityClassName") or own) for task in spec.get("tasks") or ()]
    return _fields(spec, tuple(priorities(name) if name else 0 for name in names))


@Remembered
def _fields(spec: Mapping[str, Any], priorities: tuple[int, ...]) -> Mapping[str, Any]:
    """The fields of a group that depend on the specification of its job and the priorities of its tasks."""
    tasks: Sequence[Task] = spec.get("tasks") or ()
    fields: dict[str, Any] = {
        "minMember": spec.get("minAvailable", 0),
        "minTaskMember": {task_name(each): minimum_of(each) for each in tasks},
        "minResources": _resources(spec, priorities),
        "priorityClassName": spec.get("priorityClassName"),
        "subGroupPolicy": [_sub_group(each) for each in tasks if each.get("partitionPolicy")],
    }
    return {name: value for name, value in fields.items() if value or name in ("minMember", "minTaskMember")}


def minimum_of(task: Task) -> int:
    """Return the minimum number of pods of a task in the gang."""
    if task.get("minAvailable") is not None:
        return int(task["minAvailable"])
    policy = task.get("partitionPolicy") or {}
    return int((policy.get("minPartitions") or 0) * (policy.get("partitionSize") or 0) or task.get("replicas") or 0)


def _sub_group(task: Task) -> dict[str, Any]:
    """The partitions of a task, each a separate gang."""
    policy = task["partitionPolicy"]
    entry: dict[str, Any] = {
        "name": task_name(task),
        "labelSelector": {"matchLabels": {TASK_ROLE: task_name(task)}},
        "matchLabelKeys": [PARTITION_ID],
        "subGroupSize": policy["partitionSize"],
        "minSubGroups": policy.get("minPartitions") or 0,
    }
    topology = _topology(policy.get("networkTopology"))
    return {**entry, "networkTopology": topology} if topology else entry


def _topology(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A topology constraint; a tier's number takes precedence over its name."""
    topology = dict(given or {})
    if topology.get("highestTierAllowed") is not None:
        topology.pop("highestTierName", None)
    return topology


# --- resources


def _resources(spec: Mapping[str, Any], priorities: Sequence[int]) -> dict[str, str]:
    """Resources of the pods in the minimum of the gang; those of higher priority are counted first."""
    total: Amounts = {}
    for task, count in _needed(spec, priorities):
        if count:
            for name, value in pod_usage(_pod_spec(task)).items():
                total[name] = total.get(name, 0) + value * count
    return times(total, 1)


def _pod_spec(task: Task) -> Mapping[str, Any]:
    return (task.get("template") or {}).get("spec") or {}


def _needed(spec: Mapping[str, Any], priorities: Sequence[int]) -> Iterator[tuple[Task, int]]:
    """The number of pods of each task in the minimum of the job."""
    given: Sequence[Task] = spec.get("tasks") or ()
    ranked = sorted(zip(given, priorities, strict=True), key=lambda each: -each[1])
    tasks = [task for task, _ in ranked]
    minimum, left = sum(map(minimum_of, tasks)), spec.get("minAvailable", 0)
    if left >= minimum:
        yield from ((each, minimum_of(each)) for each in tasks)
        left -= minimum
        yield from _first(left, ((each, each.get("replicas", 0) - minimum_of(each)) for each in tasks))
    else:
        yield from _first(left, ((each, each.get("replicas", 0)) for each in tasks))


def _first(left: int, offered: Iterable[tuple[Task, int]]) -> Iterator[tuple[Task, int]]:
    """Take tasks in order until the number of pods is reached."""
    for task, count in offered:
        taken = min(left, max(0, count))
        left -= taken
        yield task, taken
