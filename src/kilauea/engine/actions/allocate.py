"""Give jobs room on nodes: queue by queue, in each the job that is first, gangs whole or not at all.

A gang's first turn places as many tasks as make it ready; every later turn of the job places one more, so that queues
share what is left. Spec of the scheduler, 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.queue_turns import QueueTurns
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
        worksheets = self._worksheets(session)
        turns = QueueTurns(session, (job for job, _ in worksheets.values()))
        while (queue := turns.next_queue()) is not None:
            refusal = session.overused(queue)
            if refusal is not None:
                for waiting in turns.drain(queue):
                    session.refusals.setdefault(waiting.key, refusal)
                continue
            job = turns.next_job(queue)
            if job is None:
                continue
            tasks = worksheets[job.key][1]
            statement = place_tasks(session, queue, job, tasks)
            if statement is not None and session.job_ready(job):
                statement.commit()
                if tasks:
                    turns.put_back_job(job)
            turns.put_back(queue)

    def _worksheets(self, session: Session) -> dict[str, tuple[Job, list[Task]]]:
        """Jobs to work on, each with its tasks to place, the first of them last."""
        out = {}
        for job in session.waiting_jobs():
            if job.is_pending:
                if "enqueue" in session.conf.actions:
                    continue
                session.admit(job)
            invalid = session.job_valid(job)
            if invalid is not None:
                session.refusals[job.key] = invalid
                continue
            tasks = [task for task in job.pending() if not task.foreign_gate and not task.spec.best_effort]
            if tasks:
                tasks.sort(key=session.task_key, reverse=True)
                out[job.key] = (job, tasks)
        return out


def place_tasks(session: Session, queue: Queue, job: Job, tasks: list[Task]) -> Statement | None:
    """Place tasks (taken from the end of the list) until the job is ready.

    Returns the statement if the job is ready, or would be once promised room is free; otherwise everything is undone.
    """
    statement = session.statement()
    unfit = session.unfit.setdefault(job.key, {})
    while tasks:
        task = tasks.pop()
        refusal = session.allocatable(queue, task)
        if refusal is not None:
            session.refusals[task.key] = refusal
            continue
        if task.gated:
            continue
        if task.role and any(job.tasks[key].role == task.role for key in unfit):
            message = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            unfit[task.key] = Refusal("Unschedulable", message, job.queue)
            continue
        if not place(session, statement, task):
            if not may_continue(job, unfit):
                break
            continue
        if session.job_ready(job):
            return statement
    if session.job_ready(job) or session.job_pipelined(job):
        return statement
    statement.discard()
    return None


def place(session: Session, statement: Statement, task: Task) -> bool:
    """Place one task on the best node; remembers why if there is none."""
    refusal = session.pre_predicate(task)
    if refusal is not None:
        session.unfit[task.group][task.key] = refusal
        return False
    evaluation = session.evaluation(task)
    nominated = session.nodes.row_of.get(task.nominated, -1) if task.nominated else -1
    choice = evaluation.choose(nominated) if nominated >= 0 else None
    choice = choice or evaluation.choose()
    if choice is None:
        session.unfit[task.group][task.key] = evaluation.unfit()
        return False
    if choice.now:
        statement.allocate(task, choice.row)
    else:
        statement.pipeline(task, choice.row)
    return True


def may_continue(job: Job, unfit: Mapping[str, object]) -> bool:
    """Whether placing the job's other tasks makes sense after one did not fit (spec 1.5.3, NeedContinueAllocating)."""
    if job.min_available == len(job.tasks):
        return False
    failed = {job.tasks[key].role for key in unfit}
    if job.min_available < job.role_minimum_total:
        open_to = sum(1 for task in job.pending() if task.role not in failed)
        return job.ready_count + open_to >= job.min_available
    return not any(
        minimum > 0 and not job.role_is_ready(role, minimum)
        for role, minimum in job.role_minimum.items()
        if role in failed
    )
