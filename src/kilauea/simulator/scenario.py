"""A cluster, a scheduler and a time, with the plan of one or several cycles and its explanation.

    scenario = Scenario(objects, conf, now)
    result = scenario.plan(cycles=10)
    result.explain("namespace/group")

`kilauea plan`, `explain` and `queues` are scenarios over files or over a snapshot of a live cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed, Measured
from kilauea.engine.explain.group import Change, Explanation
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.model.kubernetes_groups import named_group
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.model.shards import Sharding
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.explaining import explain_group
from kilauea.simulator.extensions import BUILT_IN, Extensions

ENDED = ("Succeeded", "Failed")
"""Phases of pods that need no scheduler."""


class NotCreated(NamedTuple):
    """Pods of a group that the API server would refuse to create.

    Attributes:
        pods: number of pods.
        message: the reason of the server or the controller, and the fix.
        change: the smallest change by which they are created; None if the message states it.
    """

    pods: int
    message: str
    change: Change | None = None


class Unserved(NamedTuple):
    """The name of a scheduler that is not simulated, and the number of its pods."""

    scheduler: str
    pods: int


@dataclass(frozen=True)
class Step:
    """One of several cycles.

    Attributes:
        plan: binds, nominations and evictions; reasons are kept of the last cycle only.
        quiet: True if nothing changed and no pod is terminating, so the next cycle sees the same cluster.
    """

    plan: Plan
    quiet: bool


@dataclass(frozen=True)
class Scenario:
    """A cluster at a time, and its scheduler.

    Attributes:
        objects: the objects of the cluster.
        conf: the scheduler's configuration.
        now: the time of the first cycle, in microseconds since 1970.
        seed: breaks ties between equally good nodes; None selects the first in order.
        extensions: plugins and actions.
        schedulers: names of the schedulers that are simulated.
        submitted: pod groups (`namespace/name`) that files add to a live cluster.
        not_created: pods that are not created, by pod group.
        warnings: what was found when the objects were read.
        sharding: the part of the cluster that the scheduler works on.
        loads: the loads of nodes, as a monitoring system has them; empty for those of NodeMetrics.
    """

    objects: Sequence[Object]
    conf: SchedulerConf
    now: int
    seed: int | None = None
    extensions: Extensions = BUILT_IN
    schedulers: Sequence[str] = wellknown.ALL_SCHEDULERS
    submitted: tuple[str, ...] = ()
    not_created: Mapping[str, NotCreated] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sharding: Sharding = field(default_factory=Sharding)
    loads: Mapping[str, NodeLoad] = field(default_factory=dict)

    def state(self) -> ClusterState:
        """Return the state of the cluster, ready for a cycle."""
        state = build_state(self.objects, self.schedulers, self.sharding)
        if self.loads:
            state.apply(Measured(self.loads))
        return state

    def decide(
        self, state: ClusterState, *, now: int = 0, brief: bool = False, backoff: AdmissionBackoff = NO_BACKOFF
    ) -> Plan:
        """Return the plan of one cycle.

        Args:
            state: the cluster; it is not changed.
            now: time of the cycle; 0 for that of the scenario.
            brief: leave out reasons.
            backoff: groups whose admission is backed off.
        """
        extensions = self.extensions
        with extensions.watched() as watchdog:
            return cycle(
                state,
                self.conf,
                now or self.now,
                self.seed,
                plugins=extensions.plugins,
                actions=extensions.actions,
                watchdog=watchdog,
                brief=brief,
                backoff=backoff,
                outside=extensions.outside,
            )

    def plan(self, cycles: int = 1, timer: Callable[[], float] = lambda: 0.0, *, until_rest: bool = False) -> Result:
        """Return the plan of the last of some cycles, a second apart; `SimulatedCluster` carries out the others.

        Args:
            cycles: number of cycles.
            timer: a monotonic clock in seconds, to measure the last cycle.
            until_rest: stop after the first cycle that changes nothing while no pod is terminating.
        """
        state = self.state()
        simulated = SimulatedCluster(self.objects, self.now)
        backoff = NO_BACKOFF
        steps: list[Step] = []
        while True:
            now, objects, started = simulated.now, simulated.objects, timer()
            plan = self.decide(state, now=now, backoff=backoff.at(now - self.now))
            seconds = timer() - started
            backoff = plan.backoff or backoff
            events = simulated.carry_out(plan)
            decided = Plan(plan.binds, plan.nominations, plan.evictions)
            steps.append(Step(decided, quiet=not events and simulated.settled))
            if len(steps) == cycles or (until_rest and steps[-1].quiet):
                last = dataclasses.replace(self, objects=objects, now=now)
                return Result(last, plan, state, seconds, tuple(steps), unserved(objects, state.scheduler_names))
            for event in events:
                state.apply(event)


@dataclass(frozen=True)
class Result:
    """The plan of a scenario.

    Attributes:
        scenario: the scenario at its last cycle, with the objects and the time of that cycle.
        plan: the plan of that cycle.
        state: the state of the cluster in that cycle.
        cycle_seconds: duration of that cycle.
        steps: all cycles, the last included.
        elsewhere: pods of schedulers that are not simulated, by pod group, or by pod without a group.
    """

    scenario: Scenario
    plan: Plan
    state: ClusterState
    cycle_seconds: float = 0.0
    steps: tuple[Step, ...] = ()
    elsewhere: Mapping[str, Unserved] = field(default_factory=dict)

    @property
    def objects(self) -> Sequence[Object]:
        """The objects of the state."""
        return self.scenario.objects

    @property
    def submitted(self) -> tuple[str, ...]:
        """Pod groups that files add to a live cluster."""
        return self.scenario.submitted

    @property
    def not_created(self) -> Mapping[str, NotCreated]:
        """Pods that are not created, by pod group."""
        return self.scenario.not_created

    @property
    def now(self) -> int:
        """The time of the plan."""
        return self.scenario.now

    @property
    def problems(self) -> tuple[str, ...]:
        """Objects that the state rejected, with the reason."""
        problems = self.state.problems.values()
        return tuple(f"{problem.kind} {problem.key}: {problem.message}; left out" for problem in problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about objects, about the configuration, and about plugins and actions that failed in the cycle."""
        findings = dict.fromkeys(map(str, (*self.scenario.conf.findings, *self.plan.findings)))
        return (*self.scenario.extensions.warnings, *self.scenario.warnings, *self.problems, *findings)

    @property
    def at_rest_after(self) -> int | None:
        """The last cycle that changed something, counted from 1; None if the cluster has not come to rest."""
        if not self.steps or not self.steps[-1].quiet:
            return None
        return max((number for number, step in enumerate(self.steps, 1) if not step.quiet), default=0)

    def explain(self, key: str) -> Explanation:
        """Explain why a pod group (`namespace/name`) waits, with the smallest change that would start it."""
        return explain_group(self, key)


def build_state(
    objects: Iterable[Object],
    schedulers: Iterable[str] = wellknown.ALL_SCHEDULERS,
    sharding: Sharding | None = None,
) -> ClusterState:
    """Return the state of a cluster, ready for a cycle that serves these scheduler names on its shard."""
    state = ClusterState(scheduler_names=schedulers, sharding=sharding)
    for obj in objects:
        state.apply(Changed(obj))
    state.settle()
    return state


def unserved(objects: Iterable[Object], served: Collection[str]) -> dict[str, Unserved]:
    """Return the pods that wait for a scheduler which is not simulated, by pod group."""
    out: dict[str, Unserved] = {}
    for pod in (obj for obj in objects if isinstance(obj, Pod)):
        scheduler, ended = pod.spec.scheduler_name, pod.status is not None and pod.status.phase in ENDED
        if scheduler and scheduler not in served and not pod.spec.node_name and not ended:
            key = named_group(pod) or pod.key
            out[key] = Unserved(scheduler, out[key].pods + 1 if key in out else 1)
    return out
