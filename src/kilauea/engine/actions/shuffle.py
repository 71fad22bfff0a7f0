"""Evict tasks that plugins select, without a preemptor.

Evicts the running tasks that the first tier with any victims selects (`victim_tasks`); nothing is placed instead. It is
for plugins that evict for other reasons, such as the end of the hours in which nodes are lent. Spec of the scheduler,
5.7.
"""

from __future__ import annotations

from kilauea.engine.action import Action
from kilauea.engine.model import status
from kilauea.engine.session import Session


class Shuffle(Action):
    """Evict the victims of plugins."""

    name = "shuffle"

    def execute(self, session: Session) -> None:
        if not session.points.tiers_of("victim_tasks"):
            return
        running = [
            task
            for job in session.jobs_where(session.table.counts[status.RUNNING] > 0)
            for task in sorted(job.tasks.values(), key=lambda t: t.order)
            if task.status == status.RUNNING and not task.foreign
        ]
        if not running:
            return
        statement = session.statement()
        for task in session.victim_tasks(running):
            if task.status == status.RUNNING and task.node in session.nodes.row_of:
                statement.evict(task, self.name)
        statement.commit()
