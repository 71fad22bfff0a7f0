"""States of the cards of nodes: nodes with the same cards and the same usage suit the same pods equally.

As pods fill up nodes, the same states recur. Each state has a number, under which results are cached, so most nodes
that changed only need a look-up. Of the others, a few are computed one by one with plain values, which is faster than
arrays with one element, and many are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.table import CardTable, IntArray
from kilauea.engine.model.nodes import NodeRows

MOST_STATES = 16384
"""Maximum number of states; beyond it, all are forgotten. Higher in clusters with more nodes."""
MOST_QUESTIONS = 256
"""Maximum number of questions with cached results."""
MOST_KNOWN = 4096
"""Maximum number of cached results of `once`."""
FEW = 8
"""Up to this many states are computed one by one."""

T = TypeVar("T")


class CardStates:
    """The states of the nodes of a cluster, and the results that are known for them.

    Args:
        tables: the cards, by kind.
        size: number of nodes.
    """

    def __init__(self, tables: Mapping[str, CardTable], size: int) -> None:
        self._tables = tables
        self._most = max(MOST_STATES, 2 * size)
        self._number: IntArray = np.full(size, -1, dtype=np.int64)
        """(N,) number of each node's state; -1 for nodes that changed since it was looked up."""
        self._numbers: dict[bytes, int] = {}
        self._answers: dict[Hashable, NDArray[np.float64]] = {}
        """The results by state, by question; NaN for states not computed yet."""
        self._known: dict[Hashable, object] = {}

    def changed(self, row: int) -> None:
        """Record that the cards of a node changed."""
        self._number[row] = -1

    def number(self, row: int) -> int:
        """The number of a node's state."""
        number = int(self._number[row])
        if number < 0:
            if len(self._numbers) >= self._most:
                self._forget()
            self._look_up(np.array([row], dtype=np.intp))
            number = int(self._number[row])
        return number

    def _numbers_of(self, nodes: NodeRows) -> IntArray:
        """(n,) numbers of the states of some nodes."""
        numbers = nodes.take(self._number)
        stale = (numbers < 0).nonzero()[0]
        if len(stale):
            if len(self._numbers) + len(stale) > self._most:
                self._forget()
                stale = np.arange(len(numbers))
            self._look_up(stale if nodes.rows is None else nodes.rows[stale])
            numbers = nodes.take(self._number)
        return numbers

    def _forget(self) -> None:
        self._number[:] = -1
        for known in (self._numbers, self._answers, self._known):
            known.clear()

    def _look_up(self, rows: NDArray[np.intp]) -> None:
        """Look up the states of nodes in some rows; new states get the next numbers."""
        known = self._numbers
        self._number[rows] = [known.setdefault(key, len(known)) for key in self._keys(rows)]

    def _keys(self, rows: NDArray[np.intp]) -> list[bytes]:
        """The states of nodes in some rows, as bytes."""
        tables = self._tables.values()
        if len(rows) == 1:
            return [b"".join([table.state(int(rows[0])) for table in tables])]
        if not tables:
            return [b""] * len(rows)
        states = np.concatenate([table.states(rows) for table in tables], axis=1)
        data, size = states.tobytes(), states.shape[1] * states.itemsize
        return [data[at : at + size] for at in range(0, len(data), size)]

    def ask(
        self,
        question: Hashable,
        nodes: NodeRows,
        one: Callable[[int], float],
        many: Callable[[NodeRows], NDArray[np.generic]],
    ) -> NDArray[np.float64]:
        """(n,) results that depend only on the states of nodes, by functions of a row and of several nodes."""
        if len(nodes) == 1 and nodes.rows is not None:
            return self._ask_one(question, int(nodes.rows[0]), one)
        numbers = self._numbers_of(nodes)
        answers = self._answers_to(question)
        found = answers[numbers]
        at = np.isnan(found).nonzero()[0]
        if not len(at):
            return found
        rows = at if nodes.rows is None else nodes.rows[at]
        unknown = dict(zip(numbers[at].tolist(), rows.tolist(), strict=True))
        if len(unknown) <= FEW:
            for number, row in unknown.items():
                answers[number] = one(row)
        else:
            answers[list(unknown)] = many(nodes.table.select(np.array(list(unknown.values()), dtype=np.intp)))
        return answers[numbers]

    def _ask_one(self, question: Hashable, row: int, one: Callable[[int], float]) -> NDArray[np.float64]:
        """As `ask`, for one node."""
        number = self.number(row)
        answers = self._answers_to(question)
        if np.isnan(answers[number]):
            answers[number] = one(row)
        return answers[number : number + 1].copy()

    def _answers_to(self, question: Hashable) -> NDArray[np.float64]:
        """The known results for a question, with room for all states."""
        known = self._answers.get(question)
        if known is None or len(known) < len(self._numbers):
            if known is None and len(self._answers) >= MOST_QUESTIONS:
                self._answers.clear()
            grown = np.full(2 * len(self._numbers), np.nan)
            if known is not None:
                grown[: len(known)] = known
            known = self._answers[question] = grown
        return known

    def once(self, question: Hashable, row: int, find: Callable[[], T]) -> T:
        """Return a result that depends only on the state of a node; the function is called once for each state."""
        known, key = self._known, (question, self.number(row))
        if key in known:
            return known[key]  # type: ignore[return-value]
        found = find()
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[question, self.number(row)] = found  # number() again, as finding may have renumbered the states
        return found
