"""Cycles that are timed. The engine has no clock: its caller passes one in, and receives the durations.

    cycle(state, conf, now, observer=stopwatch)      # kilauea.runtime.scheduler.timing

Without an observer nothing is measured, and nothing is spent on it where it would matter.
"""

from __future__ import annotations

from typing import Literal, Protocol

Part = Literal["session", "opening", "closing", "action"]
"""A session being opened as a whole; a plugin's work at its opening, at its closing; an action."""


class Observer(Protocol):
    """Takes the time of a cycle."""

    def now(self) -> int:
        """Microseconds since any moment."""

    def took(self, part: Part, name: str, time: int) -> None:
        """A part of the cycle was done in so many microseconds.

        The name is that of the plugin or the action; `open` for a session.
        """

    def chose(self, predicates: int, scoring: int) -> None:
        """A node was looked for: microseconds that the predicates took, with all that is not scoring, and the scores.

        This is called for each task, so it should be quick.
        """

    def tried(self, action: str) -> None:
        """An action has tried to make room on a node by evictions."""


class Unobserved:
    """An observer that looks away."""

    def now(self) -> int:
        """Always the same moment."""
        return 0

    def took(self, part: Part, name: str, time: int) -> None:
        """Not listened to."""

    def chose(self, predicates: int, scoring: int) -> None:
        """Not listened to."""

    def tried(self, action: str) -> None:
        """Not listened to."""


UNOBSERVED = Unobserved()
