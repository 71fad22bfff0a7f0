"""Allocate nodes to jobs: queue by queue, the first job of each; gangs are placed entirely or not at all.

A gang's first turn places as many tasks as it needs to be ready. Every later turn of the job places one more, so that
queues share the remaining resources. Gangs that must be close together in the network are planned as a whole. Spec of
the scheduler, 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.placement.gangs import Worksheet, place_job, worksheet
from kilauea.engine.placement.promises import serve_elsewhere, serve_promises
from kilauea.engine.queues.fifo import blocked, note_released, note_result
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class AllocateArguments:
    """Arguments of allocate."""

    error_cache: bool = argument(
        "predicateErrorCacheEnable",
        True,
        "Accepted and ignored; nodes are always evaluated once for equal tasks.",
    )


class Allocate(Action):
    """Place pending tasks."""

    name = "allocate"
    acts_unprompted = False
    Arguments = AllocateArguments

    def execute(self, session: Session) -> None:
        serve_promises(session)
        sheets = self._worksheets(session)
        turns = QueueTurns(session, (sheet.job for sheet in sheets.values()))
        while (queue := turns.next_queue()) is not None:
            refusal = session.points.overused(queue)
            if refusal is not None:
                for waiting in turns.drain(queue):
                    session.report.refusals.setdefault(waiting.key, refusal)
                continue
            job = turns.next_job(queue)
            if job is None:
                continue
            wait = blocked(session, job)
            if wait is not None:
                for waiting in (job, *turns.drain(queue)):
                    session.report.refusals.setdefault(waiting.key, wait)
                continue
            sheet = sheets[job.key]
            statement = place_job(session, queue, sheet)
            if statement is not None and session.points.job_ready(job):
                statement.commit()
                if sheet:
                    turns.put_back_job(job)
            note_result(session, queue, job)
            turns.put_back(queue)
        serve_elsewhere(session)

    def _worksheets(self, session: Session) -> dict[str, Worksheet]:
        """Yield the jobs to place, each with its tasks."""
        out: dict[str, Worksheet] = {}
        for job in session.waiting_jobs():
            if job.is_pending:
                if "enqueue" in session.conf.actions:
                    note_released(session, job)
                    continue
                session.admit(job)
            invalid = session.job_valid(job)
            if invalid is not None:
                session.report.refusals[job.key] = invalid
                continue
            sheet = worksheet(session, job)
            if sheet is not None:
                out[job.key] = sheet
        return out
