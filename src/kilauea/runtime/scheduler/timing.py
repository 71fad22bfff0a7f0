"""Durations of a cycle and its parts, for the metrics. The engine itself has no clock."""

from __future__ import annotations

from collections.abc import Callable

from kilauea.engine.extension.observer import Part
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.tracing import UNTRACED, Tracer

HOOKS = {"opening": "OnSessionOpen", "closing": "OnSessionClose"}


class Stopwatch:
    """An `Observer` of cycles.

    Args:
        now: a monotonic clock, in microseconds.
        metrics: receives the durations.
        tracer: records the opening of the session and the actions as spans.
    """

    def __init__(self, now: Callable[[], int], metrics: SchedulerMetrics, tracer: Tracer = UNTRACED) -> None:
        self.now = now
        self._metrics = metrics
        self._tracer = tracer
        self.chose = metrics.chose

    def took(self, part: Part, name: str, time: int) -> None:
        """Record the end of a part of a cycle."""
        if part == "action":
            self._metrics.action(name, time)
            self._tracer.took(f"action {name}", time)
        elif part == "session":
            self._metrics.opened(time)
            self._tracer.took("open session", time)
        else:
            self._metrics.hook(name, HOOKS[part], time)

    def tried(self, action: str) -> None:
        """Record that an action has tried a node."""
        if action == "preempt":
            self._metrics.preemption_tried()
