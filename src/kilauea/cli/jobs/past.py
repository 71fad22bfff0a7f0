"""Deleted jobs, in Slurm's terms, from the history of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kilauea.api.ports import ApiError
from kilauea.api.times import format_time
from kilauea.cli.histories.source import ask
from kilauea.cli.jobs.records import Record, state_of_phase
from kilauea.history.answers import JOBS, JobsAnswer
from kilauea.history.records import DELETED, EVICTED, LOST, SUCCEEDED, VOLCANO_JOB, JobRecord, PodRecord
from kilauea.history.timeline import end_of

if TYPE_CHECKING:
    from kilauea.cli.vcctl.cluster import Cluster

MOST_JOBS = 100_000
"""Maximum number of deleted jobs to show, the newest."""


async def deleted_jobs(
    cluster: Cluster, namespace: str, since: int, present: Collection[tuple[str, str, int]]
) -> list[Record]:
    """Deleted jobs that had not ended by a time; empty if the cluster does not serve a history.

    Args:
        cluster: the cluster.
        namespace: only in this one; empty for all.
        since: microseconds since 1970.
        present: namespace, name and creation time of existing jobs.
    """
    import msgspec

    try:
        body = await ask(cluster, JOBS, namespace, "", {"since": format_time(since), "limit": str(MOST_JOBS)})
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise
    found = []
    for answer in msgspec.json.decode(body, type=JobsAnswer).items:
        job = answer.job
        gone = job.deleted is not None and (job.namespace, job.name, job.submitted) not in present
        if job.kind == VOLCANO_JOB and gone and (job.deleted or 0) >= since:
            found.append(record_of(job, answer.pods))
    return found


def record_of(job: JobRecord, pods: Sequence[PodRecord]) -> Record:
    """Convert a deleted job. If pods ran several times, only the last run counts for the exit code."""
    last = {pod.name: pod for pod in pods}
    starts = [pod.started or pod.bound for pod in pods]
    return Record(
        id=job.name,
        job=job.name,
        namespace=job.namespace,
        name=job.title or job.name,
        queue=job.queue,
        user=job.user or "-",
        state=_state(job, pods),
        submitted=job.submitted,
        started=min((at for at in starts if at is not None), default=None),
        ended=end_of(job, pods) or job.deleted,
        nodes=tuple(sorted({pod.node for pod in last.values() if pod.node})),
        wanted_nodes=1,
        cpus=job.cpus,
        limit=job.limit,
        exit_code=max((pod.exit_code for pod in last.values()), default=0),
        reason="",
        message="",
    )


def _state(job: JobRecord, pods: Sequence[PodRecord]) -> str:
    """The state in which a job was deleted; an unfinished one was thereby cancelled."""
    reasons = {pod.reason for pod in pods if pod.state not in (SUCCEEDED, EVICTED, DELETED, LOST)}
    if job.state == "Failed" and "OOMKilled" in reasons:
        return "OUT_OF_MEMORY"
    if job.state == "Failed" and "DeadlineExceeded" in reasons:
        return "TIMEOUT"
    return state_of_phase(job.state) if job.ended is not None else "CANCELLED"
