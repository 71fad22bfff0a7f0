"""Queues with `dequeueStrategy: fifo`: a job that cannot start blocks the jobs behind it.

The order is that of the jobs in their queue: by priority, then by age, as plugins define it. Three kinds of jobs block
those behind them until the end of the cycle:

- a job that is not admitted: no job behind it is admitted (enqueue);
- an admitted job with all of its pods that cannot be placed: no job behind it is placed, and none evicts pods (allocate
  and the evicting actions), also if the job itself does;
- a job that could not be placed within a minute and has released its admission: as if it still had it. Otherwise, the
  jobs behind it would start as soon as it no longer holds their quota. A scheduler that restarts forgets this.

An admitted job does not block others while it has too few pods, or too few without scheduling gates: a group whose pods
are never created would stop the queue. Neither does a job that has its minimum, whose other pods wait, or one whose
minimum is nominated: it starts once its victims have ended. Jobs that are admitted already have left the queue, so they
do not wait for one that arrives later, comes before them, and is not admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.session import Session

CODE = "QueueBlocked"


def precedes(session: Session, job: Job, other: Job) -> bool:
    """Return True if a job comes before another one of its queue.

    Raises:
        PluginFault: the keys of a plugin cannot be compared.
    """
    keys = session.job_key(job), session.job_key(other)
    try:
        return keys[0] < keys[1]
    except TypeError as error:
        session.points.blame_for_keys("job_order", keys, error)


def behind(queue: Queue, head: Job) -> Refusal:
    """Return the reason why the jobs behind another one wait."""
    message = f"{head.key} is before it and cannot start: queue {queue.name} starts its jobs in order"
    return Refusal(CODE, f"{message} (dequeueStrategy: fifo)", queue.name)


def blocked(session: Session, job: Job) -> Refusal | None:
    """Return the reason why a job may be neither placed nor evict others; None if it may."""
    head = session.heads.get(job.queue)
    if head is None or head is job or not precedes(session, head, job):
        return None
    return behind(session.queues[job.queue], head)


def note_result(session: Session, queue: Queue, job: Job) -> None:
    """Block the jobs behind a job that could be neither placed nor nominated."""
    if not queue.fifo:
        return
    has_minimum = (job.is_ready and session.job_ready(job)) or (job.is_pipelined and session.job_pipelined(job))
    if not has_minimum and _has_pods(job):
        _block(session, job)


def in_turn(session: Session, queue: Queue, jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield the jobs of a queue that may evict others, in order, each after the result of the one before it."""
    for job in jobs:
        if blocked(session, job) is not None:
            return
        yield job
        note_result(session, queue, job)


def note_released(session: Session, job: Job) -> None:
    """Block the jobs behind a job that is not admitted if it has released its admission."""
    attempt = session.backoff.attempts.get(job.key)
    if attempt is None or not attempt.until or attempt.creation != job.creation:
        return
    if session.queues[job.queue].fifo:
        _block(session, job)


def _block(session: Session, job: Job) -> None:
    head = session.heads.get(job.queue)
    if head is None or precedes(session, job, head):
        session.heads[job.queue] = job


def first_admitted(session: Session, queue: Queue) -> Job | None:
    """Return the first job of a queue that is admitted and has its pods, but does not run; None for none."""
    first: Job | None = None
    for job in session.waiting_jobs():
        if job.queue != queue.name or job.phase != INQUEUE or session.job_valid(job) is not None:
            continue
        if not job.is_ready and _has_pods(job) and (first is None or precedes(session, job, first)):
            first = job
    return first


def _has_pods(job: Job) -> bool:
    """Return True if as many pods of a job as it needs may start."""
    waiting = sum(1 for task in job.pending() if not task.gated and not task.foreign_gate)
    return job.ready_count + waiting >= job.min_available
