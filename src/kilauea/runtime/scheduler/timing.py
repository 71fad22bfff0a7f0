"""Durations of a cycle and its parts, for the metrics. The engine itself has no clock."""

from __future__ import annotations

from collections.abc import Callable

from kilauea.engine.extension.observer import Part
from kilauea.telemetry.metrics import SchedulerMetrics

HOOKS = {"opening": "OnSessionOpen", "closing": "OnSessionClose"}


class Stopwatch:
    """An `Observer` of cycles.

    Args:
        now: a monotonic clock, in microseconds.
        metrics: receives the durations.
    """

    def __init__(self, now: Callable[[], int], metrics: SchedulerMetrics) -> None:
        self.now = now
        self._metrics = metrics
        self.chose = metrics.chose

    def took(self, part: Part, name: str, time: int) -> None:
        """A part of a cycle is done."""
        if part == "action":
            self._metrics.action(name, time)
        elif part == "session":
            self._metrics.opened(time)
        else:
            self._metrics.hook(name, HOOKS[part], time)

    def tried(self, action: str) -> None:
        """An action has tried a node."""
        if action == "preempt":
            self._metrics.preemption_tried()
