"""The plan of a scenario over one or several cycles, and its explanation.

result = plan_cycles(Scenario(objects, conf, now), cycles=10)
result.explain("namespace/group")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kilauea.api.meta import Object
from kilauea.engine.explain.group import Explanation
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.explaining import explain_group
from kilauea.simulator.scenario import NotCreated, Scenario, Unserved, unserved


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
        return explain_group(self.scenario, self.plan, self.state, key, self.elsewhere.get(key))


def plan_cycles(
    scenario: Scenario, cycles: int = 1, timer: Callable[[], float] = lambda: 0.0, *, until_rest: bool = False
) -> Result:
    """Return the plan of the last of some cycles, a second apart; `SimulatedCluster` carries out the others.

    Args:
        scenario: the cluster at the first of them.
        cycles: number of cycles.
        timer: a monotonic clock in seconds, to measure the last cycle.
        until_rest: stop after the first cycle that changes nothing while no pod is terminating.
    """
    state = scenario.state()
    simulated = SimulatedCluster(scenario.objects, scenario.now)
    backoff = NO_BACKOFF
    steps: list[Step] = []
    while True:
        now, objects, started = simulated.now, simulated.objects, timer()
        plan = scenario.decide(state, now=now, backoff=backoff.at(now - scenario.now))
        seconds = timer() - started
        backoff = plan.backoff or backoff
        events = simulated.carry_out(plan)
        decided = Plan(plan.binds, plan.nominations, plan.evictions)
        steps.append(Step(decided, quiet=not events and simulated.settled))
        if len(steps) == cycles or (until_rest and steps[-1].quiet):
            last = dataclasses.replace(scenario, objects=objects, now=now)
            return Result(last, plan, state, seconds, tuple(steps), unserved(objects, state.scheduler_names))
        for event in events:
            state.apply(event)
