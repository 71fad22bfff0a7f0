"""Work that its queue cannot run: in parents, in closed queues, and in queues that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.numbers import plural
from kilauea.engine.model import status
from kilauea.engine.model.jobs import COMPLETED, PHASES, Job
from kilauea.engine.model.queue_tree import QueueTree
from kilauea.engine.queues.faults.fault import DETACHED, HOLDS_JOBS, NOT_OPEN, QueueFault, Rules
from kilauea.engine.session import Session


def faults_of_work(session: Session, tree: QueueTree, rules: Rules) -> Iterator[QueueFault]:
    """Queues with unfinished work that they cannot run."""
    parents = {name for name, children in tree.children.items() if children} if rules.tree else frozenset[str]()
    concerned = [
        queue
        for name, queue in session.queues.items()
        if session.job_counts[queue.row] and (name in parents or not queue.open)
    ]
    works = _works(session) if concerned else []
    for queue in concerned:
        work = works[queue.row]
        if work.groups and queue.name in parents:
            message = f"it has children, and jobs go to leaves; its {work.in_words()}"
            yield QueueFault(queue.name, HOLDS_JOBS, "JobsInParentQueue", message, error=True)
        if work.groups and not queue.open and rules.plugin:
            message = f"it is {queue.state}; its {work.in_words()}"
            yield QueueFault(queue.name, NOT_OPEN, "QueueNotOpen", message)
    yield from _without_queue(session)


class Work(NamedTuple):
    """The unfinished pod groups of a queue, and their waiting and running pods."""

    groups: int
    waiting: int
    running: int

    def in_words(self) -> str:
        """`2 pod groups may start nothing: 3 pods waiting, 1 pod running on`."""
        pods = f"{plural(self.waiting, 'pod')} waiting, {plural(self.running, 'pod')} running on"
        return f"{plural(self.groups, 'pod group')} may start nothing: {pods}"


def _works(session: Session) -> list[Work]:
    """The work of every queue, by row."""
    table, size = session.table, len(session.table)
    jobs = np.flatnonzero(_unfinished(session) & (table.queue[:size] >= 0))
    of_queue, most = table.queue[jobs], len(session.queues)
    groups = np.bincount(of_queue, minlength=most)
    running = table.counts[sorted(status.HOLDING)][:, jobs].sum(axis=0)
    sums = [np.bincount(of_queue, pods, most).astype(int) for pods in (table.counts[status.PENDING, jobs], running)]
    return [Work(*row) for row in zip(groups.tolist(), *(column.tolist() for column in sums), strict=True)]


def _unfinished(session: Session) -> NDArray[np.bool_]:
    """(J,) jobs with a pod group that is not completed."""
    phase = session.table.phase[: len(session.table)]
    unfinished: NDArray[np.bool_] = (phase >= 0) & (phase != PHASES.index(COMPLETED))
    return unfinished & ~session.table.service[: len(session.table)]


def jobs_without_queue(session: Session) -> list[Job]:
    """Unfinished jobs whose queue does not exist, by name."""
    rows = (_unfinished(session) & (session.table.queue[: len(session.table)] < 0)).nonzero()[0].tolist()
    return sorted((job for row in rows if (job := session.table.jobs[row]) is not None), key=lambda job: job.key)


def _without_queue(session: Session) -> Iterator[QueueFault]:
    """Queues that pod groups name but that do not exist."""
    jobs: dict[str, list[Job]] = {}
    for job in jobs_without_queue(session):
        jobs.setdefault(job.queue, []).append(job)
    for name, found in jobs.items():
        groups = f"{plural(len(found), 'pod group')} such as {found[0].key} may start nothing"
        running = sum(job.counts[state] for job in found for state in status.HOLDING)
        message = f"it does not exist; its {groups}: {plural(running, 'pod')} running on"
        yield QueueFault(name, DETACHED, "QueueNotFound", message, error=True)
