"""Cycles whose time is taken. The engine has no clock: whoever calls it brings one, and hears what took how long.

    cycle(state, conf, now, observer=stopwatch)      # kilauea.runtime.scheduler.timing

Without an observer nothing is measured, and nothing is spent on it where it would matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import Choice, Evaluation
from kilauea.engine.extension import NodeScorer
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape

if TYPE_CHECKING:
    from kilauea.engine.session import Session

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


class ObservedEvaluation(Evaluation):
    """An evaluation that tells how long each choice took: the scoring, and all the rest, which are the predicates."""

    def __init__(self, session: Session, shape: TaskShape) -> None:
        super().__init__(session, shape)
        self._time, self._tell = session.observer.now, session.observer.chose
        self._scoring = 0

    def choose(self, within: NDArray[np.intp] | None = None) -> Choice | None:
        """As without an observer."""
        started, self._scoring = self._time(), 0
        choice = super().choose(within)
        self._tell(self._time() - started - self._scoring, self._scoring)
        return choice

    def _scores(self, scorers: list[NodeScorer], nodes: NodeRows) -> NDArray[np.float64]:
        started = self._time()
        scores = super()._scores(scorers, nodes)
        self._scoring += self._time() - started
        return scores
