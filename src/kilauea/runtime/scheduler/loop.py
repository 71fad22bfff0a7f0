"""The loop of the live scheduler: wait, decide, carry out, report.

    scheduler = Scheduler(parts, clock, period=SECOND)
    await scheduler.run()          # until cancelled

A cycle runs every period, and as soon as an event could let a pod be placed. Events that arrive within a few
milliseconds share a cycle, and after a long cycle the loop pauses so that other tasks can run. While nothing is pending
and nothing changes there are no cycles, unless a plugin depends on the time of day.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from kilauea.api.ports import Clock, Record
from kilauea.api.times import SECOND
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.plan import Plan, QueueOutcome
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.resources import reference
from kilauea.runtime.scheduler.conf_reload import ConfReload, Reading
from kilauea.runtime.scheduler.executor import Executor
from kilauea.runtime.scheduler.feed import Fault, Feed
from kilauea.runtime.scheduler.metrics import CycleMetrics
from kilauea.runtime.scheduler.nominations import Nominations
from kilauea.runtime.scheduler.statuses import Statuses
from kilauea.simulator.extensions import Extensions
from kilauea.telemetry.tracing import UNTRACED, Tracer

GATHER = SECOND // 200
"""Microseconds to wait after an event for others to share its cycle."""
REST = 1.0
"""Shortest pause after a cycle before an event may start the next, as a share of the cycle's duration."""
TOGETHER = 50
"""Number of binds to assume before other tasks of the process may run."""
LONGEST_PAUSE = 5 * SECOND
"""Microseconds beyond a period in which the loop turns, unless the machine sleeps or its clock is set."""

log = logging.getLogger(__name__)


class Decide(Protocol):
    """The engine, with plugins and seed."""

    def __call__(
        self, state: ClusterState, conf: SchedulerConf, now: int, backoff: AdmissionBackoff, *, reasons: bool
    ) -> Plan:
        """Return the plan for a state, with or without the reasons of pending pods."""
        ...


Runner = Callable[[Callable[[], Plan]], Awaitable[Plan]]


@dataclass(frozen=True)
class Parts:
    """The collaborators of the loop.

    Attributes:
        feed: keeps the state.
        woken: set by the feed when something could be placed.
        conf: the configuration.
        executor: carries out binds and evictions.
        nominations: writes nominations.
        statuses: writes statuses of pod groups, pods and queues.
        metrics: receives measurements.
        record: receives events.
        decide: the engine.
        extensions: plugins and actions of the user.
        run: runs a cycle, for example in another thread, while the feed is frozen.
        tracer: records cycles as spans.
    """

    feed: Feed
    woken: asyncio.Event
    conf: ConfReload
    executor: Executor
    nominations: Nominations
    statuses: Statuses
    metrics: CycleMetrics
    record: Callable[[Record], None]
    decide: Decide
    extensions: Extensions
    run: Runner
    tracer: Tracer = UNTRACED


class Scheduler:
    """Runs cycles, and carries out their plans.

    Args:
        parts: the collaborators.
        clock: the time.
        period: microseconds between two cycles when nothing happens.
    """

    def __init__(self, parts: Parts, clock: Clock, period: int = SECOND) -> None:
        self._parts = parts
        self._clock = clock
        self._period = period
        self._woken = parts.woken
        self._due = 0
        """Monotonic time of the next full cycle."""
        self._earliest = 0
        """Monotonic time before which events start no cycle."""
        self._settled = -1
        """`feed.changes` after a full cycle that left nothing to do; -1 if there was something."""
        self.backoff = AdmissionBackoff(since=clock.monotonic())
        """Groups whose admission is backed off, from the latest plan; during a cycle, at the time of that cycle."""
        self._looked = 0
        """Time of day of the last turn of the loop; 0 before it runs."""
        self._findings: frozenset[str] = frozenset()
        self._faults: dict[tuple[str, str], str] = {}
        self._conditions: dict[str, tuple[Any, ...]] = {}
        self.cycles = 0
        self.queues: Mapping[str, QueueOutcome] = {}
        """Figures of the queues after the latest cycle that computed them."""

    @property
    def conf(self) -> SchedulerConf:
        """The configuration in use."""
        return self._parts.conf.conf

    async def run(self) -> None:
        """Decide until cancelled."""
        self._report_conf(self._parts.conf.first)
        while True:
            await self._wait()
            self._note_stall()
            began = self._clock.monotonic()
            try:
                if not self._is_idle():
                    await self.step()
            except Exception:
                log.exception("a cycle failed; the next one runs after the schedule period")
                self._due = self._earliest = self._clock.monotonic() + self._period
            self._looked += self._clock.monotonic() - began  # a long cycle is not a stall

    def _note_stall(self) -> None:
        """Record that the process stalled or the time of day was set: delayed events need more time then."""
        now, longest = self._clock.now(), LONGEST_PAUSE + self._period
        if self._looked and not -SECOND <= now - self._looked <= longest:
            self.backoff = dataclasses.replace(self.backoff, running_since=now)
        self._looked = now

    def _is_idle(self) -> bool:
        """True if there is nothing to decide; the next check is a period later then."""
        parts = self._parts
        if self._settled != parts.feed.changes or self._clock.monotonic() < self._due:
            return False
        reading = parts.conf.look()
        self._report_conf(reading)
        if reading is not None or self._may_act_unprompted():
            return False
        self._woken.clear()
        self._due = self._clock.monotonic() + self._period
        return True

    def _may_act_unprompted(self) -> bool:
        """True if a plugin or an action may act although nothing has changed and nothing is pending."""
        conf, extensions = self._parts.conf.conf, self._parts.extensions
        return any(extensions.plugins[entry.name].depends_on_time for tier in conf.tiers for entry in tier) or any(
            extensions.actions[name].acts_unprompted for name in conf.actions
        )

    async def step(self) -> Plan:
        """Run one cycle and start to carry out its plan."""
        with self._parts.tracer.span("cycle") as span:
            plan = await self._cycle()
            counts = {"binds": len(plan.binds), "evictions": len(plan.evictions), "pending": len(plan.pending)}
            span.note({f"kilauea.{name}": count for name, count in counts.items()})
        return plan

    async def _cycle(self) -> Plan:
        parts, started = self._parts, self._clock.monotonic()
        whole = started >= self._due
        if whole:
            self._report_conf(parts.conf.look())
        conf, now, backoff = parts.conf.conf, self._clock.now(), self.backoff.at(started)
        self.backoff = backoff
        async with parts.feed.frozen():
            plan = await parts.run(lambda: parts.decide(parts.feed.state, conf, now, backoff, reasons=whole))
            took = self._clock.monotonic() - started
            self.backoff = plan.backoff or backoff
            await self._carry_out(plan)
            self._woken.clear()  # this cycle covers every earlier event, and its own assumptions need no cycle
            parts.statuses.after(plan, all_=whole)
        self.cycles += 1
        self.queues = plan.queues or self.queues
        parts.metrics.after(plan, conf, now, took, all_=whole)
        self._report(plan)
        ended = self._clock.monotonic()
        if whole:
            self._due = ended + self._period
            busy = plan.pending or plan.groups or plan.evictions or parts.statuses.busy
            self._settled = -1 if busy else parts.feed.changes
        self._earliest = ended + int((ended - started) * REST)
        return plan

    async def _carry_out(self, plan: Plan) -> None:
        executor, nominations, tasks = self._parts.executor, self._parts.nominations, self._parts.feed.state.tasks
        preemptors: defaultdict[str, list[str]] = defaultdict(list)
        for nomination in plan.nominations:
            preemptors[tasks[nomination.pod].group].append(nomination.pod)
        nominations.after(plan)
        for eviction in plan.evictions:
            pods = preemptors.get(eviction.by)
            uids = {pod: tasks[pod].uid for pod in pods or ()}
            executor.evict(eviction, partial(nominations.written, uids) if uids else None)
        for released in plan.released:
            executor.release(released)
        for number, bind in enumerate(plan.binds, 1):
            executor.bind(bind)
            if number % TOGETHER == 0:
                await asyncio.sleep(0)

    # --- waiting

    async def _wait(self) -> None:
        """Wait until a full cycle is due, or until an event may start one."""
        woken = await self._woken_within(self._due - self._clock.monotonic())
        if woken:
            now = self._clock.monotonic()
            pause = min(max(self._earliest, now + GATHER), max(self._due, now)) - now
            await self._clock.sleep(pause / SECOND)

    async def _woken_within(self, time: int) -> bool:
        """Wait for an event for some microseconds at most; True if there was one."""
        if self._woken.is_set() or time <= 0:
            return time > 0
        sleeping = asyncio.ensure_future(self._clock.sleep(time / SECOND))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        return self._woken.is_set()

    # --- reporting problems

    def _report_conf(self, reading: Reading | None) -> None:
        """Log and record the outcome of reading the configuration."""
        if reading is None:
            return
        for warning in reading.warnings:
            log.warning("configuration: %s", warning)
        self._parts.metrics.configured(good=not reading.fault)
        about = self._queue(ROOT_QUEUE)
        if reading.warnings:
            doubts = f"the scheduler's configuration may not work as intended: {'; '.join(reading.warnings)}"
            self._parts.record(Record(about, "Warning", "ConfigurationWarning", doubts))
        if reading.fault:
            log.error("the configuration is invalid, and the previous one remains active: %s", reading.fault)
            refusal = f"the scheduler's configuration is invalid, and the previous one remains active: {reading.fault}"
            self._parts.record(Record(about, "Warning", "ConfigurationRefused", refusal))
        elif self.cycles:
            log.info("configuration reloaded")
            message = "the scheduler uses the changed configuration"
            self._parts.record(Record(about, "Normal", "ConfigurationLoaded", message))

    def _report(self, plan: Plan) -> None:
        """Report findings, objects that are left out, and conditions of queues, once each."""
        findings = frozenset(str(finding) for finding in plan.findings)
        for text in sorted(findings - self._findings):
            log.warning("%s", text)
        self._findings = findings
        faults = self._left_out()
        if faults or self._faults:
            self._report_faults(faults)
        for name, queue in plan.queues.items():
            if queue.conditions != self._conditions.get(name, ()):
                self._conditions[name] = queue.conditions
                for condition in queue.conditions:
                    self._parts.record(Record(self._queue(name), "Warning", condition.reason, condition.message))

    def _queue(self, name: str) -> dict[str, object]:
        """Reference to a queue for events, with the uid by which `kubectl describe` finds them."""
        known = self._parts.feed.queues.get(name)
        return reference("Queue", name, (known and known.metadata.uid) or "")

    def _left_out(self) -> Mapping[tuple[str, str], Fault]:
        """Return the objects that are left out: invalid ones, and HyperNodes that contradict each other."""
        feed = self._parts.feed
        if not feed.domains:
            return feed.faults
        contradictions = {
            ("HyperNode", name): Fault("HyperNode", name, feed.domains.get(name, ""), why)
            for name, why in feed.state.hypernodes.faults.items()
        }
        return {**feed.faults, **contradictions}

    def _report_faults(self, faults: Mapping[tuple[str, str], Fault]) -> None:
        for name, fault in sorted(faults.items()):
            if self._faults.get(name) != fault.message:
                log.warning("%s %s is left out: %s", fault.kind, fault.key, fault.message)
                about = reference(fault.kind, fault.key, fault.uid)
                self._parts.record(
                    Record(about, "Warning", "InvalidObject", f"excluded from scheduling: {fault.message}")
                )
        self._faults = {name: fault.message for name, fault in faults.items()}
