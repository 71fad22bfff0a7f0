"""The action of Volcano's tutorial: each pod that waits goes to the node that has the fewest pods at that moment.

No filter and no score is asked. Of several nodes with equally few pods the first in order is taken. All operations of a
cycle go into one statement, which is committed after each job that is ready.
"""

from __future__ import annotations

from kilauea.engine.action import Action
from kilauea.engine.plan import Refusal
from kilauea.engine.session import Session


class Launch(Action):
    """Place each task on the emptiest node."""

    name = "launch"

    def execute(self, session: Session) -> None:
        """Place the tasks of all valid jobs."""
        statement = session.statement()
        for job in session.waiting_jobs() if len(session.nodes) else []:
            refusal = session.job_valid(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            for task in session.in_order(task for task in job.pending() if not task.gated):
                row = int(session.nodes.all().task_count.argmin())
                if session.fits(task, row):
                    statement.allocate(task, row)
                else:
                    message = f"node {session.nodes.names[row]} has the fewest pods, but no room for this one"
                    session.refuse(task, Refusal("NoRoom", message, job.queue))
            if session.job_ready(job):
                statement.commit()
