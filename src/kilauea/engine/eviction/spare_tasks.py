"""Which of its tasks a running job can lose: as many as leave it its minimum, in total, of each role and sub-gang."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task


def spare_and_rest(job: Job, tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    """Tasks that a job can lose without falling below its minimum, in total, of a role or of sub-gangs; and the rest.

    The least important come first. A job that is below its minimum already has nothing to lose.
    """
    ordered = sorted(tasks, key=lambda t: (t.priority, t.uid))
    spare = job.ready_count - job.min_available
    if spare < 0:
        return ordered, []
    left = _Left(job, spare)
    safe = [task for task in ordered if left.takes(task)]
    return safe, [task for task in ordered if task not in safe]


class _Left:
    """What a job can still lose."""

    def __init__(self, job: Job, spare: int) -> None:
        self._job = job
        self._spare = spare
        self._roles: dict[str, int] = {}
        if job.min_available >= job.role_minimum_total:
            for role, minimum in job.role_minimum.items():
                self._roles[role] = job.role_count(role, status.READY, True) - minimum
        self._of_sub_job = {key: s.ready_count - s.min_available for key, s in job.sub_jobs.items()}
        self._of_group = {
            name: sum(1 for s in job.sub_jobs.values() if s.group == name and s.is_ready) - minimum
            for name, minimum in job.sub_group_minimum.items()
            if minimum > 0
        }

    def takes(self, task: Task) -> bool:
        """Whether the task can go too; it is counted then."""
        if self._spare <= 0 or self._roles.get(task.role, 1) <= 0:
            return False
        sub_job = self._job.sub_jobs.get(task.sub_job)
        breaks = sub_job is not None and self._of_sub_job[sub_job.key] == 0
        if breaks and sub_job is not None and sub_job.group in self._of_group:
            if self._of_group[sub_job.group] <= 0:
                return False
            self._of_group[sub_job.group] -= 1
        if sub_job is not None:
            self._of_sub_job[sub_job.key] -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        self._spare -= 1
        return True
