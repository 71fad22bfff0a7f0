"""Explanations of a pod group in a scenario: its queue, evictions and the smallest change that would start it."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from kilauea.api.unserved import left_to
from kilauea.engine.explain.group import RULES, Blocker, Change, Explanation, explain
from kilauea.engine.explain.queue_position import ahead
from kilauea.engine.explain.queues import with_queues
from kilauea.engine.explain.replay import replay
from kilauea.engine.extension import PluginFault
from kilauea.engine.plan import Plan
from kilauea.simulator.what_if import WhatIf

if TYPE_CHECKING:
    from kilauea.simulator.scenario import NotCreated, Result, Scenario

PLACING = frozenset({"enqueue", "allocate", "backfill"})
"""Actions that evict no pods."""


def explain_group(result: Result, key: str) -> Explanation:
    """Explain a pod group (`namespace/name`).

    A service is not in a queue, so the explanation has only its own reasons.
    """
    explanation = explain(result.plan, result.state, key)
    scenario = _without_failed(result)
    service = key in result.state.jobs and result.state.jobs[key].service
    if explanation.verdict in ("waits", "starts in part") and not service:
        explanation = _with_turn(explanation, result, scenario)
        explanation = _with_queues(explanation, result, scenario)
    if key in result.elsewhere:
        return _unserved(explanation, result)
    missing = result.not_created.get(key)
    if missing is not None:
        return without_pods(explanation, missing)
    if explanation.verdict in ("waits", "starts in part") and not explanation.nominated and not service:
        trial = functools.partial(scenario.decide, brief=True)
        evicting = not PLACING.issuperset(scenario.conf.actions)
        what_if = WhatIf(result.objects, result.state, trial, key, result.plan, evicting=evicting)
        explanation = dataclasses.replace(explanation, change=what_if.smallest(explanation))
    return explanation


def _without_failed(result: Result) -> Scenario:
    """Return the scenario without plugins and actions that failed: they would fail again, and slowly, in each trial."""
    conf = result.scenario.conf
    for finding in result.plan.findings:
        kind, _, name = finding.where.partition(" ")
        if finding.error and kind in ("plugin", "action"):
            conf = conf.without(**{kind: name})
    return dataclasses.replace(result.scenario, conf=conf)


def _unserved(explanation: Explanation, result: Result) -> Explanation:
    """Explain a group whose pods name another scheduler."""
    scheduler, count = result.elsewhere[explanation.group]
    code, message = "NoScheduler", left_to(scheduler, result.state.scheduler_names)
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, count)
    change = Change("scheduler", scheduler, "", 1)
    return dataclasses.replace(explanation, verdict="waits", blockers=(blocker,), change=change)


def without_pods(explanation: Explanation, missing: NotCreated) -> Explanation:
    """Explain a group with pods that cannot be created: that comes before every other reason."""
    code, message = "PodsNotCreated", missing.message
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, missing.pods)
    others = tuple(b for b in explanation.blockers if not b.code.startswith("NotEnough"))
    verdict = "waits" if explanation.verdict == "waits" else "starts in part"
    return dataclasses.replace(
        explanation, verdict=verdict, blockers=(blocker, *others), change=missing.change, stated=not missing.change
    )


def _with_turn(explanation: Explanation, result: Result, scenario: Scenario) -> Explanation:
    """Add the groups ahead of it; nothing if a plugin fails."""
    job = result.state.jobs[explanation.group]
    plugins = scenario.extensions.plugins
    try:
        with (
            scenario.extensions.watched() as dog,
            replay(
                result.state,
                scenario.conf,
                scenario.now,
                scenario.seed,
                Plan(),
                plugins=plugins,
                watchdog=dog,
                outside=scenario.extensions.outside,
            ) as session,
        ):
            return dataclasses.replace(explanation, ahead=ahead(session, result.plan, job))
    except PluginFault:
        return explanation


def _with_queues(explanation: Explanation, result: Result, scenario: Scenario) -> Explanation:
    """Add queues and evictions; nothing if a plugin fails."""
    plugins = scenario.extensions.plugins
    try:
        with (
            scenario.extensions.watched() as dog,
            replay(
                result.state,
                scenario.conf,
                scenario.now,
                scenario.seed,
                result.plan,
                plugins=plugins,
                watchdog=dog,
                outside=scenario.extensions.outside,
            ) as session,
        ):
            return with_queues(explanation, result.plan, session)
    except PluginFault:
        return explanation
