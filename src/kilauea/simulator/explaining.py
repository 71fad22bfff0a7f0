"""Explanations of a pod group in a scenario: its queue, evictions and the smallest change that would start it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from contextlib import contextmanager

from kilauea.api.unserved import NO_SCHEDULER, left_to
from kilauea.engine.explain.group import RULES, Blocker, Change, Explanation, explain
from kilauea.engine.explain.queue_position import ahead
from kilauea.engine.explain.queues import with_queues
from kilauea.engine.explain.replay import replay
from kilauea.engine.extension import PluginFault
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from kilauea.simulator.scenario import NotCreated, Scenario, Unserved
from kilauea.simulator.what_if import WhatIf

PLACING = frozenset({"enqueue", "allocate", "backfill"})
"""Actions that evict no pods."""


def explain_group(
    scenario: Scenario, plan: Plan, state: ClusterState, key: str, elsewhere: Unserved | None = None
) -> Explanation:
    """Explain a pod group.

    A service is not in a queue, so the explanation has only its own reasons.

    Args:
        scenario: the scenario at the cycle of the plan.
        plan: the plan of that cycle.
        state: the state of the cluster in that cycle.
        key: the group (`namespace/name`).
        elsewhere: its pods, if they wait for a scheduler that is not simulated.
    """
    explanation = explain(plan, state, key)
    scenario = _without_failed(scenario, plan)
    service = key in state.jobs and state.jobs[key].service
    if explanation.verdict in ("waits", "starts in part") and not service:
        explanation = _with_turn(explanation, scenario, plan, state)
        explanation = _with_queues(explanation, scenario, plan, state)
    if elsewhere is not None:
        return _unserved(explanation, elsewhere, state)
    missing = scenario.not_created.get(key)
    if missing is not None:
        return without_pods(explanation, missing)
    if explanation.verdict in ("waits", "starts in part") and not explanation.nominated and not service:
        trial = functools.partial(scenario.decide, brief=True)
        evicting = not PLACING.issuperset(scenario.conf.actions)
        what_if = WhatIf(scenario.objects, state, trial, key, plan, evicting=evicting)
        explanation = dataclasses.replace(explanation, change=what_if.smallest(explanation))
    return explanation


def _without_failed(scenario: Scenario, plan: Plan) -> Scenario:
    """Return the scenario without plugins and actions that failed: they would fail again, and slowly, in each trial."""
    conf = scenario.conf
    for finding in plan.findings:
        kind, _, name = finding.where.partition(" ")
        if finding.error and kind in ("plugin", "action"):
            conf = conf.without(**{kind: name})
    return dataclasses.replace(scenario, conf=conf)


def _unserved(explanation: Explanation, elsewhere: Unserved, state: ClusterState) -> Explanation:
    """Explain a group whose pods name another scheduler."""
    scheduler, runs = elsewhere.scheduler, elsewhere.runs
    code, message = NO_SCHEDULER, left_to(scheduler, state.scheduler_names, runs=runs)
    if runs:
        code = "OtherScheduler"
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, elsewhere.pods)
    change = None if runs else Change("scheduler", scheduler, "", 1)
    return dataclasses.replace(explanation, verdict="waits", blockers=(blocker,), change=change, stated=runs)


def without_pods(explanation: Explanation, missing: NotCreated) -> Explanation:
    """Explain a group with pods that cannot be created: this precedes every other reason."""
    code, message = "PodsNotCreated", missing.message
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, missing.pods)
    others = tuple(b for b in explanation.blockers if not b.code.startswith("NotEnough"))
    verdict = "waits" if explanation.verdict == "waits" else "starts in part"
    return dataclasses.replace(
        explanation, verdict=verdict, blockers=(blocker, *others), change=missing.change, stated=not missing.change
    )


def _with_turn(explanation: Explanation, scenario: Scenario, plan: Plan, state: ClusterState) -> Explanation:
    """Add the groups ahead of it; nothing if a plugin fails."""
    job = state.jobs[explanation.group]
    try:
        with _session(scenario, state, Plan()) as session:  # with the order at the beginning of the cycle
            return dataclasses.replace(explanation, ahead=ahead(session, plan, job))
    except PluginFault:
        return explanation


def _with_queues(explanation: Explanation, scenario: Scenario, plan: Plan, state: ClusterState) -> Explanation:
    """Add queues and evictions; nothing if a plugin fails."""
    try:
        with _session(scenario, state, plan) as session:
            return with_queues(explanation, plan, session)
    except PluginFault:
        return explanation


@contextmanager
def _session(scenario: Scenario, state: ClusterState, plan: Plan) -> Iterator[Session]:
    """The session after the decisions of a plan.

    Raises:
        PluginFault: a plugin fails.
    """
    extensions = scenario.extensions
    with (
        extensions.watched() as watchdog,
        replay(
            state,
            scenario.conf,
            scenario.now,
            scenario.seed,
            plan,
            plugins=extensions.plugins,
            watchdog=watchdog,
            outside=extensions.outside,
        ) as session,
    ):
        yield session
