"""The smallest change that lets a waiting group start, in one sentence: for events and for `vcctl job view`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kilauea.api.meta import Object
    from kilauea.engine.explain.group import Change, Explanation

NO_CHANGE = "no single change of a queue, a quota, its pods, its minimum, another job or nodes admits it"
FEWER_OF_OTHERS = "one job fewer in another namespace; `kilauea explain` names it to those who may list all jobs"
NOMINATED = "nothing has to change: it starts when the resources nominated to it are free"


def heading(explanation: Explanation) -> str:
    """The words before the change: what it does for the group."""
    gain = "lets another pod start" if explanation.verdict == "starts in part" else "admits it"
    return f"Smallest change that {gain}"


def remedy(explanation: Explanation, objects: Sequence[Object]) -> str:
    """The change as a sentence; empty if the reason already says it, or if nothing waits."""
    from kilauea.cli.explain_output import sentence
    from kilauea.cli.group_names import owners_of

    if explanation.change is not None:
        return sentence(explanation.change, owners_of(objects))
    if explanation.nominated:
        return NOMINATED
    return NO_CHANGE if explanation.verdict == "waits" and not explanation.stated else ""


def advice(explanation: Explanation, objects: Sequence[Object]) -> str:
    """The text for the event of a group that waits; empty if there is no advice."""
    change = explanation.change
    if change is None:
        return remedy(explanation, objects)
    found = FEWER_OF_OTHERS if _names_others(change, explanation.group) else remedy(explanation, objects)
    return f"{heading(explanation)}: {found}"


def _names_others(change: Change, group: str) -> bool:
    """Return True if a change names a job of another namespace: who reads events of this one may not know of it."""
    return change.what == "job" and change.object.partition("/")[0] != group.partition("/")[0]
