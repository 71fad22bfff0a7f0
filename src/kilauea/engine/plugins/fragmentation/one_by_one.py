"""Nodes with shared cards, one at a time: for a few nodes, plain values are faster than arrays.

As pods fill up nodes, the same cards with the same typical pods recur, so results are cached by both. The classes of
the cards also identify the demand, as they contain the size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kilauea.engine.devices.classes import CardClasses
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.devices.table import IntArray
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.able import CPU_ROW, MEMORY_ROW, Able, Place, Standing
from kilauea.engine.plugins.fragmentation.card_figures import CardFigures
from kilauea.engine.plugins.fragmentation.demand import CARD, Demand, Use

INFINITE = float("inf")
MOST_KNOWN = 65536
"""Results that are cached for each request."""


class Cards(NamedTuple):
    """The cards of a node."""

    kind: int
    """A number that is equal for equal cards in any order."""
    different: list[int]
    """Their distinct classes, in the order of the cards."""


State = tuple[int, int, int, Cards, int]
"""The relevant state of a node.

A number for the kind of its cards and the set of typical pods that it can accept, one for its place, the key of its
cards (`CardClasses.key`), its cards, and the number of the set. One is made for each pod, and a plain tuple is fastest.
"""


class Wished(NamedTuple):
    """A shape: the cpu and memory that it requests, and its cached results."""

    cpu: int
    memory: int
    scores: dict[int, float | None]
    """By the first number of a state times the number of sets, plus the set of typical pods accepted afterwards.

    None where the order of the cards matters.
    """
    ordered: dict[tuple[int, int, int], float]
    """Scores of nodes where it does: by the key of the cards, and by the sets before and after."""
    after: dict[int, int]
    """The set of typical pods that a node can accept afterwards, by the number of its place."""


class OneByOne:
    """The fragments of single nodes.

    Args:
        able: the typical pods that nodes can accept.
        classes: the classes of the cards.
        figures: their free amounts.
        demands: the demand for cards of each size.
        demand_of: (N,) number of the demand for the cards of a node.
        score_of: returns the score for growth by a number of cards.
    """

    def __init__(
        self,
        able: Able,
        classes: CardClasses,
        figures: CardFigures,
        demands: list[Demand],
        demand_of: IntArray,
        score_of: Callable[[float], float],
    ) -> None:
        self._able, self._classes, self._figures, self._score_of = able, classes, figures, score_of
        self._demands, self._demand_of = demands, demand_of
        self._states: list[State | None] = [None] * len(demand_of)
        """By node; None if it may have changed since it was read."""
        self._now: list[Standing | None] = [None] * len(demand_of)
        """By node; None until it changes."""
        self._cards: dict[int, Cards] = {}
        """By key of the cards."""
        self._kinds: dict[tuple[int, ...], int] = {}
        self._standings: dict[tuple[int, int], int] = {}
        """Numbers of kinds of cards with sets of typical pods."""
        self._places: dict[Place, int] = {}
        self._place_list: list[Place] = []
        """Places by their numbers."""
        self._sums: dict[tuple[int, int], tuple[int, float, float]] = {}
        """By kind of the cards and typical pods: free and usable amounts, and the fragments."""
        self._wished: dict[TaskShape, Wished] = {}
        self._scores: dict[PlainRequest | None, tuple[dict[int, float | None], dict[tuple[int, int, int], float]]] = {}
        """By request, as in `Wished`: shapes share it."""
        self._after: dict[tuple[int, int], dict[int, int]] = {}
        """By cpu and memory, as in `Wished`."""

    def changed(self, row: int) -> None:
        """Record that a pod was added to a node or removed."""
        self._states[row] = None
        self._now[row] = self._able.standing(row)

    def now(self, row: int, place: Place) -> float:
        """Cards of a node that are fragments now."""
        demand, use = self._use(row, self._able.number(place))
        amount, usable = self._sum(use, self._classes.numbers[row].tolist())
        return demand.fragments(usable, float(amount))

    def scores(self, plain: PlainRequest | None, shape: TaskShape, rows: list[int]) -> list[float]:
        """The scores of some nodes for a pod that wants one card, or none, by the growth of their fragments."""
        wished = self._wished.get(shape) or self._read(plain, shape)
        known, afters, states, sets = wished.scores, wished.after, self._states, self._able.sets
        out = []
        for row in rows:
            state = states[row] or self._look_at(row)
            standing, place, _, _, _ = state
            after = afters.get(place)
            if after is None:
                after = self._after_at(wished, place)
            found = known.get(standing * sets + after)
            out.append(self._score(wished, plain, row, state, after) if found is None else found)
        return out

    def _read(self, plain: PlainRequest | None, shape: TaskShape) -> Wished:
        """Read a shape; shapes that request the same cards, or the same cpu and memory, share their cached results."""
        cpu, memory = shape.request.item(CPU_ROW), shape.request.item(MEMORY_ROW)
        scores, ordered = self._scores.setdefault(plain, ({}, {}))
        after = self._after.setdefault((cpu, memory), {})
        found = self._wished[shape] = Wished(cpu, memory, scores, ordered, after)
        return found

    def _after_at(self, wished: Wished, place: int) -> int:
        """The set of typical pods that a node can accept after a pod of the shape is added."""
        if len(wished.after) >= MOST_KNOWN:
            wished.after.clear()
        found = wished.after[place] = self._able.number(self._place_list[place], wished.cpu, wished.memory)
        return found

    def _look_at(self, row: int) -> State:
        (place, able), key = self._now[row] or self._able.standing(row), self._classes.key(row)
        cards = self._cards.get(key)
        if cards is None:
            numbers = self._classes.numbers[row].tolist()
            kind = self._kinds.setdefault(tuple(sorted(numbers)), len(self._kinds))
            cards = self._cards[key] = Cards(kind, list(dict.fromkeys(numbers)))
        standing = self._standings.setdefault((cards.kind, able), len(self._standings))
        number = self._places.setdefault(place, len(self._place_list))
        if number == len(self._place_list):
            self._place_list.append(place)
        found = self._states[row] = standing, number, key, cards, able
        return found

    def _score(self, wished: Wished, plain: PlainRequest | None, row: int, state: State, after: int) -> float:
        """As `scores` for one node, without the results that are cached by kind of cards."""
        standing, _, key, _, able = state
        by_key = key, able, after
        found = wished.ordered.get(by_key)
        if found is None:
            if len(wished.scores) + len(wished.ordered) >= MOST_KNOWN:
                wished.scores.clear()
                wished.ordered.clear()
            growth, ordered = self._find(plain, row, state, after)
            found = self._score_of(growth)
            wished.scores[standing * self._able.sets + after] = None if ordered else found
            if ordered:
                wished.ordered[by_key] = found
        return found

    def _find(self, plain: PlainRequest | None, row: int, state: State, after: int) -> tuple[float, bool]:
        """The growth of a node's fragments, in cards, if the pod gets the card that loses least.

        A node without room for the pod keeps its cards. The second result is True if the order of the cards decides, as
        different classes lose least.
        """
        _, _, _, (kind, different), able = state
        (demand, use), ordered = self._use(row, after), False
        amount, usable, fragments = self._known_sum(row, kind, after)
        if plain is not None:
            # Cards of one class lose the same, and the first that loses least is taken.
            free, left, by_free = self._figures.free.values, self._figures.left_where(plain).values, use.by_free
            lost = [by_free[free[number]] - by_free[left[number]] for number in different]
            if use.counts:
                whole = [free[number] for number in self._classes.numbers[row].tolist()].count(CARD)
                lost = _with_broken(use, lost, [free[number] for number in different], whole)
            least = min(lost)
            if least < INFINITE:
                taken = different[lost.index(least)]
                ordered = lost.count(least) > 1
                amount, usable = amount - free[taken] + left[taken], usable - least
                fragments = demand.fragments(usable, float(amount))
        return fragments - self._known_sum(row, kind, able)[2], ordered

    def _known_sum(self, row: int, kind: int, able: int) -> tuple[int, float, float]:
        """As `_sum` for a set of typical pods, with the resulting fragments."""
        known = self._sums.get((kind, able))
        if known is None:
            if len(self._sums) >= MOST_KNOWN:
                self._sums.clear()
            demand, use = self._use(row, able)
            amount, usable = self._sum(use, self._classes.numbers[row].tolist())
            known = self._sums[kind, able] = amount, usable, demand.fragments(usable, float(amount))
        return known

    def _sum(self, use: Use, numbers: list[int]) -> tuple[int, float]:
        """Return the free amount of cards of some classes, and its usable part."""
        figure = self._figures.free.values
        free = [figure[number] for number in numbers]
        return sum(free), sum(map(use.by_free.__getitem__, free)) + use.of_whole(free.count(CARD))

    def losses(self, request: CardRequest, row: int) -> list[float]:
        """By card of a node: the usable part that is lost if it serves a request of a pod that is already placed."""
        use = self._use(row, self._able.standing(row).able)[1]
        free, left = self._figures.free.values, self._figures.left(request).values
        numbers = self._classes.numbers[row].tolist()
        before = [free[number] for number in numbers]
        return _losses(use, before, [left[number] for number in numbers], before.count(CARD))

    def _use(self, row: int, number: int) -> tuple[Demand, Use]:
        """The demand for the cards of a node, and its weights for a set of typical pods."""
        demand = self._demands[self._demand_of.item(row)]
        return demand, demand.use(self._able, number)


def _losses(use: Use, free: list[int], left: list[int], whole: int) -> list[float]:
    """By card: the usable part that is lost if `left` remains of its free amount; `whole` cards are entirely free."""
    by_free = use.by_free
    return _with_broken(use, [by_free[b] - by_free[a] for b, a in zip(free, left, strict=True)], free, whole)


def _with_broken(use: Use, lost: list[float], free: list[int], whole: int) -> list[float]:
    """By card: the loss including pods with several cards, if one of `whole` entirely free cards is broken."""
    if not (use.counts and whole):
        return lost
    broken = use.of_whole(whole) - use.of_whole(whole - 1)
    return [each + broken if before == CARD else each for each, before in zip(lost, free, strict=True)]
