"""The loop of the live scheduler: wait, decide, carry out, say.

    scheduler = Scheduler(parts, clock, period=SECOND)
    await scheduler.run()          # until cancelled

A cycle is done every period, and as soon as something happened that could let a pod be placed. Events that come
together are decided about together, and after a long cycle there is a rest, so that everything else has its turn. While
nothing waits and nothing changes there is nothing to decide, and no cycle, unless a plugin goes by the time of day.
"""

from __future__ import annotations

import asyncio
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
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.extensions import Extensions
from kilauea.runtime.inputs.resources import reference
from kilauea.runtime.scheduler.conf_reload import ConfReload, Reading
from kilauea.runtime.scheduler.executor import Deeds
from kilauea.runtime.scheduler.feed import Fault, Feed
from kilauea.runtime.scheduler.metrics import Figures
from kilauea.runtime.scheduler.nominations import Promises
from kilauea.runtime.scheduler.statuses import Statuses

GATHER = SECOND // 200
"""Microseconds after an event in which others may join it."""
REST = 1.0
"""After a cycle, the share of its time that is left to everything else before another one is stirred."""
TOGETHER = 50
"""Binds that are assumed before everything else has its turn."""

log = logging.getLogger(__name__)


class Decide(Protocol):
    """The engine, with plugins and seed."""

    def __call__(
        self, state: ClusterState, conf: SchedulerConf, now: int, backoff: AdmissionBackoff, *, reasons: bool
    ) -> Plan:
        """What follows from a state by a configuration at a time, with reasons for what waits or without."""
        ...


Runner = Callable[[Callable[[], Plan]], Awaitable[Plan]]


@dataclass(frozen=True)
class Parts:
    """What the loop works with.

    Attributes:
        feed: keeps the state.
        conf: the configuration.
        deeds: carries out binds and evictions.
        promises: writes nominations.
        statuses: says what was decided.
        figures: takes the numbers.
        record: takes events.
        decide: the engine.
        extensions: its plugins and actions.
        run: calls it, e.g. in another thread; nothing touches the state until it returns.
    """

    feed: Feed
    conf: ConfReload
    deeds: Deeds
    promises: Promises
    statuses: Statuses
    figures: Figures
    record: Callable[[Record], None]
    decide: Decide
    extensions: Extensions
    run: Runner


class Scheduler:
    """Decides again and again.

    Args:
        parts: what it works with.
        clock: the time.
        period: microseconds between two cycles when nothing happens.
    """

    def __init__(self, parts: Parts, clock: Clock, period: int = SECOND) -> None:
        self._parts = parts
        self._clock = clock
        self._period = period
        self._stirred = asyncio.Event()
        self._due = 0
        """When everything is looked at again, by the monotonic clock."""
        self._earliest = 0
        """When a cycle may be stirred."""
        self._settled = -1
        """The state of the feed in which a cycle found nothing to do."""
        self.backoff = NO_BACKOFF
        """What the latest plan says of groups that were admitted in vain; in a cycle, at its moment."""
        self._findings: frozenset[str] = frozenset()
        self._faults: dict[tuple[str, str], str] = {}
        self._conditions: dict[str, tuple[Any, ...]] = {}
        self.cycles = 0
        parts.feed.stir = self._stirred.set

    @property
    def conf(self) -> SchedulerConf:
        """The configuration in use."""
        return self._parts.conf.conf

    async def run(self) -> None:
        """Decide until cancelled."""
        self._say_reading(self._parts.conf.first)
        while True:
            await self._wait()
            try:
                if not self._rests():
                    await self.step()
            except Exception:
                log.exception("a cycle failed; the next one is tried after a period")
                self._due = self._earliest = self._clock.monotonic() + self._period

    def _rests(self) -> bool:
        """Whether there is nothing to decide; the next look is then a period away."""
        parts = self._parts
        if self._settled != parts.feed.changes or self._clock.monotonic() < self._due:
            return False
        reading = parts.conf.look()
        self._say_reading(reading)
        if reading is not None or self._may_want_something():
            return False
        self._stirred.clear()
        self._due = self._clock.monotonic() + self._period
        return True

    def _may_want_something(self) -> bool:
        """Whether a plugin or an action may do something although nothing has changed and nothing waits."""
        conf, extensions = self._parts.conf.conf, self._parts.extensions
        return any(extensions.plugins[entry.name].depends_on_time for tier in conf.tiers for entry in tier) or any(
            extensions.actions[name].acts_unprompted for name in conf.actions
        )

    async def step(self) -> Plan:
        """One cycle."""
        parts, started = self._parts, self._clock.monotonic()
        whole = started >= self._due
        if whole:
            self._say_reading(parts.conf.look())
        conf, now, backoff = parts.conf.conf, self._clock.now(), self.backoff.at(started)
        self.backoff = backoff
        try:
            plan = await parts.feed.undisturbed(
                lambda: parts.run(lambda: parts.decide(parts.feed.state, conf, now, backoff, reasons=whole))
            )
            took = self._clock.monotonic() - started
            self.backoff = plan.backoff or backoff
            await self._carry_out(plan)
            self._stirred.clear()  # what stirred before is decided about, and the plan itself stirs nobody
            parts.statuses.after(plan, all_=whole)
        finally:
            parts.feed.catch_up()
        self.cycles += 1
        parts.figures.after(plan, conf, now, took, all_=whole)
        self._say(plan)
        ended = self._clock.monotonic()
        if whole:
            self._due = ended + self._period
            busy = plan.pending or plan.groups or plan.evictions or parts.statuses.busy
            self._settled = -1 if busy else parts.feed.changes
        self._earliest = ended + int((ended - started) * REST)
        return plan

    async def _carry_out(self, plan: Plan) -> None:
        deeds, promises, tasks = self._parts.deeds, self._parts.promises, self._parts.feed.state.tasks
        claims: defaultdict[str, list[str]] = defaultdict(list)
        for nomination in plan.nominations:
            claims[tasks[nomination.pod].group].append(nomination.pod)
        promises.after(plan)
        for eviction in plan.evictions:
            pods = claims.get(eviction.by)
            deeds.evict(eviction, partial(promises.kept, {pod: tasks[pod].uid for pod in pods}) if pods else None)
        for number, bind in enumerate(plan.binds, 1):
            deeds.bind(bind)
            if number % TOGETHER == 0:
                await asyncio.sleep(0)

    # --- waiting

    async def _wait(self) -> None:
        """Wait until a cycle is due, or stirred and permitted."""
        stirred = await self._stirred_within(self._due - self._clock.monotonic())
        if stirred:
            now = self._clock.monotonic()
            pause = min(max(self._earliest, now + GATHER), max(self._due, now)) - now
            await self._clock.sleep(pause / SECOND)

    async def _stirred_within(self, time: int) -> bool:
        """Whether something stirs within some microseconds; returns at once if so."""
        if self._stirred.is_set() or time <= 0:
            return time > 0
        sleeping = asyncio.ensure_future(self._clock.sleep(time / SECOND))
        stirring = asyncio.ensure_future(self._stirred.wait())
        try:
            await asyncio.wait({sleeping, stirring}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stirring.cancel()
        return self._stirred.is_set()

    # --- saying what is wrong

    def _say_reading(self, reading: Reading | None) -> None:
        """Tell of the configuration file, which was read."""
        if reading is None:
            return
        for warning in reading.warnings:
            log.warning("configuration: %s", warning)
        self._parts.figures.configured(good=not reading.fault)
        about = self._queue(ROOT_QUEUE)
        if reading.fault:
            log.error("configuration: not used, the last good one stays: %s", reading.fault)
            message = f"the scheduler's configuration file is not used, the last good one stays: {reading.fault}"
            self._parts.record(Record(about, "Warning", "ConfigurationRefused", message))
        elif self.cycles:
            log.info("configuration: read again")
            message = "the scheduler uses its changed configuration file"
            self._parts.record(Record(about, "Normal", "ConfigurationLoaded", message))

    def _say(self, plan: Plan) -> None:
        """Tell of findings, of objects that cannot be used, and of queues with faults, once each."""
        findings = frozenset(str(finding) for finding in plan.findings)
        for text in sorted(findings - self._findings):
            log.warning("%s", text)
        self._findings = findings
        faults = self._left_out()
        if faults or self._faults:
            self._say_faults(faults)
        for name, queue in plan.queues.items():
            if queue.conditions != self._conditions.get(name, ()):
                self._conditions[name] = queue.conditions
                for condition in queue.conditions:
                    self._parts.record(Record(self._queue(name), "Warning", condition.reason, condition.message))

    def _queue(self, name: str) -> dict[str, object]:
        """A queue as events refer to it; with its uid, by which `kubectl describe` finds them."""
        known = self._parts.feed.queues.get(name)
        return reference("Queue", name, (known and known.metadata.uid) or "")

    def _left_out(self) -> Mapping[tuple[str, str], Fault]:
        """Objects that are left out: those that cannot be read, and HyperNodes that contradict each other."""
        feed = self._parts.feed
        if not feed.domains:
            return feed.faults
        contradictions = {
            ("HyperNode", name): Fault("HyperNode", name, feed.domains.get(name, ""), why)
            for name, why in feed.state.hypernodes.faults.items()
        }
        return {**feed.faults, **contradictions}

    def _say_faults(self, faults: Mapping[tuple[str, str], Fault]) -> None:
        for name, fault in sorted(faults.items()):
            if self._faults.get(name) != fault.message:
                log.warning("%s %s is left out: %s", fault.kind, fault.key, fault.message)
                about = reference(fault.kind, fault.key, fault.uid)
                self._parts.record(
                    Record(about, "Warning", "InvalidObject", f"left out of scheduling: {fault.message}")
                )
        self._faults = {name: fault.message for name, fault in faults.items()}
