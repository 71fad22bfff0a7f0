"""Placement of the tasks of a gang or sub-gang on nodes of the whole cluster or of one network domain.

Spec of the scheduler, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.subjobs import SubJob
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session
from kilauea.engine.statement import Operation, Statement


@dataclass(frozen=True, slots=True)
class Part:
    """A job or one of its sub-gangs: tasks that are placed together."""

    queue: Queue
    job: Job
    sub_job: SubJob | None = None

    @property
    def key(self) -> str:
        """Key of the sub-gang, or of the job."""
        return self.job.key if self.sub_job is None else self.sub_job.key

    @property
    def mates(self) -> Mapping[str, Task]:
        """All tasks of the part."""
        return self.job.tasks if self.sub_job is None else self.sub_job.tasks

    @property
    def minimum(self) -> int:
        """Number of tasks that must be placed together."""
        return self.job.min_available if self.sub_job is None else self.sub_job.min_available


def place_tasks(session: Session, statement: Statement, part: Part, tasks: list[Task], domain: int = -1) -> bool:
    """Place tasks (taken from the end of the list) until the part is ready.

    Args:
        session: the session.
        statement: gets the operations.
        part: the part that the tasks belong to.
        tasks: pending tasks; tasks that were tried are removed from the list.
        domain: number of the network domain to stay in; -1 for the whole cluster.

    Returns:
        True if the part is ready, or will be once nominations are free. If not, everything is undone.
    """
    checkpoint = statement.checkpoint()
    rows = None if domain < 0 else session.domains.tree.rows[domain]
    unfit = session.report.unfit.setdefault(part.job.key, {})
    refused: dict[str, Refusal] = {}
    while tasks:
        task = tasks.pop()
        refusal = session.points.allocatable(part.queue, task)
        if refusal is not None:
            session.report.task_refusals[task.key] = refusal
            refused[task.key] = _of_gang(refusal, statement.operations[checkpoint:])
            continue
        if task.gated:
            continue
        if task.role and any(part.mates[key].role == task.role for key in unfit if key in part.mates):
            message = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            unfit[task.key] = Refusal("Unschedulable", message, part.job.queue)
            continue
        if not _place(session, statement, task, rows, domain):
            if not may_continue(part, unfit):
                break
            continue
        if domain >= 0:
            _follow(session, part, task)
        if session.points.sub_job_ready(part.job, part.sub_job):
            return True
    if session.points.sub_job_ready(part.job, part.sub_job) or session.points.sub_job_pipelined(part.job, part.sub_job):
        return True
    statement.discard(checkpoint)
    session.report.task_refusals.update(refused)
    return False


def _of_gang(refusal: Refusal, placed: Sequence[Operation]) -> Refusal:
    """Return the refusal of a task together with the gang's tasks before it, whose placements are undone.

    Their resources are available again then, and are part of the request.
    """
    held = sum(op.task.spec.requests.get(refusal.resource, 0) for op in placed)
    return refusal._replace(asked=refusal.asked + held, left=refusal.left + held)


def _place(session: Session, statement: Statement, task: Task, rows: NDArray[np.intp] | None, domain: int) -> bool:
    """Place one task on the best node; record the reason if there is none."""
    refusal = session.points.pre_predicate(task)
    if refusal is not None:
        session.report.unfit[task.group][task.key] = refusal
        return False
    evaluation = session.evaluation(task)
    nominated = session.nodes.row_of.get(task.nominated, -1) if task.nominated else -1
    choice = None
    if nominated >= 0 and (rows is None or nominated in rows):
        choice = evaluation.choose(np.array([nominated], dtype=np.intp))
    if choice is None or not choice.now:
        # Waits for the nominated node only if no node has free resources now.
        other = evaluation.choose(rows)
        choice = other if choice is None or (other is not None and other.now) else choice
    if choice is None:
        name = session.domains.tree.names[domain] if domain > 0 else ""
        session.report.unfit[task.group][task.key] = session.unfit(evaluation, rows if domain > 0 else None, name)
        return False
    checkpoint = statement.checkpoint()
    statement.take(task, choice.row, now=choice.now)
    objection = session.points.objections.get(task.key)
    if objection is not None:
        statement.discard(checkpoint)
        session.report.unfit[task.group][task.key] = objection
        return False
    return True


def _follow(session: Session, part: Part, task: Task) -> None:
    """Extend the part's domain to contain the node of a task that was just placed."""
    tree = session.domains.tree
    lowest = tree.at_tier(tree.distinct_tiers[0])[session.nodes.row_of[task.node]]
    if lowest >= 0:
        chosen = session.domains.chosen
        chosen[part.key] = tree.common(int(lowest), chosen.get(part.key, -1))


def may_continue(part: Part, unfit: Mapping[str, object]) -> bool:
    """Return True if placing other tasks is useful after one did not fit (spec 1.5.3, NeedContinueAllocating)."""
    job = part.job
    if job.min_available == len(job.tasks):
        return False
    if part.sub_job is not None:
        return part.sub_job.min_available < len(part.sub_job.tasks)
    failed = {job.tasks[key].role for key in unfit}
    if job.min_available < job.role_minimum_total:
        open_to = sum(1 for task in job.pending() if task.role not in failed)
        return job.ready_count + open_to >= job.min_available
    return not any(
        minimum > 0 and not job.role_is_ready(role, minimum)
        for role, minimum in job.role_minimum.items()
        if role in failed
    )
