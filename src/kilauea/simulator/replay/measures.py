"""Measurements of a replay: jobs, and amounts over time.

Amounts are in the units of the engine, times in microseconds. Usage is added up exactly, at each change; more expensive
measures (fairness, fragmentation) are sampled at even intervals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api.ports import Key
from kilauea.api.quantity import resource_amounts
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Eviction, Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.replay.fairness import jain, satisfaction
from kilauea.simulator.replay.fragmentation import Fragmentation
from kilauea.simulator.replay.trace import Trace, TraceJob

SAMPLES = 500
"""Number of samples of fairness and fragmentation between the first and the last submission."""


@dataclass(slots=True)
class JobRecord:
    """A job of the trace, and its life.

    Attributes:
        job: the job of the trace.
        asked: requests of all its pods.
        needed: number of pods that it needs to run.
        submitted: its submission time.
        started: the time when it first had enough pods; None if never.
        ended: its end; None if not yet.
        phase: its final phase.
        running: number of its pods that run.
        evictions: number of its pods that were evicted.
        restarts: number of counted retries.
    """

    job: TraceJob
    asked: dict[str, int]
    needed: int
    submitted: int
    started: int | None = None
    ended: int | None = None
    phase: str = ""
    running: int = 0
    evictions: int = 0
    restarts: int = 0

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.job.queue or "default"


class Sample(NamedTuple):
    """The cluster at one moment.

    Attributes:
        time: since the start, in microseconds.
        used: usage by resource.
        total: total of the nodes, by resource.
        queues: amounts that the pods of each queue hold, by resource.
        waiting: number of jobs that wait to start.
        running: number of running jobs.
        fairness: Jain's index; None if no plugin computes deserved amounts.
        shortfall: mean fraction of their entitlement that queues lack; None as above.
        fragmentation: unusable fraction of the free resources; None if nothing is free.
    """

    time: int
    used: Mapping[str, int]
    total: Mapping[str, int]
    queues: Mapping[str, Mapping[str, int]]
    waiting: int
    running: int
    fairness: float | None
    shortfall: float | None
    fragmentation: float | None


class _Run(NamedTuple):
    """A pod that runs."""

    since: int
    queue: str
    requests: Mapping[str, int]
    job: Key | None


@dataclass
class Measures:
    """All measurements of one replay.

    Attributes:
        trace: the jobs.
        jobs: their records, by key.
        used_time: amounts times microseconds that were in use, by resource.
        offered_time: the same for the total of the nodes.
        lost_time: the same for the usage of pods that did not complete.
        queue_time: the same for usage, by queue.
        evictions: number of evictions, by action, queue of the pod, and queue for which it was evicted.
        faults: number of failures of nodes.
        pods_lost: number of pods lost with failed nodes.
        samples: the cluster at even intervals.
        window_used: `used_time` until the last submission.
        window_offered: `offered_time` until then.
    """

    trace: Trace
    jobs: dict[Key, JobRecord] = field(default_factory=dict)
    used_time: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    offered_time: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lost_time: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    queue_time: dict[str, dict[str, int]] = field(default_factory=dict)
    evictions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    faults: int = 0
    pods_lost: int = 0
    pods_started: int = 0
    samples: list[Sample] = field(default_factory=list)
    window_used: dict[str, int] = field(default_factory=dict)
    window_offered: dict[str, int] = field(default_factory=dict)
    running_jobs: set[Key] = field(default_factory=set)

    def begin(self, state: ClusterState, now: int) -> None:
        """Start at the beginning of a replay."""
        self._start = self._now = now
        self._state = state
        self._total = dict(state.nodes.total())
        self._used: dict[str, int] = dict.fromkeys(self._total, 0)
        self._by_queue: dict[str, dict[str, int]] = {}
        self._pending: dict[str, dict[str, int]] = {}
        """Requests of jobs that have not started, by queue."""
        self._deserved: dict[str, Mapping[str, float]] = {}
        self._runs: dict[Key, _Run] = {}
        for key, task in sorted(state.tasks.items()):
            if task.node:
                self._run(Key(*key.split("/", 1)), task, now)
        self._fragmentation = Fragmentation(self.trace.jobs, sorted(self._total))
        first = self.trace.jobs[0].submit if self.trace.jobs else 0
        self._last_submission = now + first + self.trace.span
        self._interval = max(1, self.trace.span // SAMPLES)
        self.next_sample = now + first
        """The time of the next sample; the state must be current then."""
        self._over = 0
        """Number of jobs that have ended."""

    @property
    def start(self) -> int:
        """The time of the start, in microseconds since 1970."""
        return self._start

    @property
    def fragmented_resource(self) -> str:
        """The resource of the fragmentation."""
        return self._fragmentation.resource

    def advance(self, now: int) -> None:
        """Advance the time; nothing has changed since the last call."""
        while self.next_sample <= now:
            self._sample(self.next_sample)
            if self.next_sample > self._last_submission:  # the rest may take much longer than the trace
                self._interval = max(self._interval, (self.next_sample - self._start) // SAMPLES)
            self.next_sample += self._interval
        if self._now < self._last_submission <= now:
            self._add(self._last_submission)
            self.window_used, self.window_offered = dict(self.used_time), dict(self.offered_time)
        self._add(now)

    def _add(self, now: int) -> None:
        passed = now - self._now
        if passed <= 0:
            return
        self._now = now
        for name, amount in self._used.items():
            if amount:
                self.used_time[name] += amount * passed
        for name, amount in self._total.items():
            self.offered_time[name] += amount * passed
        for queue, held in self._by_queue.items():
            sums = self.queue_time.setdefault(queue, {})
            for name, amount in held.items():
                if amount:
                    sums[name] = sums.get(name, 0) + amount * passed

    def finish(self, now: int) -> None:
        """End the measurement."""
        self.advance(now)
        if not self.window_offered:
            self.window_used, self.window_offered = dict(self.used_time), dict(self.offered_time)

    # --- jobs

    def submitted(self, key: Key, job: TraceJob, now: int) -> None:
        """Record the submission of a job."""
        asked: dict[str, int] = {}
        for task in job.tasks:
            for name, amount in resource_amounts(dict(task.requests)).items():
                asked[name] = asked.get(name, 0) + amount * task.replicas
        record = self.jobs[key] = JobRecord(job, asked, job.min_available or job.pods, now)
        self._shift(self._pending, record.queue, asked, 1)

    def restarted(self, key: Key) -> None:
        """Record the restart of a job."""
        self.jobs[key].restarts += 1

    def ended(self, key: Key, phase: str, now: int) -> None:
        """Record the end of a job."""
        record = self.jobs[key]
        if record.started is None:
            self._shift(self._pending, record.queue, record.asked, -1)
        record.ended, record.phase = now, phase
        self.running_jobs.discard(key)
        self._over += 1

    # --- pods

    def started(self, key: Key, task: Task, now: int, job: Key | None) -> None:
        """Record the start of a pod."""
        self.pods_started += 1
        self._run(key, task, now, job)
        record = self.jobs.get(job) if job is not None else None
        if job is None or record is None:
            return
        record.running += 1
        if record.running >= record.needed:
            self.running_jobs.add(job)
            if record.started is None:
                record.started = now
                self._shift(self._pending, record.queue, record.asked, -1)

    def _run(self, key: Key, task: Task, now: int, job: Key | None = None) -> None:
        found = self._state.jobs.get(task.group)
        queue = found.queue if found is not None else ""
        requests = {name: amount for name, amount in task.spec.requests.items() if amount}
        self._runs[key] = _Run(now, queue, requests, job)
        self._count(queue, requests, 1)

    def stopped(self, key: Key, now: int, *, done: bool) -> None:
        """Record the end of a pod; unless it is done, its usage is lost."""
        run = self._runs.pop(key)
        self._count(run.queue, run.requests, -1)
        if not done:
            for name, amount in run.requests.items():
                self.lost_time[name] += amount * (now - run.since)
        record = self.jobs.get(run.job) if run.job is not None else None
        if run.job is None or record is None:
            return
        record.running -= 1
        if not done and record.running < record.needed:
            self.running_jobs.discard(run.job)

    def _count(self, queue: str, requests: Mapping[str, int], sign: int) -> None:
        for name, amount in requests.items():
            self._used[name] = self._used.get(name, 0) + sign * amount
        if queue:
            self._shift(self._by_queue, queue, requests, sign)

    @staticmethod
    def _shift(of: dict[str, dict[str, int]], queue: str, amounts: Mapping[str, int], sign: int) -> None:
        held = of.setdefault(queue, {})
        for name, amount in amounts.items():
            held[name] = held.get(name, 0) + sign * amount

    def evicted(self, key: Key, eviction: Eviction) -> None:
        """Record the eviction of a pod."""
        run = self._runs.get(key)
        by = self._state.jobs.get(eviction.by)
        victim = run.queue if run is not None else ""
        self.evictions[eviction.action, victim, by.queue if by is not None else ""] += 1
        record = self.jobs.get(run.job) if run is not None and run.job is not None else None
        if record is not None:
            record.evictions += 1

    # --- the cluster

    def nodes_changed(self) -> None:
        """Record that nodes have failed or returned."""
        self._total = dict(self._state.nodes.total())

    def after_cycle(self, plan: Plan) -> None:
        """Record the deserved amounts of queues."""
        for name, outcome in plan.queues.items():
            if outcome.deserved is not None:
                self._deserved[name] = outcome.deserved

    def _sample(self, time: int) -> None:
        values = []
        for queue in sorted(self._pending):
            if queue in self._deserved:
                held, waits = self._by_queue.get(queue, {}), self._pending[queue]
                asked = {name: held.get(name, 0) + waits.get(name, 0) for name in sorted({*held, *waits})}
                value = satisfaction(held, asked, self._deserved[queue], self._total)
                if value is not None:
                    values.append(value)
        going = len(self.running_jobs)
        open_jobs = len(self.jobs) - self._over
        self.samples.append(
            Sample(
                time - self._start,
                dict(self._used),
                self._total,
                {queue: dict(held) for queue, held in sorted(self._by_queue.items())},
                open_jobs - going,
                going,
                jain(values) if values or self._deserved else None,
                1 - sum(values) / len(values) if values else 0.0 if self._deserved else None,
                self._fragmentation.of(self._state.nodes),
            )
        )
