"""Desired status of a pod group: phase, conditions, and counts of running and ended pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.scheduling import PodGroup, PodGroupCondition, PodGroupStatus
from kilauea.api.unserved import NO_SCHEDULER
from kilauea.engine.model import status
from kilauea.engine.model.jobs import INQUEUE
from kilauea.engine.plan import Condition, GroupOutcome
from kilauea.engine.queues.faults.fault import IGNORED

NOT_ENOUGH = "NotEnoughResources"
OPPOSITES = {"Scheduled": "Unschedulable", "Unschedulable": "Scheduled"}
"""Conditions that exclude each other, so that readers do not have to guess which is newer."""


class Content(NamedTuple):
    """The content of a status: two with the same content need no write."""

    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[tuple[str, str, str, str], ...]
    """Type, status, reason and message of each."""


def content_of(found: PodGroupStatus | None) -> Content:
    """The content of a status in the API."""
    found = found or PodGroupStatus()
    conditions = tuple((c.type, c.status, c.reason or "", c.message or "") for c in found.conditions or ())
    return Content(found.phase or "", found.running or 0, found.succeeded or 0, found.failed or 0, conditions)


def says_unschedulable(found: PodGroupStatus | None) -> bool:
    """True if a status shows that the group waits for resources."""
    return found is not None and any(c.type == "Unschedulable" and c.status == "True" for c in found.conditions or ())


def wanted(group: PodGroup, counts: Sequence[int], phase: str, outcome: GroupOutcome | None) -> Content:
    """The content that a pod group's status should have.

    Args:
        group: as the API has it.
        counts: its number of pods by status.
        phase: its phase, possibly assumed.
        outcome: its outcome in the last cycle, if any.
    """
    known = content_of(group.status)
    conditions = known.conditions
    if outcome is not None and outcome.condition is not None:
        conditions = _with(conditions, outcome.condition)
    elif outcome is not None and outcome.phase == INQUEUE:
        conditions = tuple(map(_admitted, conditions))
    if outcome is not None and outcome.ignored is not None:
        conditions = _with(conditions, outcome.ignored)
    elif outcome is not None:
        conditions = tuple((c[0], "False", *c[2:]) if c[0] == IGNORED else c for c in conditions)
    running, succeeded, failed = (counts[state] for state in (status.RUNNING, status.SUCCEEDED, status.FAILED))
    return Content(outcome.phase if outcome is not None else phase, running, succeeded, failed, conditions)


def _admitted(condition: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
    """The condition of an admitted group: its reason for waiting is no longer true."""
    kept_out = condition[0] == "Unschedulable" and condition[2] != NOT_ENOUGH
    return (condition[0], "False", *condition[2:]) if kept_out else condition


def _with(conditions: tuple[tuple[str, str, str, str], ...], new: Condition) -> tuple[tuple[str, str, str, str], ...]:
    """The conditions with one set to true, in its old place if it has one, and its opposite set to false."""
    entry = (new.type, "True", new.reason, new.message)
    over = {OPPOSITES.get(new.type, ""), NO_SCHEDULER if new.type == "Scheduled" else ""}
    out = [
        entry if known[0] == new.type else (known[0], "False", *known[2:]) if known[0] in over else known
        for known in conditions
    ]
    if all(known[0] != new.type for known in conditions):
        out.append(entry)
    return tuple(out)


def patch_of(group: PodGroup, content: Content, cycle: str, now: str) -> Mapping[str, Any]:
    """The merge patch that writes the content to this pod group, but not to a later one of the same name.

    Args:
        group: the stored pod group; unchanged conditions keep their times.
        content: the content to write.
        cycle: name of the cycle, for the `transitionID` of changed conditions.
        now: the time, RFC 3339.
    """
    known = {c.type: c for c in (group.status.conditions if group.status else None) or ()}
    conditions = [_condition(entry, known.get(entry[0]), cycle, now) for entry in content.conditions]
    figures = {"running": content.running, "succeeded": content.succeeded, "failed": content.failed}
    counts = {name: count or None for name, count in figures.items()}
    status = {"phase": content.phase, "conditions": conditions or None, **counts}
    return {"metadata": {"uid": group.metadata.uid}, "status": status} if group.metadata.uid else {"status": status}


def _condition(
    entry: tuple[str, str, str, str], known: PodGroupCondition | None, cycle: str, now: str
) -> dict[str, str]:
    type_, state, reason, message = entry
    same_state = known is not None and known.status == state
    same = same_state and known is not None and (known.reason or "", known.message or "") == (reason, message)
    since = known.last_transition_time if same_state and known is not None else None
    transition = known.transition_id if same and known is not None else None
    out = {"type": type_, "status": state, "lastTransitionTime": since or now, "transitionID": transition or cycle}
    return out | {name: text for name, text in (("reason", reason), ("message", message)) if text}
