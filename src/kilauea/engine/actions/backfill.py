"""Start tasks that request nothing but a pod slot, on any node that accepts them.

They are placed without a statement: such a task of a gang that is not ready yet keeps its node until the cycle ends. As
in Volcano, they can be placed outside the domain to which a hard network topology limits their gang. Spec of the
scheduler, 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.conf import argument
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


@dataclass(frozen=True)
class BackfillArguments:
    """Arguments of backfill."""

    error_cache: bool = argument(
        "predicateErrorCacheEnable",
        True,
        "Accepted and ignored; nodes are always evaluated once for equal tasks.",
    )


class Backfill(Action):
    """Place best-effort tasks."""

    name = "backfill"
    acts_unprompted = False
    Arguments = BackfillArguments

    def execute(self, session: Session) -> None:
        turns = QueueTurns(session, (job for job in session.waiting_jobs() if self._concerns(session, job)))
        while (queue := turns.next_queue()) is not None:
            for job in turns.drain(queue):
                for task in session.in_order(self._tasks(session, job)):
                    self._place(session, task)

    def _concerns(self, session: Session, job: Job) -> bool:
        # Checked first because few jobs have such tasks, and sorting jobs costs more.
        best_effort = any(task.spec.best_effort for task in job.tasks.values())
        return best_effort and not job.is_pending and session.job_valid(job) is None

    def _tasks(self, session: Session, job: Job) -> list[Task]:
        best_effort = [task for task in job.tasks.values() if task.spec.best_effort and not task.gated]
        for task in best_effort:
            if task.status == status.PIPELINED:
                session.ledger.displace(task, session.nodes.row_of[task.node])
        return [task for task in best_effort if task.status == status.PENDING]

    def _place(self, session: Session, task: Task) -> None:
        unfit = session.report.unfit.setdefault(task.group, {})
        refusal = session.points.pre_predicate(task)
        if refusal is not None:
            unfit[task.key] = refusal
            return
        evaluation = session.evaluation(task)
        choice = evaluation.choose()
        # It waits for releasing resources without a nomination, and is tried again when they are free.
        if choice is None or not choice.now:
            unfit[task.key] = session.unfit(evaluation)
            return
        objection = session.allocate_at_once(task, choice.row)
        if objection is not None:
            unfit[task.key] = objection
