"""Serving a job by evictions: its minimum as a unit, then every further pod separately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

Search = Callable[[Sequence[Task], Callable[[], bool]], bool]
"""Evicts others for pending tasks until it is enough; returns True on success."""


def serve_starving(session: Session, job: Job, tasks: Iterable[Task], search: Search) -> None:
    """Evict others for a job as long as plugins report it as starving."""
    if session.points.job_starving(job):
        search(session.in_order(tasks), lambda: not session.points.job_starving(job))


def serve_pending(session: Session, job: Job, tasks: Iterable[Task], search: Search) -> None:
    """Evict others for the minimum of a job, as a whole or not at all; then for each further pending task.

    A queue below its share is entitled to resources for all of its pending tasks, not only for minimums.
    """
    waiting = session.in_order(tasks)
    if not session.points.job_pipelined(job) and not search(waiting, lambda: session.points.job_pipelined(job)):
        return
    in_vain: set[tuple[object, ...]] = set()
    still = {task.key for task in job.pending()}
    for task in waiting:
        kind = (session.shape_of(task), task.priority, task.role)
        if task.key in still and kind not in in_vain and not search([task], lambda: False):
            in_vain.add(kind)
