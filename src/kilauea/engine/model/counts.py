"""Counts of tasks by status, and what gang scheduling derives from them; of an entire job or of a sub-gang of it."""

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
        """Tasks that wait and ask for nothing but a pod slot."""
        self.min_available = 0

    def tally(self, task: Task, state: int, by: int) -> None:
        """A task is (1) or is no longer (-1) in a state."""
        self.counts[state] += by
        if state == status.PENDING and task.spec.best_effort:
            self.pending_best_effort += by

    def count(self, states: Iterable[int]) -> int:
        """Number of tasks in any of the states."""
        counts = self.counts
        return sum(counts[s] for s in states)

    @property
    def ready_count(self) -> int:
        """Tasks that count towards the minimum."""
        c = self.counts
        return c[status.BOUND] + c[status.BINDING] + c[status.RUNNING] + c[status.ALLOCATED] + c[status.SUCCEEDED]

    @property
    def is_ready(self) -> bool:
        """The minimum is placed; best-effort tasks that wait count as placed."""
        return self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Return True if the minimum is placed, or nominated to room that is being freed."""
        waiting = self.counts[status.PIPELINED]
        return waiting + self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Placed and promised tasks are fewer than the minimum (best-effort ones that wait do not count)."""
        return self.counts[status.PIPELINED] + self.ready_count < self.min_available

    @property
    def valid_count(self) -> int:
        """Tasks that may still take part."""
        return self.count(status.VALID)

    @property
    def scheduled_count(self) -> int:
        """Tasks that the cluster knows to be placed."""
        return self.count(status.SCHEDULED)
