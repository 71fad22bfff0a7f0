"""Points at which all plugins must agree, or a single one can reject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal


class AgreementPoints(Registry):
    """Readiness and validity of jobs, and the tasks that queues may run."""

    # --- all must agree

    def add_job_ready(self, plugin: str, ready: Callable[[Job], bool]) -> None:
        """Add a check: True if a job has enough tasks placed to start."""
        self.add("job_ready", plugin, ready)

    def add_job_valid(self, plugin: str, valid: Callable[[Job], Refusal | None]) -> None:
        """Add a check: the reason why a job cannot be scheduled at all; None if it can. No flag disables it."""
        self.add("job_valid", plugin, valid)

    def add_allocatable(self, plugin: str, allocatable: Callable[[Queue, Task], Refusal | None]) -> None:
        """Add a check: the reason why a queue may not run a task; None if it may."""
        self.add("allocatable", plugin, allocatable)

    def add_preemptive(self, plugin: str, preemptive: Callable[[Queue, Sequence[Task]], bool]) -> None:
        """Add a check: True if a queue may reclaim for these tasks."""
        self.add("preemptive", plugin, preemptive)

    def add_pre_predicate(self, plugin: str, check: Callable[[Task], Refusal | None]) -> None:
        """Add a check before nodes are evaluated: the reason why no node can run a task; None if one may."""
        self.add("pre_predicate", plugin, check)

    def add_sub_job_ready(self, plugin: str, ready: Callable[[Any], bool]) -> None:
        """Add a check: True if a sub-gang has enough tasks placed."""
        self.add("sub_job_ready", plugin, ready)

    def job_ready(self, job: Job) -> bool:
        """Return True if all plugins find the job ready, or no plugin checks it."""
        for tier in self.tiers_of("job_ready"):
            for plugin, function in tier:
                if not self.ask("job_ready", plugin, function, job):
                    return False
        return True

    def sub_job_ready(self, job: Job, sub_job: Any = None) -> bool:
        """Return True if all plugins find the sub-gang ready; checks the whole job if it has no sub-gangs."""
        if sub_job is None:
            return self.job_ready(job)
        return all(self.ask("sub_job_ready", plugin, f, sub_job) for plugin, f in self.walk("sub_job_ready"))

    def job_valid(self, job: Job) -> Refusal | None:
        """Return the first reason why the job is invalid."""
        refusal: Refusal | None = self._first("job_valid", job)
        return refusal

    def allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        """Return the first reason why the queue may not run the task."""
        refusal: Refusal | None = self._first("allocatable", queue, task)
        return refusal

    def pre_predicate(self, task: Task) -> Refusal | None:
        """Return the first reason why no node can run the task."""
        refusal: Refusal | None = self._first("pre_predicate", task)
        return refusal

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Return True if all plugins let the queue reclaim for these tasks."""
        return all(self.ask("preemptive", plugin, f, queue, tasks) for plugin, f in self.walk("preemptive"))

    # --- one is enough

    def add_overused(self, plugin: str, overused: Callable[[Queue], Refusal | None]) -> None:
        """Add a check: the reason why a queue waits because it has its deserved share; None if it does not."""
        self.add("overused", plugin, overused)

    def overused(self, queue: Queue) -> Refusal | None:
        """Return the first reason why the queue waits."""
        refusal: Refusal | None = self._first("overused", queue)
        return refusal
