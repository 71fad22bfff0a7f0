"""Metrics of cycles, derived from the plan and from the state after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kilauea.api.times import SECOND
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.devices.usage import card_uses
from kilauea.engine.model.devices import VGPU
from kilauea.engine.model.resources import EPSILON
from kilauea.engine.plan import Plan, QueueOutcome
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.feed import Feed
from kilauea.telemetry.metrics import SchedulerMetrics

CARD_PLUGINS = frozenset({"deviceshare"})
"""Plugins that assign the cards with metrics."""


class CycleMetrics:
    """Updates the metrics after each cycle."""

    def __init__(self, feed: Feed, metrics: SchedulerMetrics) -> None:
        self._feed = feed
        self._metrics = metrics

    def configured(self, *, good: bool) -> None:
        """Count a reading of the configuration."""
        self._metrics.configured(good=good)

    def after(self, plan: Plan, conf: SchedulerConf, now: int, took: int, *, all_: bool) -> None:
        """Update the metrics of a cycle; with `all_` those of queues and jobs too."""
        self._metrics.cycle(took / SECOND)
        jobs, tasks = self._feed.state.jobs, self._feed.state.tasks
        for group in {task.group for bind in plan.binds if (task := tasks.get(bind.pod))}:
            if group in self._feed.groups:
                self._metrics.placed(group, jobs[group].queue, jobs[group].creation, now + took)
        if plan.evictions:
            transactions = {(eviction.action, eviction.by) for eviction in plan.evictions}
            self._metrics.evicts((action for action, _ in sorted(transactions)), len(plan.evictions))
        if all_:
            self._queues(plan)
            self._jobs(plan)
            drf = any(plugin.name == "drf" for tier in conf.tiers for plugin in tier)
            self._metrics.job_shares(shares(self._feed.state) if drf else tuple)
            if conf.plugins & CARD_PLUGINS:
                self._cards()

    def _cards(self) -> None:
        uses = [use for use in card_uses(self._feed.state) if use.kind == VGPU]
        self._metrics.vgpu_cards(
            (((use.card.id, use.node), (len(use.parts), use.memory, use.cores, use.card.memory)) for use in uses),
            (
                ((use.card.id, use.node, pod), (sum(p.memory for p in parts), sum(p.cores for p in parts)))
                for use in uses
                for pod, parts in use.by_pod().items()
            ),
        )

    def _queues(self, plan: Plan) -> None:
        for name, outcome in plan.queues.items():
            queue = self._feed.state.queues.get(name)
            if queue is None:
                continue
            amounts = {
                "allocated": outcome.allocated,
                "request": outcome.request,
                "deserved": outcome.deserved,
                "capacity": outcome.capability,
                "real_capacity": outcome.real_capability,
                "inqueue": outcome.inqueue,
            }
            self._metrics.queue(name, amounts, queue.weight)
            self._metrics.queue_share(name, outcome.share, overused=_overused(outcome))
        self._metrics.forget_queues(plan.queues)

    def _jobs(self, plan: Plan) -> None:
        waiting = {
            key: sum(outcome.counts.get(name, 0) for name in ("Pending", "Pipelined"))
            for key, outcome in plan.groups.items()
            if outcome.condition is not None and outcome.condition.type == "Unschedulable"
        }
        self._metrics.unscheduled(waiting)
        self._metrics.forget_jobs(self._feed.state.jobs)


def shares(state: ClusterState) -> Callable[[], Iterator[tuple[str, float]]]:
    """Return a function that lists the dominant share (as in drf) of each job of a queue, as it is now.

    There may be a hundred thousand jobs in each cycle, and few scrapes, so a cycle copies columns only.
    """
    state.settle()
    table, total = state.job_table, state.nodes.total()
    size = len(table)
    parts = [table.allocated[state.axis.rows[name], :size] / all_ for name, all_ in total.items() if all_ >= EPSILON]
    largest = np.max(parts, axis=0, initial=0) if parts else np.zeros(size)
    jobs, rows = tuple(table.jobs), np.flatnonzero(table.queue[:size] >= 0)

    def series() -> Iterator[tuple[str, float]]:
        return ((job.key, float(largest[row])) for row in rows.tolist() if (job := jobs[row]) is not None)

    return series


def _overused(outcome: QueueOutcome) -> bool:
    """True if a queue holds more of a resource than it deserves."""
    deserved = outcome.deserved
    return deserved is not None and any(held > deserved.get(name, held) for name, held in outcome.allocated.items())
