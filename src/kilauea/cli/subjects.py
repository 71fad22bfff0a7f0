"""The objects that `kilauea explain` accepts, by their kubectl names, and their pod groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.api.core import Pod
    from kilauea.api.meta import Object
    from kilauea.engine.state import ClusterState
    from kilauea.runtime.inputs.objects import Cluster

KINDS = {
    "job": ("job", "jobs", "vcjob", "vcjobs", "vj"),
    "pod": ("pod", "pods", "po"),
    "podgroup": ("podgroup", "podgroups", "pg"),
    "queue": ("queue", "queues", "q"),
    "node": ("node", "nodes", "no"),
    "deployment": ("deployment", "deployments", "deploy"),
    "statefulset": ("statefulset", "statefulsets", "sts"),
    "replicaset": ("replicaset", "replicasets", "rs"),
    "cronjob": ("cronjob", "cronjobs", "cj", "cronvcjob", "cronvj"),
}
"""The kinds that can be explained, with their names."""

OWNERS = {"job": "Job", "deployment": "ReplicaSet", "replicaset": "ReplicaSet", "statefulset": "StatefulSet"}
"""The kind that owns the pods of a workload."""

ENDED = {
    "Aborting": "is being suspended",
    "Aborted": "is suspended, so it has no pods: `vcctl job resume` starts it again",
    "Completing": "is completing",
    "Completed": "has completed: none of its pods are waiting",
    "Terminating": "is being terminated",
    "Terminated": "was terminated: none of its pods waits",
    "Failed": "has failed: none of its pods are waiting",
}
"""Words for the phases in which jobs have no waiting pods."""


class Answered(Exception):
    """The answer for an object without waiting pods: a single sentence."""


class Subject(NamedTuple):
    """The object to explain."""

    kind: str
    name: str


def subject(words: tuple[str, ...]) -> Subject:
    """Read `KIND NAME` or `KIND/NAME`.

    Raises:
        Usage: the words have another form, or name another kind.
    """
    from kilauea.engine.conf import nearest

    parts = words[0].split("/", 1) if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(parts):
        raise Usage(f"{' '.join(words)}: give KIND NAME or KIND/NAME, as in `kilauea explain job train`")
    known = {alias: kind for kind, aliases in KINDS.items() for alias in aliases}
    kind = known.get(parts[0].lower().partition(".")[0])
    if kind is None:
        hint = nearest(parts[0], known) or f": give one of {', '.join(KINDS)}"
        raise Usage(f"kind {parts[0]!r} cannot be explained{hint}")
    return Subject(kind, parts[1])


def groups_of(what: Subject, namespace: str, cluster: Cluster, state: ClusterState) -> list[str]:
    """The pod groups of a job, pod, pod group or other workload.

    Raises:
        Failure: the object does not exist, or has no pod group; the message gives the reason.
        Answered: it correctly has no pod group; the message gives the reason.
    """
    key = f"{namespace}/{what.name}"
    if what.kind == "pod":
        return [_of_pod(key, cluster, state)]
    if what.kind == "podgroup":
        from kilauea.engine.model.kubernetes_groups import key_from

        names = [name for name, job in state.jobs.items() if job.group]
        either = [name for name in (key, key_from(key)) if name in names]
        return either or _missing(what, key, names)
    if what.kind == "job" and key in cluster.phases_of_jobs:
        raise Answered(f"job {key} {ENDED.get(cluster.phases_of_jobs[key], cluster.phases_of_jobs[key])}")
    found = cluster.groups_of_jobs.get(key) if what.kind == "job" else None
    if found is not None and found in state.jobs:
        return [found]
    if key in cluster.refused:
        raise Failure(f"{what.kind} {key}: {cluster.refused[key]}")
    if what.kind == "cronjob":
        jobs = list(_jobs_of_cron(key, cluster))
        groups = dict.fromkeys(group for job in jobs for group in _by_owner("Job", [job], cluster.objects, state))
        return list(groups) or _without_pods(what, key, cluster, state, ())
    owners = [key]
    if what.kind == "deployment":
        owners = [o.key for o in cluster.objects if o.kind == "ReplicaSet" and _owned(o, "Deployment", key)] + [key]
    groups = dict.fromkeys(_by_owner(OWNERS[what.kind], owners, cluster.objects, state))
    return list(groups) or _without_pods(what, key, cluster, state, owners)


def concerned(name: str, groups: Iterable[str], state: ClusterState) -> set[str]:
    """Names whose warnings concern an object with these pod groups: its own, and those of its queues."""
    names = {name}
    for group in groups:
        names |= {group, group.partition("/")[2]}
        queue = state.queues.get(state.jobs[group].queue)
        while queue is not None and queue.name not in names:
            names.add(queue.name)
            queue = state.queues.get(queue.parent)
        names.add(state.jobs[group].queue)
    return names


def _without_pods(what: Subject, key: str, cluster: Cluster, state: ClusterState, owners: Sequence[str]) -> list[str]:
    """Raise the reason why no pod of a workload is in a group.

    Raises:
        Answered: none of its pods waits, or they wait for another scheduler.
        Failure: the workload does not exist, or has no pods.
    """
    if (why := cluster.states.get(f"{what.kind} {key}")) is not None:
        raise Answered(f"{what.kind} {key} {why}")
    pods = [pod for pod in _pods(cluster.objects) if any(_owned(pod, OWNERS[what.kind], owner) for owner in owners)]
    foreign = [pod for pod in pods if (pod.spec.scheduler_name or "") not in state.scheduler_names]
    if foreign:
        raise _left_to_other(f"{what.kind} {key}", foreign[0], state)
    if pods:
        raise _ungrouped(what, key, pods[0].key, state)
    refused = (cluster.refused_pods.get(f"{OWNERS.get(what.kind, '')} {owner}") for owner in owners)
    if message := next(filter(None, refused), ""):
        raise Answered(f"{what.kind} {key} has no pods: {message}")
    return _missing(what, key, list(cluster.groups_of_jobs) if what.kind == "job" else [])


def _pods(objects: Iterable[Object]) -> list[Pod]:
    """The pods among some objects, by their names."""
    from kilauea.api.core import Pod

    return sorted((obj for obj in objects if isinstance(obj, Pod)), key=lambda pod: pod.key)


def _left_to_other(name: str, pod: Pod, state: ClusterState) -> Answered:
    """The answer for an object whose pod waits for another scheduler."""
    from kilauea.api.unserved import left_to
    from kilauea.simulator.scenario import is_processed

    why = left_to(pod.spec.scheduler_name or "", state.scheduler_names, runs=is_processed(pod))
    return Answered(f"{name} waits for another scheduler: {why}")


def _of_pod(key: str, cluster: Cluster, state: ClusterState) -> str:
    task = state.tasks.get(key)
    if task is None:
        written = next((pod for pod in _pods(cluster.objects) if pod.key == key), None)
        if written is not None and written.spec.scheduler_name:
            raise _left_to_other(f"pod {key}", written, state)
        return _missing(Subject("pod", key), key, list(state.tasks))[0]
    if task.group not in state.jobs:
        raise _ungrouped(Subject("pod", key), key, key, state)
    return task.group


def _ungrouped(what: Subject, key: str, pod: str, state: ClusterState) -> Exception:
    """The error for an object whose pod has no pod group, or the answer if its queue is the reason."""
    from kilauea.engine.explain.ungrouped import why_ungrouped

    task = state.tasks.get(pod)
    if task is None:
        return Failure(f"{what.kind} {key}: its pods are in no pod group")
    why = why_ungrouped(task, state)
    if not why.queue:
        return Failure(f"{what.kind} {key}: {why.message}")
    missing = why.code == "QueueNotFound"
    fix = (
        f"create it: `vcctl queue create -n {why.queue}`"
        if missing
        else f"open it: `vcctl queue operate -n {why.queue} -a open`"
    )
    return Answered(f"{what.kind} {key} waits: {why.message}; {fix}")


def _jobs_of_cron(key: str, cluster: Cluster) -> Iterator[str]:
    """Jobs that a cron job created: its name, a dash, and the time."""
    for job in cluster.groups_of_jobs:
        if job.rpartition("-")[0] == key:
            yield job
    for obj in cluster.objects:
        for owner in obj.metadata.owner_references or ():
            if owner.kind == "Job" and f"{obj.namespace}/{owner.name}".rpartition("-")[0] == key:
                yield f"{obj.namespace}/{owner.name}"


def _owned(obj: Object, kind: str, key: str) -> bool:
    return any(o.kind == kind and f"{obj.namespace}/{o.name}" == key for o in obj.metadata.owner_references or ())


def _by_owner(kind: str, keys: list[str], objects: Iterable[Object], state: ClusterState) -> Iterator[str]:
    """The groups of the pods with one of these owners, in the order of the pods."""
    for obj in _pods(objects):
        if any(_owned(obj, kind, key) for key in keys):
            task = state.tasks.get(obj.key)
            if task is not None and task.group in state.jobs:
                yield task.group


def _missing(what: Subject, key: str, names: list[str]) -> list[str]:
    from kilauea.engine.conf import nearest

    hint = nearest(key, [name for name in names if name != key])
    raise Failure(f"{what.kind} {key} does not exist{hint or ', or has no pods'}")
