"""The scheduler's metrics, with the names that Volcano's dashboards and alerts use, and some additional ones.

Durations are milliseconds where the name says so; times come in microseconds. Series of queues and jobs go with their
object, so a process that runs for long has no more of them than there are objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kilauea.api.times import SECOND
from kilauea.telemetry.collectors import Gauges, Series, Tally

MILLISECOND = SECOND // 1000


def exponential(first: float, last: float, count: int) -> list[float]:
    """Bounds of buckets from the first to the last, each the same factor above the one before."""
    factor = (last / first) ** (1 / (count - 1))
    return [first * factor**i for i in range(count)]


FIGURES = {
    "allocated": "that the pods of a queue hold",
    "request": "that the running and pending pods of a queue request",
    "deserved": "that a queue deserves",
    "capacity": "in the capability of a queue",
    "real_capacity": "that a queue may use at most, given the guarantees of the others",
    "inqueue": "reserved for the admitted pod groups of a queue that are not placed yet",
}
"""Figures of queues, and what they are."""
AMOUNTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "milli_cpu": ("Thousandths of a cpu", ()),
    "memory_bytes": ("Bytes of memory", ()),
    "scalar_resources": ("Thousandths of another resource", ("resource",)),
}
"""Resources of these figures: the end of the name, the unit, and labels besides that of the queue."""


class SchedulerMetrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._describe_times()
        self._describe_work()
        self._queue_figures: dict[str, Series] = {}
        for figure, words in FIGURES.items():
            for suffix, (amount, labels) in AMOUNTS.items():
                name = f"queue_{figure}_{suffix}"
                self._queue_figures[name] = self._series(name, f"{amount} {words}", "queue_name", *labels)
        share = "Largest part of what a queue deserves that it holds, over all resources"
        self._queue_share = self._series("queue_share", share, "queue_name")
        self._queue_weight = self._series("queue_weight", "Weight of a queue", "queue_name")
        overused = "Whether a queue holds more than it deserves (1) or not (0)"
        self._queue_overused = self._series("queue_overused", overused, "queue_name")
        self._queue_series: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
        """By queue: the series that it has."""

    def _histogram(self, name: str, words: str, bounds: tuple[float, float, int], *labels: str) -> Histogram:
        buckets = exponential(*bounds)
        return Histogram(name, words, labels, namespace="volcano", registry=self.registry, buckets=buckets)

    def _series(self, name: str, words: str, *labels: str) -> Series:
        found = Series(f"volcano_{name}", words, labels)
        self.registry.register(found)
        return found

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(name, words, namespace="volcano", registry=self.registry)

    def _describe_times(self) -> None:
        long, stages = (1.0, 5000.0, 20), (50.0, 60000.0, 30)
        self._cycle = self._histogram(
            "e2e_scheduling_latency_milliseconds", "Time of a scheduling cycle in milliseconds", long
        )
        self._job_latency = self._histogram(
            "e2e_job_scheduling_latency_milliseconds",
            "Time in milliseconds from the creation of a job until a cycle places tasks of it",
            (100, 120000, 30),
        )
        self._action = self._histogram(
            "action_scheduling_latency_milliseconds",
            "Time of an action of a cycle in milliseconds",
            (1.0, 2000.0, 20),
            "action",
        )
        self._task = Tally(
            "volcano_task_scheduling_latency_milliseconds",
            "Time in milliseconds from the creation of a pod until it reaches a stage",
            exponential(*stages),
            "stage",
            ("Watched", "Assumed", "PreBound", "Bound"),
        )
        self.registry.register(self._task)
        self._open = self._histogram(
            "open_session_duration_milliseconds", "Time in milliseconds until the session of a cycle is open", long
        )
        self._hook = self._histogram(
            "plugin_scheduling_latency_milliseconds",
            "Time in milliseconds of a plugin when a session opens or closes",
            (0.1, 100.0, 15),
            "plugin",
            "OnSession",
        )
        self._stage = Tally(
            "volcano_scheduling_stage_duration_milliseconds",
            "Time of a stage of scheduling a pod in milliseconds",
            exponential(0.1, 500.0, 20),
            "stage",
            ("Predicate", "Scoring", "Bind"),
        )
        self.registry.register(self._stage)

    def _describe_work(self) -> None:
        self.unscheduled_jobs = self._gauge("unschedule_job_count", "Number of jobs that cannot be scheduled")
        self.victims = self._gauge(
            "pod_preemption_victims", "Number of pods evicted by the last cycle that evicted any"
        )
        registry = self.registry
        self._waiting = self._series(
            "unschedule_task_count", "Number of tasks of a job that cannot be scheduled", "job_id"
        )
        # The library adds `_total` to the names of counters, which these two have not in the original.
        self._retries = self._series(
            "job_retry_counts", "Number of cycles in which a job could not be scheduled", "job_id"
        )
        self._tried = self._gauge("total_preemption_attempts", "Number of nodes on which preempt tried to make room")
        self._shares: Callable[[], Iterable[tuple[str, float]]] = tuple
        """Lists jobs, `namespace/name`, with their shares."""
        shares = Gauges(
            {"volcano_job_share": "Dominant share of a job in the cluster, by plugin drf"},
            ("job_ns", "job_id"),
            lambda: ((job.split("/", 1), (share,)) for job, share in self._shares()),
        )
        registry.register(shares)
        self._transactions = Counter(
            "eviction_transactions",
            "Number of times that an action evicted pods for a pod group",
            ["action"],
            namespace="volcano",
            registry=registry,
        )
        self._attempts = Counter(
            "schedule_attempts",
            "Number of attempts to bind a pod, by result",
            ["result"],
            namespace="volcano",
            registry=registry,
        )
        self._reloads = Counter(
            "configuration_reloads",
            "Number of times that the configuration file was read, by result",
            ["result"],
            namespace="kilauea_scheduler",
            registry=registry,
        )
        self._good = Gauge(
            "configuration_valid",
            "Whether the configuration file is in use (1), or an earlier version because it is invalid (0)",
            namespace="kilauea_scheduler",
            registry=registry,
        )
        self._retried: dict[str, str] = {}
        """Names of jobs that waited, by `namespace/name`."""
        self._placed: dict[str, tuple[tuple[str, str, str], tuple[float, float, float]]] = {}
        """By `namespace/name` of a job: its labels, and the three gauges."""
        placed = {
            "volcano_e2e_job_scheduling_duration": "Time in milliseconds from a job's creation to its last placed task",
            "volcano_e2e_job_scheduling_start_time": "Time of the creation of a job, in seconds since 1970",
            "volcano_e2e_job_scheduling_last_time": "Time of the last placed task of a job, in seconds since 1970",
        }
        registry.register(Gauges(placed, ("job_name", "queue", "job_namespace"), self._placed.values))
        self._describe_cards()

    def _describe_cards(self) -> None:
        self._cards: list[tuple[tuple[str, str], tuple[float, ...]]] = []
        """Id and node of each vGPU card: containers that share it, memory and cores that they have, its memory."""
        self._card_parts: list[tuple[tuple[str, str, str], tuple[float, ...]]] = []
        """The same with a pod: memory and cores that it has."""
        cards = {
            "volcano_vgpu_device_shared_number": "Number of containers that share a vGPU",
            "volcano_vgpu_device_allocated_memory": "Memory of a vGPU that pods use, in MiB",
            "volcano_vgpu_device_allocated_cores": "Percentage of a vGPU's cores that pods use",
            "volcano_vgpu_device_memory_limit": "Memory of a vGPU, in MiB",
        }
        parts = {
            "volcano_vgpu_device_memory_allocation_for_a_certain_pod": "Memory of a vGPU that a pod uses, in MiB",
            "volcano_vgpu_device_core_allocation_for_a_certain_pod": "Percentage of a vGPU's cores that a pod uses",
        }
        self.registry.register(Gauges(cards, ("devID", "NodeName"), lambda: self._cards))
        self.registry.register(Gauges(parts, ("devID", "NodeName", "podName"), lambda: self._card_parts))

    # --- what happens

    def cycle(self, seconds: float) -> None:
        """A cycle has been done."""
        self._cycle.observe(seconds * 1000)

    def task_latency(self, stage: str, created: int, now: int) -> None:
        """A pod has come to a stage; times in microseconds since 1970."""
        if created:
            self._task.observe(stage, max(now - created, 0) / MILLISECOND)

    def bound(self, created: int, now: int, took: int) -> None:
        """A pod was bound at a time of day by a request that took so long."""
        self.task_latency("Bound", created, now)
        self._stage.observe("Bind", took / MILLISECOND)
        self._attempts.labels("scheduled").inc()

    def failed(self) -> None:
        """A bind failed."""
        self._attempts.labels("error").inc()

    def action(self, name: str, time: int) -> None:
        """An action was executed in this many microseconds."""
        self._action.labels(name).observe(time / MILLISECOND)

    def opened(self, time: int) -> None:
        """A session was opened in this many microseconds."""
        self._open.observe(time / MILLISECOND)

    def hook(self, plugin: str, hook: str, time: int) -> None:
        """A plugin did its work at the opening or the closing of a session in this many microseconds."""
        self._hook.labels(plugin, hook).observe(time / MILLISECOND)

    def chose(self, predicates: int, scoring: int) -> None:
        """A node was looked for, in this many microseconds."""
        self._stage.observe("Predicate", predicates / MILLISECOND)
        self._stage.observe("Scoring", scoring / MILLISECOND)

    def preemption_tried(self) -> None:
        """Preempt tried to make room on a node."""
        self._tried.inc()

    def placed(self, job: str, queue: str, created: int, now: int) -> None:
        """A job, `namespace/name`, has a task placed."""
        if not created:
            return
        self._job_latency.observe((now - created) / MILLISECOND)
        namespace, _, name = job.partition("/")
        times = (now - created) / MILLISECOND, created / SECOND, now / SECOND
        self._placed[job] = ((name, queue, namespace), times)

    def forget_jobs(self, there: Container[str]) -> None:
        """Drop the series of jobs that are not there any more."""
        for job in [job for job in self._placed if job not in there]:
            del self._placed[job]
        gone = {self._retried.pop(job) for job in [job for job in self._retried if job not in there]}
        for name in gone - set(self._retried.values()) if gone else ():  # others may have the name elsewhere
            del self._retries.values[(name,)]

    def job_shares(self, shares: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Take what lists the jobs, `namespace/name`, with their shares under drf; it is called at each scrape."""
        self._shares = shares

    def evicts(self, actions: Iterable[str], victims: int) -> None:
        """A plan evicts pods, for these actions."""
        self.victims.set(victims)
        for action in actions:
            self._transactions.labels(action).inc()

    def unscheduled(self, tasks: Mapping[str, int]) -> None:
        """Jobs that cannot be scheduled, `namespace/name`, with how many tasks wait. The series go by names alone."""
        self.unscheduled_jobs.set(len(tasks))
        waiting, retries = dict[tuple[str, ...], float](), self._retries.values
        for job, count in tasks.items():
            name = self._retried[job] = job.rpartition("/")[2]
            waiting[name,] = waiting.get((name,), 0) + count
            retries[name,] = retries.get((name,), 0) + 1
        self._waiting.values = waiting

    def configured(self, *, good: bool) -> None:
        """The configuration file was read."""
        self._reloads.labels("ok" if good else "error").inc()
        self._good.set(good)

    # --- cards

    def vgpu_cards(
        self,
        cards: Iterable[tuple[tuple[str, str], tuple[float, ...]]],
        parts: Iterable[tuple[tuple[str, str, str], tuple[float, ...]]],
    ) -> None:
        """All vGPU cards, and what pods have of them."""
        self._cards, self._card_parts = list(cards), list(parts)

    # --- queues

    def queue(self, name: str, figures: Mapping[str, Mapping[str, float] | None], weight: int) -> None:
        """Figures of a queue by name, in milli-cores, bytes and thousandths."""
        seen: set[tuple[str, tuple[str, ...]]] = set()
        for figure, amounts in figures.items():
            for resource, amount in (amounts or {}).items():
                suffix = {"cpu": "milli_cpu", "memory": "memory_bytes"}.get(resource, "scalar_resources")
                labels: tuple[str, ...] = (name, resource) if suffix == "scalar_resources" else (name,)
                self._queue_figures[f"queue_{figure}_{suffix}"].values[labels] = amount
                seen.add((f"queue_{figure}_{suffix}", labels))
        for series, values in self._queue_series.get(name, set()) - seen:
            self._queue_figures[series].values[values] = 0
        self._queue_series.setdefault(name, set()).update(seen)
        self._queue_weight.values[name,] = weight

    def queue_share(self, name: str, share: float | None, *, overused: bool) -> None:
        """Share of a queue, and whether it has more than it deserves."""
        if share is not None:
            self._queue_share.values[name,] = share
        self._queue_overused.values[name,] = overused

    def forget_queues(self, there: Iterable[str]) -> None:
        """Drop the series of queues that are not there any more."""
        for name in self._queue_series.keys() - set(there):
            for series, values in self._queue_series.pop(name):
                del self._queue_figures[series].values[values]
            for gauge in (self._queue_share, self._queue_weight, self._queue_overused):
                gauge.values.pop((name,), None)
