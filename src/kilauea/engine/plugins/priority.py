"""More important jobs and tasks first.

What:
    Orders jobs by the priority class of their pod group, and tasks by the priority of their pod (or the annotation
    `volcano.sh/task-priority`). A job can preempt jobs of its queue that have lower priority, and its own tasks of
    lower priority. A job with tasks that are not placed is starving.

Why:
    Priorities tell the scheduler what cannot wait.

Arguments:
    None. Flags: `enableJobOrder`, `enableTaskOrder`, `enablePreemptable`, `enableJobStarving`.

    If `enableJobStarving` is off here and for gang and tdm, no job counts as starving. Then preempt and gangpreempt do
    nothing, nor do reclaim and gangreclaim with `reclaimFor: starving`. With gang in the same tier, a job is starving
    only if both plugins agree.

Example:
    tiers:
    - plugins:
      - name: priority

Difference from the original:
    A pod that this plugin protects stays protected, even if other plugins in the same tier or in later tiers select it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.engine.eviction.bundles import GangPreemptor
from kilauea.engine.extension import PERMIT, SpareReason, Spares
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

NOT_LOWER = SpareReason("PriorityNotLower", "its priority is not lower")


class Priority(Plugin):
    """See the module."""

    name = "priority"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        self._jobs = session.state.jobs
        session.add_task_order(self.name, lambda task: -task.priority)
        session.add_job_order(self.name, lambda job: -job.priority)
        session.add_sub_job_order(
            self.name, lambda sub_job: -max((t.priority for t in sub_job.tasks.values()), default=0)
        )
        session.add_job_starving(self.name, starving)
        session.add_preemptable(self.name, self._less_important, veto=True, why=NOT_LOWER, spares=Spares.NOT_LOWER)
        session.add_unified_evictable(self.name, self._lesser_jobs, veto=True, why=NOT_LOWER)

    def _less_important(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        own = self._jobs.get(preemptor.group)
        if own is None:
            return [], PERMIT
        return [task for task in candidates if self._yields(task, preemptor, own)], PERMIT

    def _lesser_jobs(self, claim: GangPreemptor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        if claim.action != "gangpreempt":
            return candidates, PERMIT
        return [t for t in candidates if self._jobs[t.group].priority < claim.job.priority], PERMIT

    def _yields(self, task: Task, preemptor: Task, own: Job) -> bool:
        if task.group == preemptor.group:
            return task.priority < preemptor.priority
        job = self._jobs.get(task.group)
        return job is not None and job.priority < own.priority


def starving(job: Job) -> bool:
    """Return True if a task is neither placed nor nominated."""
    return job.ready_count + job.counts[status.PIPELINED] < len(job.tasks)
