"""Records of a history: jobs, pods, and what happened to them between their start and their end.

Times are microseconds since 1970, None if something has not happened or is unknown. Amounts are exact integers: bytes
of memory and storage, thousandths of everything else.
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
"""The kind of jobs that are recorded themselves; for all others, only their pods are."""
PENDING, RUNNING, SUCCEEDED, FAILED, EVICTED, DELETED, LOST = (
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Evicted",
    "Deleted",
    "Lost",
)
"""States of a pod; a `Lost` pod vanished while no history was recorded, so its end is the last time it was seen."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, tag="job", omit_defaults=True, gc=False):
    """A job: an object that creates pods, such as a Volcano job, or a standalone pod group or pod.

    Attributes:
        uid: uid of the object.
        namespace: its namespace.
        name: its name.
        kind: its kind with the group, such as `Job.batch.volcano.sh`, `Job.batch`, `ReplicaSet.apps`, `Pod`.
        queue: its queue; empty if it has none.
        user: its submitter; empty if unknown.
        title: the name given by its user, if the object has another.
        submitted: its creation time.
        ended: its end; never set for a job without a phase (`timeline.end_of` finds it).
        state: its last phase; empty if it has none.
        reason: the reason for this phase: one word.
        message: the reason in words.
        pods: desired number of pods; 0 if unknown.
        minimum: number of pods that must start together; 0 if unknown.
        cpus: total cpu requests of its pods, in thousandths.
        run_time: declared run time in microseconds (`spec.runningEstimate`, `kilauea.dev/run-time`); 0 for none.
        limit: seconds after which its pods are ended (`activeDeadlineSeconds`); 0 for none.
        restarts: number of restarts of the whole job.
        deleted: deletion time of the object.
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
        uid: uid of the pod.
        namespace: its namespace.
        name: its name.
        job: uid of its job.
        queue: its queue; empty if it has none.
        task: its task in the job; empty if there are none.
        resources: its requests.
        submitted: its creation time.
        bound: time of its bind.
        started: start of its first container.
        ended: end of its last container, or its deletion time.
        node: its node; empty before it is bound.
        state: one of `PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `EVICTED`, `DELETED`, `LOST`.
        reason: the reason of its end: one word, such as `OOMKilled`, `DeadlineExceeded`.
        exit_code: the highest of its containers.
        restarts: number of restarts of its containers.
        run_time: declared run time in microseconds; 0 for none.
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
    """An event and its reason.

    Attributes:
        time: when.
        what: what, see `What`.
        namespace: of the job.
        job: uid of the job.
        pod: name of the pod; empty if it is about the whole job.
        pod_uid: its uid.
        queue: the queue of the job.
        node: the node concerned, if any.
        by: for an eviction, the pod group that benefits, as `namespace/name`.
        by_job: the workload that owns it, as `kind namespace/name`; empty if there is none.
        by_queue: its queue.
        action: for an eviction, the action that decided it, such as `reclaim`.
        reason: the reason, one word for programs.
        message: the reason, in words.
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
        version: version of the format; readers reject newer ones.
        since: time from which on the history is complete; older content was thinned or never recorded.
        until: time of the export.
        gaps: time spans without records, with the reasons.
    """

    version: int = 1
    since: int
    until: int
    gaps: list[tuple[int, int, str]] = []


Line = Header | JobRecord | PodRecord | Event
"""A line of an exported history, distinguished by `type`."""
