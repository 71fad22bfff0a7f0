"""Counts of tasks by status, and the gang conditions derived from them; of an entire job or of one of its sub-gangs."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.engine.model import status
from kilauea.engine.model.tasks import Task


class TaskCounts:
    """Numbers of tasks by state, against a minimum (spec of the scheduler, 1.5.3)."""

    __slots__ = ("counts", "min_available", "pending_best_effort")

    def __init__(self) -> None:
        self.counts = [0] * len(status.NAMES)
        """Tasks by status."""
        self.pending_best_effort = 0
        """Waiting tasks that request nothing but a pod slot."""
        self.min_available = 0

    def tally(self, task: Task, state: int, by: int) -> None:
        """Count a task in a state (1), or no longer (-1)."""
        self.counts[state] += by
        if state == status.PENDING and task.spec.best_effort:
            self.pending_best_effort += by

    def count(self, states: Iterable[int]) -> int:
        """Number of tasks in any of the states."""
        counts = self.counts
        return sum(counts[s] for s in states)

    @property
    def ready_count(self) -> int:
        """Number of tasks that count towards the minimum."""
        c = self.counts
        return c[status.BOUND] + c[status.BINDING] + c[status.RUNNING] + c[status.ALLOCATED] + c[status.SUCCEEDED]

    @property
    def is_ready(self) -> bool:
        """True if the minimum is placed; pending best-effort tasks count as placed."""
        return self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """True if the minimum is placed or nominated."""
        waiting = self.counts[status.PIPELINED]
        return waiting + self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        """True if fewer tasks than the minimum are placed or nominated, not counting pending best-effort tasks."""
        return self.counts[status.PIPELINED] + self.ready_count < self.min_available

    @property
    def valid_count(self) -> int:
        """Number of tasks that can still count towards the minimum."""
        return self.count(status.VALID)

    @property
    def scheduled_count(self) -> int:
        """Number of tasks that are placed in the cluster."""
        return self.count(status.SCHEDULED)
