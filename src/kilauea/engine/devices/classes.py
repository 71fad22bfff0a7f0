"""Classes of cards: cards with the same capacity and the same usage share a number.

Pods request few different amounts, so the thousands of cards of a cluster fall into a few dozen classes. Values that
depend on the state of a card are computed once for its class; for a node, they are then looked up by the numbers of its
cards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Amounts = tuple[int, int, int]
"""MiB, hundredths of cores, containers."""
Value = TypeVar("Value", int, float, bool)


class CardState(NamedTuple):
    """The capacity of a card, and its usage."""

    offered: Amounts
    there: bool
    """True if it is healthy."""
    held: Amounts = (0, 0, 0)
    """Used by pods that are present."""
    later: Amounts = (0, 0, 0)
    """Without resources that are being released, with nominations."""


class Figure(Generic[Value]):
    """A figure of each class of cards, computed when it is first needed."""

    __slots__ = ("_find", "_states", "_table", "_values")

    def __init__(self, states: Sequence[CardState], find: Callable[[CardState], Value], kind: type[Any]) -> None:
        self._states: Sequence[CardState] = states
        self._find: Callable[[CardState], Value] = find
        self._values: list[Value] = []
        self._table: NDArray[Any] = np.zeros(0, dtype=kind)

    @property
    def values(self) -> list[Value]:
        """The figures, by number of the class."""
        if len(self._values) < len(self._states):
            self._grow()
        return self._values

    @property
    def table(self) -> NDArray[Any]:
        """The figures as an array, which may be longer than the number of classes."""
        if len(self._values) < len(self._states):
            self._grow()
        return self._table

    def _grow(self) -> None:
        """Compute the figures of new classes."""
        known = len(self._values)
        self._values += map(self._find, self._states[known:])
        if len(self._values) > len(self._table):
            grown = np.zeros(2 * len(self._values), dtype=self._table.dtype)
            grown[:known] = self._table[:known]
            self._table = grown
        self._table[known : len(self._values)] = self._values[known:]


class CardClasses:
    """The classes of the cards of one kind in one cycle.

    Attributes:
        numbers: (N, C) number of the class of each card.
        states: by number, the state of the cards.
        keys: by node its `key`; -1 if its cards changed since it was computed.
    """

    def __init__(self, numbers: NDArray[np.intp], states: Sequence[CardState]) -> None:
        """Start with the classes of unused cards."""
        self.numbers = numbers.copy()
        self.states = list(states)
        self._number_of = {state: number for number, state in enumerate(self.states)}
        self._moves: dict[tuple[int, Amounts, int, int], int] = {}
        """The class of a card of some class after a pod with these amounts is added."""
        self.keys = [-1] * len(numbers)
        self.changed: list[int] = []
        """Rows of nodes whose cards changed, in order, with repeats."""
        self._key_of: dict[bytes, int] = {}

    def of(self, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """(n, C) the numbers of the cards of some nodes."""
        return self.numbers if rows is None else self.numbers.take(rows, axis=0)

    def key(self, row: int) -> int:
        """Return a number that identifies the classes of all cards of a node, in their order."""
        key = self.keys[row]
        if key < 0:
            key = self.keys[row] = self._key_of.setdefault(self.numbers[row].tobytes(), len(self._key_of))
        return key

    def book(self, amounts: Amounts, row: int, column: int, *, held: int, later: int) -> None:
        """Add to the usage of a card, multiplied by `held` and `later`."""
        move = self.numbers.item(row, column), amounts, held, later
        number = self._moves.get(move)
        if number is None:
            number = self._moves[move] = self._moved(*move)
        self.numbers[row, column] = number
        self.keys[row] = -1
        self.changed.append(row)

    def _moved(self, number: int, amounts: Amounts, held: int, later: int) -> int:
        old = self.states[number]
        new = old._replace(held=_more(old.held, amounts, held), later=_more(old.later, amounts, later))
        found = self._number_of.setdefault(new, len(self.states))
        if found == len(self.states):
            self.states.append(new)
        return found


def _more(used: Amounts, amounts: Amounts, by: int) -> Amounts:
    return used[0] + by * amounts[0], used[1] + by * amounts[1], used[2] + by * amounts[2]


class Followed:
    """(N,) values of nodes that depend on the classes of their cards: recomputed where cards have changed.

    Args:
        classes: the classes.
        every: computes the values of all nodes.
        one: computes the value of a node.
    """

    def __init__(
        self, classes: CardClasses, every: Callable[[], NDArray[Any]], one: Callable[[int], int | float]
    ) -> None:
        self._changed, self._one = classes.changed, one
        self._values = every()
        self._seen = len(self._changed)
        """The part of the list of changes that is processed."""

    def of(self, rows: NDArray[np.intp] | None) -> NDArray[Any]:
        """(n,) the values of some nodes."""
        if self._seen < len(self._changed):
            # A request is evaluated after placements of few pods, so few nodes have changed.
            for row in dict.fromkeys(self._changed[self._seen :]):
                self._values[row] = self._one(row)
            self._seen = len(self._changed)
        return self._values.copy() if rows is None else self._values.take(rows)


def classes_of(capacity: NDArray[np.int64], there: NDArray[np.bool_]) -> tuple[NDArray[np.intp], list[CardState]]:
    """Return the classes of unused cards (N, C): the number of each, and their states."""
    figures = np.concatenate([capacity, there[None].astype(np.int64)]).reshape(4, -1).T
    different, numbers = np.unique(figures, axis=0, return_inverse=True)
    states = [CardState((memory, cores, slots), bool(well)) for memory, cores, slots, well in different.tolist()]
    return numbers.reshape(there.shape).astype(np.intp), states
