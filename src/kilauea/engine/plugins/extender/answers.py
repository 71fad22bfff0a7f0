"""Responses of an extender, validated carefully, because they come from another program."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kilauea.engine.extension import ABSTAIN, PERMIT, REJECT

SHOWN = 200
"""Maximum number of characters of a text in messages."""
LARGEST = float(1 << 53)
"""Larger scores are refused: sums would not be exact."""
UNSCHEDULABLE = 2
"""Code of a predicate that evictions may help with."""


class Malformed(ValueError):
    """A reply does not have the form of the protocol."""


class Verdict(NamedTuple):
    """The verdict of an extender on a task on a node."""

    reason: str = ""
    """The reason why the node is rejected; empty if it fits."""
    hopeless: bool = False
    """True if evictions would not help."""


FITS = Verdict()


def shown(text: str) -> str:
    """A text of another program on one line, truncated if it is long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * SHOWN]).split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


def _field(body: Any, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """A field of a reply; its default if missing or null."""
    if not isinstance(body, dict):
        raise Malformed("it is not a JSON object")
    value = body.get(name)
    if value is None:
        return default
    allowed = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in allowed):
        raise Malformed(f"{name} is {shown(repr(value))}")
    return value


def verdict_of(body: Any) -> Verdict:
    """Read the reply to predicate."""
    text, code = _field(body, "status", str, ""), _field(body, "code", int, 0)
    return Verdict(shown(text), code != UNSCHEDULABLE) if text else FITS


def scores_of(body: Any) -> dict[str, float]:
    """Read the reply to prioritize: scores by node."""
    problem = _field(body, "errorMessage", str, "")
    scores = _field(body, "nodeScore", dict, None)
    if problem or scores is None:
        raise Malformed(f"it says {shown(problem)!r}" if problem else "nodeScore is missing")
    for name, score in scores.items():
        number = isinstance(score, (int, float)) and not isinstance(score, bool)
        if not number or not math.isfinite(score) or abs(score) > LARGEST:
            raise Malformed(f"the score of node {shown(name)} is {shown(repr(score))}")
    return {name: float(score) for name, score in scores.items()}


def vote_of(body: Any) -> int:
    """Read a vote; abstain if missing."""
    vote: int = _field(body, "status", int, ABSTAIN)
    if vote not in (PERMIT, ABSTAIN, REJECT):
        raise Malformed(f"status is {vote}, not 1, 0 or -1")
    return vote


def victims_of(body: Any) -> tuple[set[str], int]:
    """Read the reply to preemptable and reclaimable: UIDs of the victims, and a vote."""
    victims = _field(body, "victims", list, [])
    return {_field(victim, "UID", str, "") for victim in victims}, vote_of(body)


def flag_of(body: Any, name: str) -> bool:
    """Read a flag; False if missing."""
    flag: bool = _field(body, name, bool, False)
    return flag


def problem_of(body: Any) -> str:
    """Read the reply to allocateFunc and deallocateFunc: the problem; empty without one."""
    return shown(_field(body, "errorMessage", str, ""))
