"""Reasons why pod groups wait, for their conditions and events.

The engine's condition counts the tasks of the gang, in Volcano's words, and ends with one reason. Here that reason is
the most binding one of all pods of the group, with its numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kilauea.engine.explain.formatting import in_words
from kilauea.engine.explain.group import binding_reasons, refusal_with_hint, with_hints
from kilauea.engine.plan import Condition, GroupOutcome, Pending, Plan
from kilauea.engine.state import ClusterState

UNSCHEDULABLE = "Unschedulable"
Hinted = Callable[[Pending], Pending]
"""Adds details to a reason."""


def outcomes(plan: Plan, state: ClusterState) -> dict[str, GroupOutcome]:
    """Return the outcomes of pod groups; conditions of those that wait state the most binding reason."""
    reasons, hinted = binding_reasons(plan), with_hints(state, plan)
    return {key: _told(outcome, reasons.get(key), state, hinted) for key, outcome in plan.groups.items()}


def _told(outcome: GroupOutcome, reason: Pending | None, state: ClusterState, hinted: Hinted) -> GroupOutcome:
    condition, refusal = outcome.condition, outcome.refusal
    if condition is None and refusal is not None and reason is None:
        # Its pods are created once it is admitted, so no pod shows the reason.
        condition = Condition(UNSCHEDULABLE, refusal.code, in_words(refusal_with_hint(refusal, state)))
    elif condition is not None and condition.type == UNSCHEDULABLE and reason is not None:
        message = _with(condition.message, reason, hinted)
        condition = dataclasses.replace(condition, message=message)
    return outcome if condition is outcome.condition else dataclasses.replace(outcome, condition=condition)


def _with(sentence: str, reason: Pending, hinted: Hinted) -> str:
    """A sentence about a gang with the full reason of one of its pods; it replaces a shorter one."""
    words = in_words(hinted(reason))
    if reason.message in sentence:
        return sentence.replace(reason.message, words, 1)
    return f"{sentence.removesuffix('.')}. It waits because: {words}"


def waiting_reason(outcome: GroupOutcome) -> tuple[str, str] | None:
    """Return reason and message of the event about a group that waits; None if it does not wait."""
    condition, refusal = outcome.condition, outcome.refusal
    if condition is not None and condition.type != "Scheduled":
        at_the_door = refusal is not None and condition.reason == refusal.code
        return condition.reason if at_the_door else condition.type, condition.message
    if refusal is not None and condition is None:
        return refusal.code, in_words(refusal)
    return None
