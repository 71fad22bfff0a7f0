"""The smallest change that lets a waiting group start, in one sentence: for events and for `vcctl job view`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kilauea.api.meta import Object
    from kilauea.engine.explain.group import Explanation

NO_CHANGE = "no single change of a queue, a quota, its pods, its minimum, another job or nodes admits it"
NOMINATED = "nothing has to change: it starts when the resources nominated to it are free"


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
    found = remedy(explanation, objects)
    return f"Smallest change that admits it: {found}" if explanation.change is not None else found
