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
    """Readiness and validity of jobs, and what queues may take."""

    # --- all must agree

    def add_job_ready(self, plugin: str, ready: Callable[[Job], bool]) -> None:
        """Add a check: True if a job has enough tasks placed to start."""
        self.add("job_ready", plugin, ready)

    def add_job_valid(self, plugin: str, valid: Callable[[Job], Refusal | None]) -> None:
        """Add a reason why a job cannot be scheduled whatever the room; None if it can. Not subject to any flag."""
        self.add("job_valid", plugin, valid)

    def add_allocatable(self, plugin: str, allocatable: Callable[[Queue, Task], Refusal | None]) -> None:
        """Add a reason why a queue may not take a task; None if it may."""
        self.add("allocatable", plugin, allocatable)

    def add_preemptive(self, plugin: str, preemptive: Callable[[Queue, Sequence[Task]], bool]) -> None:
        """Add a check: True if a queue may reclaim for these tasks."""
        self.add("preemptive", plugin, preemptive)

    def add_pre_predicate(self, plugin: str, check: Callable[[Task], Refusal | None]) -> None:
        """Add a reason why no node can take a task, found before looking at nodes; None if one may."""
        self.add("pre_predicate", plugin, check)

    def add_sub_job_ready(self, plugin: str, ready: Callable[[Any], bool]) -> None:
        """Add a check: True if a sub-gang has enough tasks placed."""
        self.add("sub_job_ready", plugin, ready)

    def job_ready(self, job: Job) -> bool:
        """All plugins find the job ready; true if none is asked."""
        for tier in self.tiers_of("job_ready"):
            for plugin, function in tier:
                if not self.ask("job_ready", plugin, function, job):
                    return False
        return True

    def sub_job_ready(self, job: Job, sub_job: Any = None) -> bool:
        """All plugins find the sub-gang ready; a job without sub-gangs is asked about as a whole."""
        if sub_job is None:
            return self.job_ready(job)
        return all(self.ask("sub_job_ready", plugin, f, sub_job) for plugin, f in self.walk("sub_job_ready"))

    def job_valid(self, job: Job) -> Refusal | None:
        """The first reason why the job is not valid."""
        refusal: Refusal | None = self._first("job_valid", job)
        return refusal

    def allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        """The first reason why the queue may not take the task."""
        refusal: Refusal | None = self._first("allocatable", queue, task)
        return refusal

    def pre_predicate(self, task: Task) -> Refusal | None:
        """The first reason why no node can take the task."""
        refusal: Refusal | None = self._first("pre_predicate", task)
        return refusal

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """All plugins let the queue reclaim for these tasks."""
        return all(self.ask("preemptive", plugin, f, queue, tasks) for plugin, f in self.walk("preemptive"))

    # --- one is enough

    def add_overused(self, plugin: str, overused: Callable[[Queue], Refusal | None]) -> None:
        """Add a reason why a queue has all it deserves and waits; None if it has not."""
        self.add("overused", plugin, overused)

    def overused(self, queue: Queue) -> Refusal | None:
        """The first reason why the queue waits."""
        refusal: Refusal | None = self._first("overused", queue)
        return refusal
