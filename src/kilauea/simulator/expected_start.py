"""The expected start of a waiting group: the engine is simulated into the future, and pods end after their run times.

    found = expected_start(scenario, "default/train", forecast)

The cluster is that of the scenario. Every second with a change has a cycle of the scheduler; in between, time advances
to the next end of a pod. If all run times are correct and nothing else is submitted, the group starts exactly then: it
is the same engine with the same configuration.

If run times are only known as a range, several simulations are run, each with different, equally likely run times. The
start is the median of their starts, and eight of ten are in the range. That differs from the start with median run
times: a group that waits for any of many jobs starts when the first one ends.

Pods that would be created later (by a Kubernetes Job with more completions than pods, or by a job flow) are not
predicted.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist
from typing import Literal, NamedTuple

import msgspec

from kilauea.api.core import Pod, PodStatus
from kilauea.api.dynamic import ResourceClaim
from kilauea.api.times import SECOND, parse_time
from kilauea.engine.events import Event
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.claims import released
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.scenario import ENDED, Scenario

PLAYS = 20
"""Number of simulations with different run times, besides the one with median run times."""
COMMON = 0.5
"""Fraction of the variance of run times that is common to all groups of a simulation."""
MOST_CYCLES = 3000
"""Number of cycles after which the start is too far away to be predicted."""
ALL_CYCLES = 9000
"""Number of cycles of all simulations, after which no further one starts."""
_NORMAL = NormalDist()
OVERDUE = SECOND
"""Microseconds until a pod ends whose expected run time is over."""


class Forecast(NamedTuple):
    """The run time of a pod from its bind, in microseconds.

    Attributes:
        earliest: it is unlikely to end before.
        likely: its likely end.
        latest: it is unlikely to end after.
        source: the source of the forecast, in words.
        times: equally likely run times, the shortest first; empty if only the three above are known.
    """

    earliest: int
    likely: int
    latest: int
    source: str
    times: tuple[int, ...] = ()

    def at(self, part: float) -> int:
        """The run time within which this fraction of such pods ends, between 0 and 1."""
        times = self.times or (self.earliest, self.likely, self.likely, self.latest)
        return times[min(len(times) - 1, int(part * len(times)))]


Forecasts = Callable[[Pod, int | None], Forecast | None]
"""Returns the forecast for a pod, given its run time so far (None before it starts); None if nothing is known."""


class Freed(NamedTuple):
    """A group that ends before the start.

    Attributes:
        group: the pod group, as `namespace/name`, or the pod if it has none.
        end: end of its last pod, in microseconds since 1970.
        source: the source of its run time.
    """

    group: str
    end: int
    source: str


@dataclass(frozen=True)
class ExpectedStart:
    """The expected start of a group.

    Attributes:
        verdict: `starts`; `unknown` if it waits for pods whose end is unknown; `never` if it does not start even when
            everything has ended; `far` if finding out takes too long.
        time: the likely start, in microseconds since 1970; None without a start.
        earliest: the start if pods end early.
        latest: the start if they end late; None if unknown.
        freed: groups that end before and release resources, the last one first.
        unknown: running groups whose end is unknown.
    """

    verdict: Literal["starts", "unknown", "never", "far"]
    time: int | None = None
    earliest: int | None = None
    latest: int | None = None
    freed: tuple[Freed, ...] = ()
    unknown: tuple[str, ...] = ()


def expected_start(
    scenario: Scenario, group: str, forecasts: Forecasts, enough: Callable[[], bool] = lambda: False
) -> ExpectedStart:
    """Return the expected start of a group.

    Args:
        scenario: the cluster, with its configuration and the time.
        group: the pod group, as `namespace/name`.
        forecasts: forecasts of the run times of pods.
        enough: returns True when the search must stop.
    """
    likely = _Play(scenario, group, forecasts, None, enough).run()
    if not likely.uncertain:
        return likely.result(likely.time, likely.time)
    plays = [likely]
    cycles = likely.cycles
    for number in range(PLAYS):
        play = _Play(scenario, group, forecasts, number, enough).run()
        cycles += play.cycles
        if play.cut or cycles > ALL_CYCLES:
            break
        plays.append(play)
    plays.sort(key=lambda play: math.inf if play.time is None else play.time)
    early, middle, late = (plays[int(part * len(plays))] for part in (0.1, 0.5, 0.9))
    return middle.result(early.time, late.time)


@lru_cache(maxsize=4096)
def _parts(group: str) -> tuple[float, ...]:
    """The quantiles of a group's run times, from 0 to 1, for each simulation.

    Run times of concurrent jobs are not independent: many share properties that the history does not know. So a part of
    the variance is common to all groups of a simulation (a Gaussian copula), and the rest is independent.
    """
    both = zip(_normal(""), _normal(group), strict=True)
    return tuple(_NORMAL.cdf(math.sqrt(COMMON) * shared + math.sqrt(1 - COMMON) * own) for shared, own in both)


def _normal(name: str) -> list[float]:
    """Values of a normal distribution, one for each simulation, stratified over the distribution."""
    return [_NORMAL.inv_cdf((place + 0.5) / PLAYS) for place in _order(name)]


def _order(name: str) -> list[int]:
    """The simulations in a different order for each name."""
    return sorted(range(PLAYS), key=lambda play: blake2b(f"{name} {play}".encode(), digest_size=8).digest())


@dataclass
class _Play:
    """One simulation: number `which` of those with different run times, or the one with the likely ones."""

    scenario: Scenario
    group: str
    forecasts: Forecasts
    which: int | None
    enough: Callable[[], bool]
    time: int | None = None
    uncertain: bool = False
    cut: bool = False
    """True if the search was stopped."""
    cycles: int = 0
    _verdict: Literal["starts", "unknown", "never", "far"] = "far"
    _ends: list[tuple[int, str, str]] = field(default_factory=list)
    """A heap of ends: time, pod and uid."""
    _unknown: dict[str, str] = field(default_factory=dict)
    """Groups of running pods without a known end, by pod."""
    _freed: dict[str, Freed] = field(default_factory=dict)
    _sources: dict[str, str] = field(default_factory=dict)

    def run(self) -> _Play:
        """Simulate until the group starts, or nothing more happens."""
        scenario = self.scenario
        state, cluster = scenario.state(), SimulatedCluster(scenario.objects, scenario.now)
        for obj in scenario.objects:
            if isinstance(obj, Pod) and obj.spec.node_name and not _has_ended(obj):
                bound = _bound(obj, scenario.now)
                self._expect(obj, bound, scenario.now, state)
        backoff = NO_BACKOFF
        for _ in range(MOST_CYCLES):
            if self.enough():
                self.cut = True
                return self
            self.cycles += 1
            now = cluster.now
            plan = scenario.decide(state, now=now, brief=True, backoff=backoff.at(now - scenario.now))
            backoff = plan.backoff or backoff
            if self._starts(plan, state):
                self.time, self._verdict = now, "starts"
                return self
            groups = {bind.pod: state.tasks[bind.pod].group for bind in plan.binds}
            events = cluster.carry_out(plan)
            for event in events:
                state.apply(event)
            for pod in groups:
                found = cluster.pod(pod)
                if found is not None:
                    self._expect(found, now, None, state)
            rest = not events and cluster.settled
            if rest and not self._ends:
                self._verdict = "unknown" if self._unknown else "never"
                return self
            if rest:
                cluster.now = max(cluster.now, self._ends[0][0])
            for change in self._complete(cluster, state):
                state.apply(change)
        return self

    def result(self, earliest: int | None, latest: int | None) -> ExpectedStart:
        """The result of the simulation."""
        freed = sorted(self._freed.values(), key=lambda each: (-each.end, each.group))
        unknown = tuple(sorted(set(self._unknown.values())))
        return ExpectedStart(self._verdict, self.time, earliest, latest, tuple(freed), unknown)

    def _starts(self, plan: Plan, state: ClusterState) -> bool:
        return any(state.tasks[bind.pod].group == self.group for bind in plan.binds)

    def _expect(self, pod: Pod, bound: int, now: int | None, state: ClusterState) -> None:
        """Record the end of a pod.

        Args:
            pod: the pod.
            bound: time of its bind.
            now: the current time if it already runs; None if it is bound in this simulation.
            state: the cluster.
        """
        found = self.forecasts(pod, None if now is None else max(0, now - bound))
        task = state.tasks.get(pod.key)
        group = task.group if task is not None and task.group else pod.key
        if found is None:
            self._unknown[pod.key] = group
            return
        self._unknown.pop(pod.key, None)
        self.uncertain |= found.earliest != found.latest
        self._sources[pod.key] = found.source
        number = self.which
        end = bound + (found.likely if number is None else found.at(_parts(group)[number]))
        if now is not None:
            end = max(end, now + OVERDUE)
        heapq.heappush(self._ends, (end, pod.key, pod.metadata.uid or ""))

    def _complete(self, cluster: SimulatedCluster, state: ClusterState) -> list[Event]:
        """End the pods whose time has come; evicted and recreated pods are others."""
        events: list[Event] = []
        while self._ends and self._ends[0][0] <= cluster.now:
            end, key, uid = heapq.heappop(self._ends)
            pod = cluster.pod(key)
            if (
                pod is None
                or (pod.metadata.uid or "") != uid
                or not pod.spec.node_name
                or pod.metadata.deletion_timestamp
            ):
                continue
            task = state.tasks.get(key)
            group = task.group if task is not None and task.group else key
            self._freed[group] = Freed(group, end, self._sources[key])
            events += cluster.put(msgspec.structs.replace(pod, status=PodStatus(phase="Succeeded")))
            if pod.spec.resource_claims:
                claims = [obj for obj in cluster.objects if isinstance(obj, ResourceClaim)]
                events += cluster.put(*released(claims, pod))
        return events


def _has_ended(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in ENDED


def _bound(pod: Pod, now: int) -> int:
    """The time at which a pod was bound, from its condition, or else its creation time."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    times = [each.last_transition_time for each in conditions if each.type == "PodScheduled" and each.status == "True"]
    for text in (*times, pod.metadata.creation_timestamp):
        if text:
            return min(parse_time(text), now)
    return now
