"""Work that its queue cannot serve: in parents, in queues that are closed, in queues that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model import status
from kilauea.engine.model.jobs import COMPLETED, PHASES, Job
from kilauea.engine.model.queue_tree import QueueTree
from kilauea.engine.queue_faults.fault import DETACHED, HOLDS_JOBS, NOT_OPEN, Fault, Rules, plural
from kilauea.engine.session import Session


def faults_of_work(session: Session, tree: QueueTree, rules: Rules) -> Iterator[Fault]:
    """Queues with unfinished work that they cannot take."""
    for name, queue in session.queues.items():
        is_parent = rules.tree and not tree.is_leaf(name)
        if session.job_counts[queue.row] and (is_parent or not queue.open):
            work = _work(session, queue.row)
            if work and is_parent:
                message = f"it has children, and jobs go to leaves; its {work}"
                yield Fault(name, HOLDS_JOBS, "JobsInParentQueue", message, blocks=True)
            if work and not queue.open and rules.plugin:
                yield Fault(name, NOT_OPEN, "QueueNotOpen", f"it is {queue.state}; its {work}", blocks=True)
    yield from _without_queue(session)


def _unfinished(session: Session) -> NDArray[np.bool_]:
    """(J,) jobs with a group that is not completed."""
    phase = session.table.phase[: len(session.table)]
    unfinished: NDArray[np.bool_] = (phase >= 0) & (phase != PHASES.index(COMPLETED))
    return unfinished


def _work(session: Session, row: int) -> str:
    """What the unfinished groups of a queue do, in words; empty without any."""
    table, size = session.table, len(session.table)
    jobs = _unfinished(session) & (table.queue[:size] == row)
    if not jobs.any():
        return ""
    tasks = table.counts[:, :size][:, jobs].sum(axis=1)
    waiting, running = int(tasks[status.PENDING]), int(tasks[sorted(status.HOLDING)].sum())
    groups = plural(int(jobs.sum()), "pod group")
    return f"{groups} may start nothing: {plural(waiting, 'pod')} waiting, {plural(running, 'pod')} running on"


def jobs_without_queue(session: Session) -> list[Job]:
    """Unfinished jobs whose queue does not exist, by name."""
    rows = np.flatnonzero(_unfinished(session) & (session.table.queue[: len(session.table)] < 0))
    return sorted((job for row in rows if (job := session.table.jobs[row]) is not None), key=lambda job: job.key)


def _without_queue(session: Session) -> Iterator[Fault]:
    """Queues that pod groups name and that do not exist."""
    jobs: dict[str, list[Job]] = {}
    for job in jobs_without_queue(session):
        jobs.setdefault(job.queue, []).append(job)
    for name, found in jobs.items():
        groups = f"{plural(len(found), 'pod group')} such as {found[0].key} may start nothing"
        running = sum(job.counts[state] for job in found for state in status.HOLDING)
        message = f"it does not exist; its {groups}: {plural(running, 'pod')} running on"
        yield Fault(name, DETACHED, "QueueNotFound", message, blocks=True)
