"""Admit waiting jobs, queue by queue, as long as the plugins find enough resources for their minimum.

A group without `minResources` is admitted without a vote. Its pods do not have to exist: controllers create the pods of
a job after its admission. A group that has released its admission is admitted again only when it could be placed, or
when its backoff has expired (`kilauea.engine.placement.admission_backoff`); in the latter case, groups that could be
placed go first (`kilauea.engine.placement.readmission`). Spec of the scheduler, 5.2.
"""

from __future__ import annotations

from kilauea.engine.action import Action
from kilauea.engine.model.jobs import Job
from kilauea.engine.placement.admission_backoff import backoff_refusal
from kilauea.engine.placement.readmission import Precedence
from kilauea.engine.placement.trials import Trials
from kilauea.engine.queues.fifo import behind
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


class Enqueue(Action):
    """Admit pending pod groups."""

    name = "enqueue"
    acts_unprompted = False

    def execute(self, session: Session) -> None:
        turns = QueueTurns(session, (job for job in session.waiting_jobs() if job.is_pending))
        trials = Trials(session)
        precedence = Precedence(session, trials)
        while (queue := turns.next_queue()) is not None:
            job = turns.next_job(queue)
            if job is None:
                continue
            refusal = session.paused(job) or backoff_refusal(session, trials, queue, job)
            if refusal is not None:
                session.report.refusals[job.key] = refusal
            elif not precedence.steps_back(queue, job) and not _admit(session, job):
                precedence.refused(queue, job)
            if queue.fifo and job.is_pending:
                session.report.refusals.update((later.key, behind(queue, job)) for later in turns.drain(queue))
            turns.put_back(queue)
        for _, job in precedence.later():
            _admit(session, job)
        session.tried = trials.remembered()


def _admit(session: Session, job: Job) -> bool:
    """Admit a group unless a vote rejects it; return True if it is admitted."""
    refusal = session.job_enqueueable(job) if job.min_resources is not None else None
    if refusal is not None:
        session.report.refusals[job.key] = refusal
        return False
    session.job_enqueued(job)
    session.admit(job)
    session.report.refusals.pop(job.key, None)
    return True
