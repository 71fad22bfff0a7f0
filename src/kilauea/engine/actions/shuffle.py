"""Evict the tasks that plugins name, without a preemptor.

Of the tasks that run, those go that the first tier names whose plugins name any (`victim_tasks`); nothing is placed in
their stead. It is for plugins that have reasons of their own, such as hours in which nodes are lent out. Spec of the
scheduler, 5.7.
"""

from __future__ import annotations

from kilauea.engine.action import Action
from kilauea.engine.model import status
from kilauea.engine.session import Session


class Shuffle(Action):
    """Plugins say who has to go."""

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
