"""Give jobs room on nodes: queue by queue, in each the job that is first, gangs whole or not at all.

A gang's first turn places as many tasks as make it ready; every later turn of the job places one more, so that queues
share what is left. Gangs that have to be close together in the network are planned whole (`gang_placement.py`).
Spec of the scheduler, 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.gangs import Worksheet, place_gang, sub_gang_sheets
from kilauea.engine.placement.promises import serve_elsewhere, serve_promises
from kilauea.engine.placement.tasks import Part, place_tasks
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session
from kilauea.engine.statement import Statement


@dataclass(frozen=True)
class AllocateArguments:
    """Arguments of allocate."""

    error_cache: bool = argument(
        "predicateErrorCacheEnable",
        True,
        "Accepted for Volcano's sake; nodes are evaluated once for equal tasks anyway.",
    )


class Allocate(Action):
    """Waiting tasks are placed."""

    name = "allocate"
    Arguments = AllocateArguments

    def execute(self, session: Session) -> None:
        serve_promises(session)
        sheets = self._worksheets(session)
        turns = QueueTurns(session, (sheet.job for sheet in sheets.values()))
        while (queue := turns.next_queue()) is not None:
            refusal = session.overused(queue)
            if refusal is not None:
                for waiting in turns.drain(queue):
                    session.report.refusals.setdefault(waiting.key, refusal)
                continue
            job = turns.next_job(queue)
            if job is None:
                continue
            sheet = sheets[job.key]
            statement = self._place(session, queue, sheet)
            if statement is not None and session.job_ready(job):
                statement.commit()
                if sheet:
                    turns.put_back_job(job)
            turns.put_back(queue)
        serve_elsewhere(session)

    def _place(self, session: Session, queue: Queue, sheet: Worksheet) -> Statement | None:
        """A statement that makes the job ready, or would once promised room is free."""
        if sheet.structured:
            return place_gang(session, queue, sheet)
        statement = session.statement()
        placed = place_tasks(session, statement, Part(queue, sheet.job), sheet.tasks[sheet.job.key])
        return statement if placed else None

    def _worksheets(self, session: Session) -> dict[str, Worksheet]:
        """Jobs to work on, each with its tasks to place."""
        out = {}
        for job in session.waiting_jobs():
            if job.is_pending:
                if "enqueue" in session.conf.actions:
                    continue
                session.admit(job)
            invalid = session.job_valid(job)
            if invalid is not None:
                session.report.refusals[job.key] = invalid
                continue
            tasks = self._tasks(session, job)
            if tasks:
                structured = bool(job.sub_groups) or session.domains.binds(job)
                by_part = sub_gang_sheets(session, job, tasks) if job.sub_groups else {job.key: tasks}
                out[job.key] = Worksheet(job, by_part, structured)
        return out

    def _tasks(self, session: Session, job: Job) -> list[Task]:
        """Tasks to place, the first of them last."""
        tasks = [task for task in job.pending() if not task.foreign_gate and not task.spec.best_effort]
        return session.in_order(tasks, reverse=True)
