"""Units of eviction: a pod that its gang can spare, or an entire gang.

A gang below its minimum does no work and still holds resources, so an eviction takes a pod beyond the minimum, or all
pods of the gang. Units are specific to Kilauea; the spec of the scheduler, 3.4.7 and 5.8, defines which tasks a job can
spare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task

Unit = tuple[Task, ...]
"""Tasks that are evicted together."""


def may_be_evicted(task: Task, job: Job) -> bool:
    """Return True if a pod may be evicted: by its annotation, else its group's; True by default, False if foreign."""
    if task.foreign:
        return False
    if task.preemptable is not None:
        return task.preemptable
    return job.preemptable is not False


def surplus(job: Job, task: Task) -> int:
    """Return the number of tasks beyond the job's minimum, in total and in the role of the task.

    For a running task, tasks that start in this cycle do not count, because they do not run yet.
    """
    if job.whole:
        return 0
    starting = (status.BINDING,) if task.status != status.BINDING else ()
    spare = job.ready_count - job.count(starting) - job.min_available
    minimum = job.role_minimum.get(task.role, 0)
    if minimum and job.min_available >= job.role_minimum_total:
        of_role = job.role_count(task.role, status.READY, True) - job.role_count(task.role, starting, False)
        spare = min(spare, of_role - minimum)
    return spare


def whole_gang(jobs: Mapping[str, Job], tasks: Sequence[Task]) -> bool:
    """Return True if these are all tasks of a gang on nodes, which are evicted together or not at all."""
    if len(tasks) < 2 or any(task.group != tasks[0].group for task in tasks):
        return False
    job = jobs.get(tasks[0].group)
    return job is not None and job.min_available > 1 and len(tasks) >= job.count(status.HOLDING)


def enough_with(job: Job, unit: Unit) -> bool:
    """Return True if a gang would have its minimum again with an evicted unit put back."""
    if job.ready_count + len(unit) < job.min_available:
        return False
    if job.min_available < job.role_minimum_total:
        return True
    back = Counter(task.role for task in unit)
    return all(
        job.role_count(role, status.READY, True) + back[role] >= minimum for role, minimum in job.role_minimum.items()
    )


def spare_and_rest(job: Job, tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    """Return the tasks that a job can lose without falling below its minimum, of a role or sub-gangs; and the rest.

    The least important tasks come first. A job that is already below its minimum has no tasks to lose.
    """
    ordered = sorted(tasks, key=lambda t: (t.priority, t.uid))
    spare = job.ready_count - job.counts[status.BINDING] - job.min_available
    if job.whole:
        return [], ordered
    if job.ready_count < job.min_available:
        return ordered, []
    left = _Left(job, spare)
    safe = [task for task in ordered if left.takes(task)]
    return safe, [task for task in ordered if task not in safe]


class _Left:
    """The tasks that a job can still lose."""

    def __init__(self, job: Job, spare: int) -> None:
        self._job = job
        self._spare = spare
        self._roles: dict[str, int] = {}
        if job.min_available >= job.role_minimum_total:
            for role, minimum in job.role_minimum.items():
                starting = job.role_count(role, (status.BINDING,), False)
                self._roles[role] = job.role_count(role, status.READY, True) - starting - minimum
        self._of_sub_job = {key: s.ready_count - s.min_available for key, s in job.sub_jobs.items()}
        self._of_group = {
            name: sum(1 for s in job.sub_jobs.values() if s.group == name and s.is_ready) - minimum
            for name, minimum in job.sub_group_minimum.items()
            if minimum > 0
        }

    def takes(self, task: Task) -> bool:
        """Count a task and return True if it can also be evicted."""
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
