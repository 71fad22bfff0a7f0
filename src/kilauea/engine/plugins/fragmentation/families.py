"""The usable part of free cards, for the typical pods that request one kind of card.

A typical pod can use a free card if the node allows the pod and has enough cores and memory, if the free part of the
card is as large as the pod's share, and for a pod with several cards, if that many are entirely free. The sum over the
cards and the typical pods by their weight is the usable part; the rest of the free amount is fragments.

Many nodes are computed as arrays, a few nodes one by one, with identical results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.ledger import DeviceLedger, depends_on_state
from kilauea.engine.devices.order import CardChoice, nodes_of
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.devices.table import CORES, SLOTS, IntArray
from kilauea.engine.devices.table import MEMORY as CARD_MEMORY
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.able import CPU_ROW, MEMORY_ROW, Able, Place
from kilauea.engine.plugins.fragmentation.card_figures import CardFigures
from kilauea.engine.plugins.fragmentation.demand import CARD, NO_ROOM, Demand, FloatArray, Weights
from kilauea.engine.plugins.fragmentation.mix import Mix
from kilauea.engine.plugins.fragmentation.one_by_one import OneByOne

FEW = 32
"""Up to this many nodes are faster to compute one by one."""


class Scale(NamedTuple):
    """Converts growth, in cards, to scores.

    Differences below a step are noise; if they decided, pods would spread over equally good nodes.
    """

    steps: int
    """Steps per card."""
    points: float
    """Points per step."""

    def of(self, growth: FloatArray) -> FloatArray:
        """(n,) the scores of nodes."""
        out: FloatArray = np.rint(growth * self.steps) * self.points + 0.0  # adding zero turns -0.0 into 0.0
        return out

    def of_one(self, growth: float) -> float:
        """As `of`, for one node: plain numbers are faster."""
        return round(growth * self.steps) * self.points + 0.0


class Family(ABC):
    """Cards of one kind, and the pods that want them; fragments are recomputed only where nodes changed."""

    def __init__(self, nodes: NodeTable, mix: Mix, scale: Scale) -> None:
        self._nodes = nodes
        self._scale = scale
        self.able = Able(mix, nodes)
        self.part = sum(mix.numbers) / max(mix.total, 1)
        """The fraction of the pods with cards that want these."""
        self._stale = set(range(len(nodes)))
        """Nodes that changed since they were computed."""
        self._places: list[Place] = [(0, 0, 0)] * len(nodes)
        self._free: IntArray = np.zeros((2, len(nodes)), dtype=np.int64)
        """(2, N) future idle cpu and memory."""
        self._known = np.zeros(len(nodes))
        """(N,) fragments."""

    def changed(self, row: int) -> None:
        """Record that a pod was added to a node or removed."""
        self._stale.add(row)

    def growth(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) growth of the nodes' fragments, in cards, if a pod of this shape is added."""
        if self._stale:
            self._look_again()
        return self.fragments_with(shape, nodes) - nodes.take(self._known)

    def scores_each(self, shape: TaskShape, rows: NDArray[np.intp]) -> list[float]:
        """The scores of a few nodes by row for a pod of this shape, if these are the only cards."""
        return list(map(self._scale.of_one, (self.growth(shape, self._nodes.select(rows)) * self.part).tolist()))

    def _score(self, growth: float) -> float:
        return self._scale.of_one(growth * self.part)

    def sets_with(self, shape: TaskShape | None, nodes: NodeRows) -> IntArray:
        """(n,) numbers of the sets of typical pods that nodes can accept, as they are or with a pod of this shape."""
        free = nodes.take(self._free)
        return self.able.sets_of(free if shape is None else free - shape.request[:2, None], nodes)

    @abstractmethod
    def fragments(self, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments now."""

    @abstractmethod
    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments once a pod of this shape is added."""

    @abstractmethod
    def _one(self, row: int) -> float:
        """`fragments` for one node."""

    def _look_again(self) -> None:
        """Recompute the nodes that changed."""
        rows = sorted(self._stale)
        self._stale.clear()
        places, free = self._places, self._free
        for row in rows:
            places[row] = place = self.able.place(row)
            free[0, row], free[1, row], _ = place
        if len(rows) > FEW:
            some = np.array(rows, dtype=np.intp)
            self._known[some] = self.fragments(self._nodes.select(some))
            return
        for row in rows:
            self._known[row] = self._one(row)


class WholeCards(Family):
    """Whole cards, of which a node only has a number."""

    def __init__(self, mix: Mix, nodes: NodeTable, resource: int, scale: Scale) -> None:
        super().__init__(nodes, mix, scale)
        self._resource = resource
        self._demand = Demand(mix, 0)
        self._found: dict[tuple[int, int], float] = {}

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None)

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        if nodes.rows is not None and len(nodes) <= FEW:
            return np.array(self._each_with(shape, nodes.rows.tolist()))
        return self._at(nodes, shape)

    def _at(self, nodes: NodeRows, shape: TaskShape | None) -> FloatArray:
        cards = self._cards(nodes, shape)
        weights = self._demand.weights(self.able, self.sets_with(shape, nodes))
        usable = cards * CARD * weights.by_share[weights.row, -1] + self._demand.of_whole(weights, cards)
        return self._demand.fragments(usable, (cards * CARD).astype(np.float64))

    def _cards(self, nodes: NodeRows, shape: TaskShape | None) -> IntArray:
        """(n,) free cards."""
        row = self._resource
        free: IntArray = nodes.allocatable[row] - nodes.used[row]
        if nodes.table.future:
            free += nodes.releasing[row] - nodes.pipelined[row]
        if shape is not None:
            free -= shape.request[row]
        return np.maximum(free // CARD, 0)

    def _one(self, row: int) -> float:
        return self._by_figures(max(self._amount(row) // CARD, 0), self.able.number(self._places[row]))

    def _each_with(self, shape: TaskShape, rows: list[int]) -> list[float]:
        asked, cpu, memory = (shape.request.item(i) for i in (self._resource, CPU_ROW, MEMORY_ROW))
        number, places = self.able.number, self._places
        return [
            self._by_figures(max((self._amount(row) - asked) // CARD, 0), number(places[row], cpu, memory))
            for row in rows
        ]

    def _amount(self, row: int) -> int:
        """Thousandths of a node's cards that are free in the future."""
        nodes, i = self._nodes, self._resource
        free = nodes.allocatable.item(i, row) - nodes.used.item(i, row)
        return free + nodes.releasing.item(i, row) - nodes.pipelined.item(i, row) if nodes.future else free

    def _by_figures(self, cards: int, able: int) -> float:
        """Cards that are fragments on a node with this many free cards for a set of typical pods."""
        known = self._found.get((cards, able))
        if known is None:
            usable = self._demand.use(self.able, able).of_counted(cards)
            known = self._found[cards, able] = self._demand.fragments(usable, float(cards * CARD))
        return known


class Wanted(NamedTuple):
    """The request of a pod for one kind of cards: one card, or none."""

    request: CardRequest | None
    plain: PlainRequest | None
    """The request, if the classes of cards tell which of them have room for it."""

    @property
    def by_class(self) -> bool:
        """True if only the classes of a node's cards matter."""
        return self.request is None if self.plain is None else self.plain.eligible is None


class SharedCards(Family):
    """Cards that pods share, tracked one by one."""

    def __init__(self, mix: Mix, nodes: NodeTable, kind: str, ledger: DeviceLedger, scale: Scale) -> None:
        super().__init__(nodes, mix, scale)
        self._kind = kind
        self._ledger = ledger
        self._table = ledger.tables[kind]
        self._cards, self._classes = self._table.cards, self._table.classes
        self._figures = CardFigures(self._classes)
        sizes = self._cards.capacity[CARD_MEMORY].max(axis=1)
        known = np.unique(sizes[self._cards.registered])
        sizes[~self._cards.registered] = known[0] if len(known) else 0
        self._demands = [Demand(mix, int(size)) for size in known] or [Demand(mix, 0)]
        self._demand_of = known.searchsorted(sizes)
        """(N,) number of the demand, by the memory of the node's cards."""
        self._single = OneByOne(self.able, self._classes, self._figures, self._demands, self._demand_of, self._score)
        self._wanted: dict[TaskShape, Wanted | None] = {}
        """By shape; None for pods that want several cards."""

    def scores_each(self, shape: TaskShape, rows: NDArray[np.intp]) -> list[float]:
        """See `Family`."""
        wanted = self._wish_of(shape)
        if wanted is None or not wanted.by_class:
            return super().scores_each(shape, rows)
        return self._single.scores(wanted.plain, shape, rows.tolist())

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None, self._free_now(nodes))

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        wanted = self._wish_of(shape)
        if wanted is None:
            _, after = self._ledger.after(shape, nodes, self._kind)
            return self._at(nodes, shape, self.free(nodes, after))
        if wanted.request is None:
            return self._at(nodes, shape, self._free_now(nodes))
        if wanted.plain is not None:
            left = self._figures.left_where(wanted.plain).table.take(self._classes.of(nodes.rows))
            if wanted.plain.eligible is not None:
                left[~wanted.plain.eligible_of(nodes.rows)] = NO_ROOM
        else:
            left = self._figures.left(wanted.request).table.take(self._classes.of(nodes.rows))
            left[~self._ledger.free_cards(wanted.request, shape, nodes)] = NO_ROOM
        return self._with_one_card(shape, nodes, left)

    def _wish_of(self, shape: TaskShape) -> Wanted | None:
        """As `_read_wish`, cached by shape."""
        if shape not in self._wanted:
            self._wanted[shape] = self._read_wish(shape)
        return self._wanted[shape]

    def _read_wish(self, shape: TaskShape) -> Wanted | None:
        """Return the request of a pod for this kind of cards; None if it is for several cards."""
        wish = self._ledger.wish_of(shape) if shape.spec.devices is not None else None
        found = [r for r in wish.requests if r.kind == self._kind] if wish is not None else []
        if wish is None or not found:
            return Wanted(None, None)
        if len(found) > 1 or found[0].number != 1:
            return None
        if not depends_on_state(shape) or self._cards.mig is not None:
            return Wanted(found[0], None)
        # Shapes that request the same cards share the ledger's results.
        return Wanted(found[0], self._ledger.plain(shape) or PlainRequest(self._table, found[0], wish))

    def _with_one_card(self, shape: TaskShape, nodes: NodeRows, left: IntArray) -> FloatArray:
        """(n,) fragments with a pod on the card that loses least, by what is then left of each card (n, C)."""
        free, sets = self._free_now(nodes), self.sets_with(shape, nodes)
        if len(self._demands) == 1:
            return _with_least(self._demands[0], self._demands[0].weights(self.able, sets), free, left)
        out = np.zeros(len(nodes))
        for demand, part in self._by_demand(nodes):
            out[part] = _with_least(demand, demand.weights(self.able, sets[part]), free[part], left[part])
        return out

    def _free_now(self, nodes: NodeRows) -> IntArray:
        """(n, C) thousandths of each card that are free."""
        return self._figures.free.table.take(self._classes.of(nodes.rows))

    # --- one node

    def changed(self, row: int) -> None:
        """See `Family`."""
        super().changed(row)
        self._single.changed(row)

    def _one(self, row: int) -> float:
        return self._single.now(row, self._places[row])

    def losses_at(self, request: CardRequest, row: int) -> list[float]:
        """As `loss`, for one node on which the pod is already placed."""
        return self._single.losses(request, row)

    # --- many nodes

    def _at(self, nodes: NodeRows, shape: TaskShape | None, free: IntArray) -> FloatArray:
        """(n,) fragments with these free amounts of each card (n, C)."""
        sets = self.sets_with(shape, nodes)
        out = np.zeros(len(nodes))
        for demand, part in self._by_demand(nodes):
            usable = demand.usable(demand.weights(self.able, sets[part]), free[part])
            out[part] = demand.fragments(usable, free[part].sum(axis=1).astype(np.float64))
        return out

    def _by_demand(self, nodes: NodeRows) -> list[tuple[Demand, NDArray[np.intp] | slice]]:
        """The demands, each with the nodes to which it applies."""
        if len(self._demands) == 1:
            return [(self._demands[0], slice(None))]
        which = nodes.take(self._demand_of)
        return [(self._demands[number], np.flatnonzero(which == number)) for number in np.unique(which)]

    def free(self, nodes: NodeRows, used: IntArray) -> IntArray:
        """(n, C) thousandths of each card that are free, by the scarcer of memory and cores."""
        capacity = nodes_of(self._cards.capacity, nodes)
        there = self._cards.there if nodes.rows is None else self._cards.there.take(nodes.rows, axis=0)
        # Division of integers is slow. It is as exact in float64: a quotient of at most a thousand that is not whole is
        # farther from the next whole number than the rounding error.
        left = np.maximum(capacity[:SLOTS] - used[:SLOTS], 0) * float(CARD) / np.maximum(capacity[:SLOTS], 1)
        free: IntArray = np.minimum(left[CARD_MEMORY], left[CORES]).astype(np.int64)
        free[~there | (used[SLOTS] >= capacity[SLOTS])] = 0
        return free

    def loss(self, choice: CardChoice) -> FloatArray:
        """(n, C) usable part that is lost if each of the cards serves the request."""
        nodes, used = choice.nodes, choice.used
        able = self.able.at(nodes, None if choice.placed else choice.shape)
        before, left = self.free(nodes, used), self._left(choice.request, nodes, used)
        out = np.zeros(before.shape)
        for demand, part in self._by_demand(nodes):
            weights = demand.weights(self.able, able[part])
            out[part] = demand.of_cards(weights, before[part]) - demand.of_cards(weights, left[part])
            if len(demand.counts):
                whole = (before[part] == CARD).sum(axis=1)
                out[part] += _broken(demand, weights, before[part], whole, demand.of_whole(weights, whole))
        return out

    def _left(self, request: CardRequest, nodes: NodeRows, used: IntArray) -> IntArray:
        """(n, C) free amount of each card after it serves the request."""
        capacity, after = nodes_of(self._cards.capacity, nodes), used.copy()
        after[CARD_MEMORY] += self._table.memory_of(request, capacity)
        after[CORES] += request.cores
        after[SLOTS] += 1
        return self.free(nodes, after)


def _broken(
    demand: Demand, weights: Weights, free: IntArray, whole: NDArray[np.intp], several: FloatArray
) -> FloatArray:
    """(n, C) usable part for pods with several cards that is lost with each entirely free card."""
    lost = several - demand.of_whole(weights, np.maximum(whole - 1, 0))
    out: FloatArray = np.where(free == CARD, lost[:, None], 0.0)
    return out


def _with_least(demand: Demand, weights: Weights, free: IntArray, left: IntArray) -> FloatArray:
    """(n,) fragments with a pod on the card that loses least.

    `free` (n, C) is the free amount of the cards, and `left` that with the pod; `NO_ROOM` for cards that it cannot get.
    """
    first, by_free = weights.first[:, None], weights.by_free
    cards = by_free.take(free + first)
    lost = cards - by_free.take(left + first)
    usable: FloatArray = np.add.reduce(cards, axis=1)
    if len(demand.counts):
        whole = (free == CARD).sum(axis=1)
        several = demand.of_whole(weights, whole)
        lost += _broken(demand, weights, free, whole, several)
        usable += several
    at = np.arange(len(lost)), lost.argmin(axis=1)
    least, taken = lost[at], free[at] - left[at]
    if np.maximum.reduce(least, initial=0.0) == np.inf:
        fits = least < np.inf
        least, taken = np.where(fits, least, 0.0), np.where(fits, taken, 0)
    return demand.fragments(usable - least, (np.add.reduce(free, axis=1) - taken).astype(np.float64))
