"""Promises: resources for pods that were nominated in an earlier cycle, reserved for them and used first.

A pod that others were evicted for gets its room only when they have ended, many cycles later. Its promise stands in the
pod's `status.nominatedNodeName`, so it survives a restart of the scheduler. If later cycles decided again, the room
would go to the next in line, and more pods would be evicted for the same claim. So each cycle first takes the promised
room out of what others may have, and allocate gives it to its owner as soon as it is free.

A promise lapses when its node is gone or takes the pod no longer, when the queue may not have the pod any more, or when
its gang can no longer be completed: held room that helps no task would stay idle. While tasks of the gang terminate,
the pods that follow them may complete it. A promise lapses too while a pod whose room it needs is overdue: with a
finalizer that pod may stay forever, and with it what a gang holds elsewhere meanwhile.
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
"""Microseconds after the end of its grace period from which a pod that terminates is not waited for any more."""


def hold_promises(session: Session) -> None:
    """Nominate again what earlier cycles nominated, as far as it can still be kept; in the order of queues and jobs."""
    by_job: dict[str, list[Task]] = {}
    for task in session.state.nominated.values():
        by_job.setdefault(task.group, []).append(task)
    jobs = [job for key in by_job if (job := session.state.jobs.get(key)) is not None and job.queue in session.queues]
    # Two promises can contradict each other, on a node that has become smaller: then the order decides.
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
    """Return True if a pod that terminates on a node should have ended long ago, and perhaps never will."""
    return any(_never_ends(session, task) for task in session.state.terminating(node))


def _never_ends(session: Session, task: Task) -> bool:
    """Return True if a pod that terminates should have ended long ago, and perhaps never will.

    Where the machine slept or its clock was set, a pod that should have ended meanwhile still has its minute.
    """
    return task.ends > 0 and max(task.ends, session.backoff.running_since) < session.now - OVERDUE


def serve_promises(session: Session) -> None:
    """Place nominated tasks whose room is free now."""
    for job, promised in _open_promises(session):
        session.kept_promises.update(start_where_free(session, job, promised))


def serve_elsewhere(session: Session) -> None:
    """Place tasks that still wait for their nominated node on others, if room is left after all had a turn.

    A victim may take long to end, or never end. Gangs that have to stay in one network domain wait for theirs: they
    start here if allocate has just found room for the rest of them.
    """
    for job, promised in _open_promises(session):
        elsewhere = not (job.sub_groups or session.domains.binds(job))
        session.kept_promises.update(start_where_free(session, job, promised, elsewhere=elsewhere))


def drop_vain_promises(session: Session) -> None:
    """Let go of promises to gangs that were not completed in this cycle, and to groups that are not admitted."""
    for job, _ in _open_promises(session):
        if job.is_pending or not (can_be_completed(session, job) or _comes_back(session, job)):
            drop_nominations(session, job)


def _comes_back(session: Session, job: Job) -> bool:
    """Return True if a gang is below its minimum only while tasks of its own terminate: pods like them follow.

    Without the promise the pods that were evicted for it would have gone in vain.
    """
    going = sum(t.status == status.RELEASING and not _never_ends(session, t) for t in job.tasks.values())
    return going > 0 and job.ready_count + job.counts[status.PIPELINED] + going >= job.min_available


def can_be_completed(session: Session, job: Job) -> bool:
    """Return True if a gang is complete, or will be once its nominated tasks start."""
    return session.points.job_ready(job) or session.points.job_pipelined(job)


def drop_nominations(session: Session, job: Job) -> None:
    """Let all nominated tasks of a job wait without a node."""
    for task in [task for task in job.tasks.values() if task.status == status.PIPELINED]:
        session.ledger.displace(task, session.nodes.row_of[task.node])


def _open_promises(session: Session) -> list[tuple[Job, list[tuple[Task, int]]]]:
    """Jobs with what of their promises is not served yet."""
    out = []
    for key, promised in session.promised.items():
        left = [(task, row) for task, row in promised if task.status == status.PIPELINED]
        if left:
            out.append((session.state.jobs[key], left))
    return out


def start_where_free(
    session: Session, job: Job, promised: Sequence[tuple[Task, int]], *, elsewhere: bool = False
) -> list[str]:
    """Turn nominations of a job into binds where the room is free now, if the job is ready then.

    Args:
        session: the cycle.
        job: the job.
        promised: tasks of it that are nominated, with the rows of their nodes.
        elsewhere: look for free room on any node, not only on that of the nomination.

    Returns:
        Keys of the tasks that start.
    """
    if job.is_pending:
        return []
    statement = session.statement()
    if not elsewhere:
        # One after another, as `_hold` places them: a spread constraint may rule out the first one after its mates.
        for task, row in promised:
            session.ledger.displace(task, row)
    for task, row in promised:
        if elsewhere:
            # Its own nomination takes up the room that is asked about; those of the others keep theirs.
            session.ledger.displace(task, row)
        choice = session.evaluation(task).choose(None if elsewhere else np.array([row], dtype=np.intp))
        if choice is not None and choice.now:
            statement.take(task, choice.row, now=True)
        else:
            statement.take(task, row, now=False)
    started = [task.key for task, _ in promised if task.status == status.ALLOCATED]
    if started and session.points.job_ready(job):
        statement.commit()
        # A mate that allocate placed for a gang that then had to wait counts for readiness, so it starts with the rest.
        for mate in sorted((t for t in job.tasks.values() if t.status == status.ALLOCATED), key=lambda t: t.order):
            session.ledger.bind(mate)
        return started
    # The promises were given up outside the statement, so undoing it does not bring them back.
    statement.roll_back()
    for task, row in promised:
        session.ledger.place(task, row, status.PIPELINED)
    return []
