"""Expensive work that becomes necessary during a request, and is done outside of it.

The code that needs it raises `Deferred`. The server runs the work in another process and repeats the request from the
start, as nothing is written before all checks. The second time, the answer is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Literal

import msgspec

from kilauea.apiserver.fields import forbidden_field
from kilauea.apiserver.status import Cause

KNOWN: ContextVar[dict[bytes, bytes] | None] = ContextVar("known", default=None)
"""The answers that the current request has waited for, by question."""
MOST_DEFERRED = 20
"""Maximum pieces of heavy work in one request."""
LIGHT_CHECK = 2_500
"""Characters of expressions that are checked at once, in about twenty milliseconds."""
DeferredTask = Literal["apply rules", "check", "compare rights"]


class Deferred(Exception):
    """The answer to a question must be computed in another process."""

    def __init__(self, question: bytes, task: DeferredTask) -> None:
        super().__init__("heavy work")
        self.question = question
        self.task = task


def has_answers() -> bool:
    """Return True if the current request has waited for an answer."""
    return bool(KNOWN.get())


def deferred(question: bytes, task: DeferredTask = "apply rules") -> bytes:
    """Return the answer to a question; empty if it takes too long.

    Raises:
        Deferred: it is not known yet.
    """
    known = KNOWN.get() or {}
    if question not in known:
        raise Deferred(question, task)
    return known[question]


def causes_of(
    name: str, check: Callable[..., Iterable[Cause]], *arguments: dict[str, Any] | None, weight: int
) -> list[Cause]:
    """Return the errors of a check; an expensive check runs in another process, from `heavy.CHECKS` by its name.

    Raises:
        Deferred: the check is expensive, and the answer is not known yet.
    """
    if weight <= LIGHT_CHECK:
        return list(check(*arguments))
    answer = deferred(msgspec.json.encode([name, arguments]), "check")
    if not answer:
        return [forbidden_field("spec", "it takes too long to check: use fewer or shorter expressions and schemas")]
    return decoded_causes(answer)


def encoded_causes(causes: Iterable[Cause]) -> bytes:
    """Encode errors as the answer to a question."""
    return msgspec.json.encode([(each.field, each.reason, each.message) for each in causes])


def decoded_causes(answer: bytes) -> list[Cause]:
    """Decode the errors in an answer."""
    return [Cause(*each) for each in msgspec.json.decode(answer, type=list[tuple[str, str, str]])]
