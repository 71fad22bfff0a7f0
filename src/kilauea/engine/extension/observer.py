"""Timing of cycles. The engine has no clock: the caller passes one in, and receives the durations.

    cycle(state, conf, now, observer=stopwatch)      # kilauea.runtime.scheduler.timing

Without an observer, nothing is measured, at no cost on hot paths.
"""

from __future__ import annotations

from typing import Literal, Protocol

Part = Literal["session", "opening", "closing", "action"]
"""The opening of a session; a plugin's work at the opening and the closing; an action."""


class Observer(Protocol):
    """Measures the times of a cycle."""

    def now(self) -> int:
        """Return microseconds since an arbitrary point in time."""

    def took(self, part: Part, name: str, time: int) -> None:
        """Record that a part of the cycle took this many microseconds.

        The name is that of the plugin or action, or `open` for a session.
        """

    def chose(self, predicates: int, scoring: int) -> None:
        """Record a search for a node, in microseconds: the predicates and everything else except scoring; the scores.

        Called for each task, so it should be fast.
        """

    def tried(self, action: str) -> None:
        """Record that an action has tried to free resources on a node by evictions."""


class Unobserved:
    """An observer that ignores everything."""

    def now(self) -> int:
        """Return 0."""
        return 0

    def took(self, part: Part, name: str, time: int) -> None:
        """Ignore it."""

    def chose(self, predicates: int, scoring: int) -> None:
        """Ignore it."""

    def tried(self, action: str) -> None:
        """Ignore it."""


UNOBSERVED = Unobserved()
