"""Work that shows in the middle of a request, and is too heavy to be done there.

The code that meets it raises `Deferred`. The server has the work done elsewhere, and does the request again from its
beginning: nothing is written before all is checked. The second time the answer is known.
"""

from __future__ import annotations

from contextvars import ContextVar

KNOWN: ContextVar[dict[bytes, bytes] | None] = ContextVar("known", default=None)
"""The answers that the request at work has waited for, by question."""
MOST_DEFERRED = 20
"""Pieces of heavy work in one request."""


class Deferred(Exception):
    """The answer to a question must be worked out elsewhere."""

    def __init__(self, question: bytes) -> None:
        super().__init__("heavy work")
        self.question = question


def has_answers() -> bool:
    """Return True if the request at work has waited for an answer."""
    return bool(KNOWN.get())


def deferred(question: bytes) -> bytes:
    """Return the answer to a question; empty if it takes too long.

    Raises:
        Deferred: it is not known yet.
    """
    known = KNOWN.get() or {}
    if question not in known:
        raise Deferred(question)
    return known[question]
