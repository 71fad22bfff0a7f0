"""Records of a history: jobs, pods, and what happened to them between their start and their end.

Times are microseconds since 1970, None where something has not happened or is not known. Amounts are exact integers:
bytes of memory and storage, thousandths of everything else.
"""

from __future__ import annotations

from typing import Literal

import msgspec

What = Literal["Admitted", "Waiting", "Nominated", "Evicted", "Restarted", "Phase", "Resized", "Disturbed"]
"""The kinds of events.

`Admitted`: the scheduler admitted the pod group.
`Waiting`: the reason why the group or the pod waits is now this one.
`Nominated`: room is being freed for the pod on a node.
`Evicted`: the pod was evicted, by an action and for a pod group.
`Restarted`: the job, or a container of the pod, was started again.
`Phase`: the job came into a phase.
`Resized`: the number of pods of the job was changed.
`Disturbed`: the pod is to go for a reason other than an eviction by the scheduler.
"""
VOLCANO_JOB = "Job.batch.volcano.sh"
"""The kind of the jobs that are followed themselves; of all others, their pods are."""
PENDING, RUNNING, SUCCEEDED, FAILED, EVICTED, DELETED, LOST = (
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Evicted",
    "Deleted",
    "Lost",
)
"""States of a pod; `Lost` went while no history was recorded, so its end is when it was last seen."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, tag="job", omit_defaults=True, gc=False):
    """A job: an object that makes pods, such as a Job of Volcano, or a pod group or pod that stands for itself.

    Attributes:
        uid: of the object.
        namespace: its namespace.
        name: its name.
        kind: its kind with the group, such as `Job.batch.volcano.sh`, `Job.batch`, `ReplicaSet.apps`, `Pod`.
        queue: the queue that it is in; empty if it has none.
        user: who submitted it; empty if that is not known.
        title: the name that its user gave it, if the object has another.
        submitted: when it was created.
        ended: when it ended; a job without a phase of its own never has this (`timeline.end_of` finds it).
        state: its last phase; empty if it has none of its own.
        reason: why it is in this phase: one word.
        message: the reason in words.
        pods: number of pods that it asks for; 0 if that is not known.
        minimum: number of pods that must start together; 0 if that is not known.
        cpus: thousandths of a cpu that all its pods ask for.
        run_time: microseconds that it declares to run (`spec.runningEstimate`, `kilauea.dev/run-time`); 0 for none.
        limit: seconds after which its pods are ended (`activeDeadlineSeconds`); 0 for none.
        restarts: number of restarts of the whole job.
        deleted: when the object was deleted.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    queue: str = ""
    user: str = ""
    title: str = ""
    submitted: int = 0
    ended: int | None = None
    state: str = ""
    reason: str = ""
    message: str = ""
    pods: int = 0
    minimum: int = 0
    cpus: int = 0
    run_time: int = 0
    limit: int = 0
    restarts: int = 0
    deleted: int | None = None


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, tag="pod", omit_defaults=True, gc=False):
    """The life of a pod. It holds its resources from `bound` to `ended`.

    Attributes:
        uid: of the pod.
        namespace: its namespace.
        name: its name.
        job: uid of its job.
        queue: the queue that it is in; empty if it has none.
        task: the task of the job that it is of; empty if there are none.
        resources: what it requests.
        submitted: when it was created.
        bound: when it got a node.
        started: when its first container started.
        ended: when its last container ended, or when it was deleted.
        node: the node that it is or was on; empty before it is bound.
        state: one of `PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `EVICTED`, `DELETED`, `LOST`.
        reason: why it ended: one word, such as `OOMKilled`, `DeadlineExceeded`.
        exit_code: the largest of its containers.
        restarts: number of restarts of its containers.
        run_time: microseconds that it declares to run; 0 for none.
    """

    uid: str
    namespace: str
    name: str
    job: str
    queue: str = ""
    task: str = ""
    resources: dict[str, int] = {}
    submitted: int = 0
    bound: int | None = None
    started: int | None = None
    ended: int | None = None
    node: str = ""
    state: str = PENDING
    reason: str = ""
    exit_code: int = 0
    restarts: int = 0
    run_time: int = 0


class Event(msgspec.Struct, frozen=True, kw_only=True, tag="event", omit_defaults=True, gc=False):
    """Something that happened, and why.

    Attributes:
        time: when.
        what: what, see `What`.
        namespace: of the job.
        job: uid of the job.
        pod: name of the pod; empty if it is about the whole job.
        pod_uid: its uid.
        queue: the queue of the job.
        node: the node that it is about; empty if it is about none.
        by: of an eviction the pod group that got the room, as `namespace/name`.
        by_job: the workload that owns it, as `kind namespace/name`; empty if there is none.
        by_queue: its queue.
        action: of an eviction the action that decided it, such as `reclaim`.
        reason: why, one word for programs.
        message: why, in words.
    """

    time: int
    what: What
    namespace: str
    job: str
    pod: str = ""
    pod_uid: str = ""
    queue: str = ""
    node: str = ""
    by: str = ""
    by_job: str = ""
    by_queue: str = ""
    action: str = ""
    reason: str = ""
    message: str = ""


Record = JobRecord | PodRecord | Event


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    """The first line of an exported history.

    Attributes:
        version: of the format; readers refuse a newer one.
        since: the history is complete from here on; what is older was thinned or was never recorded.
        until: when it was exported.
        gaps: spans of time in which nothing was recorded, and why.
    """

    version: int = 1
    since: int
    until: int
    gaps: list[tuple[int, int, str]] = []


Line = Header | JobRecord | PodRecord | Event
"""A line of an exported history, told apart by `type`."""
