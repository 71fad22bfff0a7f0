"""Nodes with shared cards, one at a time: a few nodes take less time with plain values than as arrays.

Pods fill one node after another, so the same cards beside the same typical pods come up again and again; fragments are
remembered by both. The classes of the cards say which demand is meant, too, as they contain the size of the cards.
"""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.engine.devices.classes import CardClasses
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.devices.table import IntArray
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.able import CPU_ROW, MEMORY_ROW, Able, Place
from kilauea.engine.plugins.fragmentation.card_figures import CardFigures
from kilauea.engine.plugins.fragmentation.demand import CARD, Demand, Use

MOST_KNOWN = 65536
"""Fragments that are remembered for each request."""
Known = dict[tuple[bytes, int], float]
"""Fragments by the classes of the cards of a node, and by the set of typical pods that the node can take."""


class OneByOne:
    """The fragments of single nodes.

    Args:
        able: the typical pods that nodes can take.
        classes: the classes of the cards.
        figures: what is free of them.
        demands: the demand for cards of each size.
        demand_of: (N,) number of the demand for the cards of a node.
    """

    def __init__(
        self, able: Able, classes: CardClasses, figures: CardFigures, demands: list[Demand], demand_of: IntArray
    ) -> None:
        self._able, self._classes, self._figures = able, classes, figures
        self._demands, self._demand_of = demands, demand_of
        self._cards: list[bytes | None] = [None] * len(demand_of)
        """By node: the classes of its cards; None if they may have changed since they were read."""
        self._known: dict[CardRequest | None, Known] = {}

    def changed(self, row: int) -> None:
        """A pod came to a node or left it."""
        self._cards[row] = None

    def now(self, row: int, place: Place) -> float:
        """Cards of a node that are fragments now."""
        return self._fragments(None, row, self._able.number(place))

    def with_pod(
        self, plain: PlainRequest | None, shape: TaskShape, rows: list[int], places: list[Place]
    ) -> Iterator[float]:
        """Cards of some nodes that are fragments once a pod of a shape has come that wants one card, or none.

        The places are those of all nodes, as the nodes are.
        """
        cpu, memory = shape.request.item(CPU_ROW), shape.request.item(MEMORY_ROW)
        known = self._known.setdefault(None if plain is None else plain.request, {})
        for row in rows:
            number = self._able.number(places[row], cpu, memory)
            cards = self._cards[row]
            if cards is None:
                cards = self._cards[row] = self._classes.numbers[row].tobytes()
            found = known.get((cards, number))
            if found is None:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                found = known[cards, number] = self._fragments(plain, row, number)
            yield found

    def losses(self, request: CardRequest, row: int) -> list[float]:
        """By card of a node: the usable part that is lost if it serves a request of a pod that is placed already."""
        use = self._use(row, self._able.number(self._able.place(row)))[1]
        free, left = self._figures.free.values, self._figures.left(request).values
        numbers = self._classes.numbers[row].tolist()
        return _losses(use, [free[number] for number in numbers], [left[number] for number in numbers])

    def _fragments(self, plain: PlainRequest | None, row: int, number: int) -> float:
        """Cards that are fragments where a set of typical pods can be, if a pod gets the card of which least is lost.

        A node without room for the pod is left as it is.
        """
        demand, use = self._use(row, number)
        numbers, figure = self._classes.numbers[row].tolist(), self._figures.free.values
        free = [figure[number] for number in numbers]
        amount, usable = sum(free), sum(map(use.by_free.__getitem__, free)) + use.of_whole(free.count(CARD))
        if plain is not None:
            figure = self._figures.left_where(plain).values
            left = [figure[number] for number in numbers]
            lost = _losses(use, free, left)
            least = min(lost)
            if least < float("inf"):
                column = lost.index(least)
                amount, usable = amount - free[column] + left[column], usable - least
        return demand.fragments(usable, float(amount))

    def _use(self, row: int, number: int) -> tuple[Demand, Use]:
        """The demand for the cards of a node, and its weights for a set of typical pods."""
        demand = self._demands[self._demand_of.item(row)]
        return demand, demand.use(self._able, number)


def _losses(use: Use, free: list[int], left: list[int]) -> list[float]:
    """By card: the usable part that is lost if so much is left of what is free of it."""
    by_free = use.by_free
    out = [by_free[before] - by_free[after] for before, after in zip(free, left, strict=True)]
    if use.counts and (whole := free.count(CARD)):
        broken = use.of_whole(whole) - use.of_whole(whole - 1)
        out = [lost + broken if before == CARD else lost for lost, before in zip(out, free, strict=True)]
    return out
