"""From cycles to metrics."""

from __future__ import annotations

from kilauea.api.times import SECOND
from kilauea.engine.plan import Plan, QueueOutcome
from kilauea.runtime.scheduler.feed import Feed
from kilauea.telemetry.metrics import SchedulerMetrics


class Figures:
    """Takes the numbers of cycles."""

    def __init__(self, feed: Feed, metrics: SchedulerMetrics) -> None:
        self._feed = feed
        self._metrics = metrics

    def configured(self, *, good: bool) -> None:
        """The configuration file was read."""
        self._metrics.configured(good=good)

    def after(self, plan: Plan, started: int, decided: int, *, all_: bool) -> None:
        """A cycle was done between two times; with `all_` the figures of queues and jobs too."""
        self._metrics.cycle((decided - started) / SECOND)
        jobs, tasks = self._feed.state.jobs, self._feed.state.tasks
        for group in {task.group for bind in plan.binds if (task := tasks.get(bind.pod))}:
            if group in self._feed.groups:
                self._metrics.placed(group, jobs[group].queue, jobs[group].creation, decided)
        if plan.evictions:
            transactions = {(eviction.action, eviction.by) for eviction in plan.evictions}
            self._metrics.evicts((action for action, _ in sorted(transactions)), len(plan.evictions))
        if all_:
            self._queues(plan)
            self._jobs(plan)

    def _queues(self, plan: Plan) -> None:
        for name, outcome in plan.queues.items():
            queue = self._feed.state.queues.get(name)
            if queue is None:
                continue
            figures = {
                "allocated": outcome.allocated,
                "request": outcome.request,
                "deserved": outcome.deserved,
                "capacity": outcome.capability,
                "real_capacity": outcome.real_capability,
                "inqueue": outcome.inqueue,
            }
            self._metrics.queue(name, figures, queue.weight)
            self._metrics.queue_share(name, outcome.share, overused=_overused(outcome))
        self._metrics.forget_queues(plan.queues)

    def _jobs(self, plan: Plan) -> None:
        waiting = {
            key.rpartition("/")[2]: sum(outcome.counts.get(name, 0) for name in ("Pending", "Pipelined"))
            for key, outcome in plan.groups.items()
            if outcome.condition is not None and outcome.condition.type == "Unschedulable"
        }
        self._metrics.unscheduled(waiting)
        self._metrics.forget_jobs(self._feed.groups)


def _overused(outcome: QueueOutcome) -> bool:
    """Whether a queue holds more of something than it deserves."""
    deserved = outcome.deserved
    return deserved is not None and any(held > deserved.get(name, held) for name, held in outcome.allocated.items())
