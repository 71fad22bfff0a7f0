"""Nominations of earlier cycles: their resources are reserved for the nominated pods and used first.

A pod that others were evicted for gets their resources only when they have ended, many cycles later. The nomination is
stored in `status.nominatedNodeName` of the pod, so it survives a restart of the scheduler. If later cycles decided
again, the resources would go to the next pod in line, and more pods would be evicted for the same pod. So each cycle
first reserves the nominated resources, and allocate assigns them as soon as they are free.

A nomination expires when its node is gone or rejects the pod, when the queue may no longer run the pod, or when its
gang can no longer be completed: the reserved resources would stay idle. While tasks of the gang are terminating, the
pods that replace them can still complete it. A nomination also expires while a pod whose resources it needs is overdue:
with a finalizer, that pod may stay forever, and the gang would hold its other resources for as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilauea.api.times import SECOND
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

OVERDUE = 60 * SECOND
"""Microseconds after the end of its grace period at which a terminating pod is overdue."""


def hold_promises(session: Session) -> None:
    """Restore valid nominations of earlier cycles, in the order of queues and jobs."""
    by_job: dict[str, list[Task]] = {}
    for task in session.state.nominated.values():
        by_job.setdefault(task.group, []).append(task)
    jobs = [job for key in by_job if (job := session.state.jobs.get(key)) is not None and job.queue in session.queues]
    # Two nominations can conflict on a node that has become smaller; then the order decides.
    jobs.sort(key=lambda job: (session.points.queue_key(session.queues[job.queue]), session.points.job_key(job)))
    for job in jobs:
        if job.group and session.job_valid(job) is None:
            _hold(session, job, session.in_order(by_job[job.key]))


def _hold(session: Session, job: Job, tasks: Sequence[Task]) -> None:
    statement = session.statement()
    queue, promised, overdue = session.queues[job.queue], list[tuple[Task, int]](), False
    for task in tasks:
        row = session.nodes.row_of.get(task.nominated, -1)
        if row < 0 or task.status != status.PENDING or task.gated:
            continue
        if session.points.allocatable(queue, task) is not None or session.points.pre_predicate(task) is not None:
            continue
        choice = session.evaluation(task).choose(np.array([row], dtype=np.intp))
        if choice is None:
            continue
        if not choice.now and _is_overdue(session, task.nominated):
            overdue = True
            continue
        # Never committed: the room is held until the session closes, and what is left then is nominated again.
        statement.take(task, row, now=False)
        promised.append((task, row))
    if overdue and not session.job_pipelined(job):
        statement.roll_back()
    elif promised:
        session.promised[job.key] = promised


def _is_overdue(session: Session, node: str) -> bool:
    """Return True if a terminating pod on a node is overdue, and may never end."""
    return any(_never_ends(session, task) for task in session.state.terminating(node))


def _never_ends(session: Session, task: Task) -> bool:
    """Return True if a terminating pod is overdue, and may never end.

    If the machine slept or its clock was set, a pod that should have ended in the meantime still has its minute.
    """
    return task.ends > 0 and max(task.ends, session.backoff.running_since) < session.now - OVERDUE


def serve_promises(session: Session) -> None:
    """Place nominated tasks whose resources are free now."""
    for job, promised in _open_promises(session):
        session.kept_promises.update(start_where_free(session, job, promised))


def serve_elsewhere(session: Session) -> None:
    """Place tasks that still wait for their nominated node on other nodes, if resources remain after all turns.

    A victim can take long to end, or never end. Gangs that must stay in one network domain wait for their nodes; they
    start here only if allocate has just placed the rest of them.
    """
    for job, promised in _open_promises(session):
        elsewhere = not (job.sub_groups or session.domains.binds(job))
        session.kept_promises.update(start_where_free(session, job, promised, elsewhere=elsewhere))


def drop_vain_promises(session: Session) -> None:
    """Drop nominations of gangs that were not completed in this cycle, and of groups that are not admitted."""
    for job, _ in _open_promises(session):
        if job.is_pending or not (can_be_completed(session, job) or _comes_back(session, job)):
            drop_nominations(session, job)


def _comes_back(session: Session, job: Job) -> bool:
    """Return True if a gang is below its minimum only because tasks are terminating, which will be replaced.

    Without the nomination, pods would have been evicted for nothing.
    """
    going = sum(t.status == status.RELEASING and not _never_ends(session, t) for t in job.tasks.values())
    return going > 0 and job.ready_count + job.counts[status.PIPELINED] + going >= job.min_available


def can_be_completed(session: Session, job: Job) -> bool:
    """Return True if a gang is complete, or will be once its nominated tasks start."""
    return session.points.job_ready(job) or session.points.job_pipelined(job)


def drop_nominations(session: Session, job: Job) -> None:
    """Drop the nominations of all tasks of a job."""
    for task in [task for task in job.tasks.values() if task.status == status.PIPELINED]:
        session.ledger.displace(task, session.nodes.row_of[task.node])


def _open_promises(session: Session) -> list[tuple[Job, list[tuple[Task, int]]]]:
    """Yield jobs with nominations that are not served yet."""
    out = []
    for key, promised in session.promised.items():
        left = [(task, row) for task, row in promised if task.status == status.PIPELINED]
        if left:
            out.append((session.state.jobs[key], left))
    return out


def start_where_free(
    session: Session, job: Job, promised: Sequence[tuple[Task, int]], *, elsewhere: bool = False
) -> list[str]:
    """Turn nominations of a job into binds where the resources are free now, if that makes the job ready.

    Args:
        session: the cycle.
        job: the job.
        promised: its nominated tasks, with the rows of their nodes.
        elsewhere: use free resources on any node, not only on the nominated one.

    Returns:
        Keys of the tasks that start.
    """
    if job.is_pending:
        return []
    statement = session.statement()
    if not elsewhere:
        # One at a time, as `_hold` places them: a spread constraint may reject the first one after the others.
        for task, row in promised:
            session.ledger.displace(task, row)
    for task, row in promised:
        if elsewhere:
            # Its own nomination uses the resources that are checked, so it is dropped; those of others stay.
            session.ledger.displace(task, row)
        choice = session.evaluation(task).choose(None if elsewhere else np.array([row], dtype=np.intp))
        if choice is not None and choice.now:
            statement.take(task, choice.row, now=True)
        else:
            statement.take(task, row, now=False)
    started = [task.key for task, _ in promised if task.status == status.ALLOCATED]
    if started and session.points.job_ready(job):
        statement.commit()
        # A task of the gang that allocate has placed counts for readiness, so it starts with the rest.
        for mate in sorted((t for t in job.tasks.values() if t.status == status.ALLOCATED), key=lambda t: t.order):
            session.ledger.bind(mate)
        return started
    # The promises were given up outside the statement, so undoing it does not bring them back.
    statement.roll_back()
    for task, row in promised:
        session.ledger.place(task, row, status.PIPELINED)
    return []
