"""The usable part of free cards, for the typical pods of one kind of cards.

A free card is of use to a typical pod if the pod may be on the node and has its cores and memory there, if the free
part of the card is as large as the pod's share, and for a pod with several cards, if that many are wholly free. Summed
over the cards and the typical pods by their weight, this is the usable part; the rest of what is free is fragments.

Many nodes are looked at as arrays, a few nodes one by one: both find the same, to the last bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.ledger import RULES, DeviceLedger
from kilauea.engine.devices.order import CardChoice, nodes_of
from kilauea.engine.devices.table import CORES, SLOTS, IntArray
from kilauea.engine.devices.table import MEMORY as CARD_MEMORY
from kilauea.engine.model.devices import CardRequest, DeviceWish
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.able import CPU_ROW, MEMORY_ROW, Able, Place
from kilauea.engine.plugins.fragmentation.demand import CARD, Demand, FloatArray, Weights
from kilauea.engine.plugins.fragmentation.mix import Mix
from kilauea.engine.plugins.fragmentation.node_cards import CardState, NodeCards, Wanted

FEW = 32
"""Nodes up to which it is quicker to look at one after another."""


class Family(ABC):
    """Cards of one kind, and the pods that want them; fragments are computed again where something changed."""

    def __init__(self, nodes: NodeTable, mix: Mix) -> None:
        self._nodes = nodes
        self.able = Able(mix, nodes)
        self.part = sum(mix.numbers) / max(mix.total, 1)
        """Part of the pods with cards that want these."""
        self._stale = set(range(len(nodes)))
        """Nodes that changed since they were looked at."""
        self._places: list[Place] = [(0, 0, 0)] * len(nodes)
        self._known = np.zeros(len(nodes))
        """(N,) fragments."""

    def changed(self, row: int) -> None:
        """A pod came to a node or left it."""
        self._stale.add(row)

    def growth(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) by how many cards the fragments of a node grow if a pod of this shape comes."""
        if self._stale:
            self._look_again()
        each = self._each_with(shape, nodes.rows.tolist()) if nodes.rows is not None and len(nodes) <= FEW else None
        after = self.fragments_with(shape, nodes) if each is None else np.array(each)
        return after - nodes.take(self._known)

    @abstractmethod
    def fragments(self, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments now."""

    @abstractmethod
    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments once a pod of this shape has come."""

    @abstractmethod
    def _one(self, row: int) -> float | None:
        """`fragments` for one node, quicker; None where it is not."""

    @abstractmethod
    def _each_with(self, shape: TaskShape, rows: list[int]) -> list[float] | None:
        """`fragments_with` for a few nodes, quicker; None where it is not."""

    def _look_again(self) -> None:
        """Look at the nodes that changed."""
        rows = sorted(self._stale)
        self._stale.clear()
        for row in rows:
            self._places[row] = self.able.place(row)
        each = [self._one(row) for row in rows] if len(rows) <= FEW else [None]
        for row, one in zip(rows, each, strict=False):
            if one is None:
                some = np.array(rows, dtype=np.intp)
                self._known[some] = self.fragments(self._nodes.select(some))
                break
            self._known[row] = one


class WholeCards(Family):
    """Cards that a node only counts."""

    def __init__(self, mix: Mix, nodes: NodeTable, resource: int) -> None:
        super().__init__(nodes, mix)
        self._resource = resource
        self._demand = Demand(mix, 0)
        self._found: dict[tuple[int, int], float] = {}

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None)

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, shape)

    def _at(self, nodes: NodeRows, shape: TaskShape | None) -> FloatArray:
        cards = self._cards(nodes, shape)
        weights = self._demand.weights(self.able, self.able.at(nodes, shape))
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
        """Thousandths of cards that are free on a node in the end."""
        nodes, i = self._nodes, self._resource
        free = nodes.allocatable.item(i, row) - nodes.used.item(i, row)
        return free + nodes.releasing.item(i, row) - nodes.pipelined.item(i, row) if nodes.future else free

    def _by_figures(self, cards: int, able: int) -> float:
        """Cards that are fragments on a node with so many free cards for a set of typical pods."""
        known = self._found.get((cards, able))
        if known is None:
            usable = self._demand.use(self.able, able).of_counted(cards)
            known = self._found[cards, able] = self._demand.fragments(usable, float(cards * CARD))
        return known


class SharedCards(Family):
    """Cards that pods share, one by one."""

    def __init__(self, mix: Mix, nodes: NodeTable, kind: str, ledger: DeviceLedger) -> None:
        super().__init__(nodes, mix)
        self._kind = kind
        self._ledger = ledger
        self._table = ledger.tables[kind]
        self._cards = self._table.cards
        sizes = self._cards.capacity[CARD_MEMORY].max(axis=1)
        known = np.unique(sizes[self._cards.registered])
        sizes[~self._cards.registered] = known[0] if len(known) else 0
        self._demands = [Demand(mix, int(size)) for size in known] or [Demand(mix, 0)]
        self._demand_of = known.searchsorted(sizes)
        """(N,) number of the demand, by the memory of the node's cards."""
        self._wanted: dict[TaskShape, Wanted | None] = {}
        """Requests of shapes; None for those that are looked at as arrays only."""
        self._numbers: dict[DeviceWish, int] = {}

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None, nodes_of(self._table.later, nodes))

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        request = self._only_request(shape)
        if request is not None:
            return self._with_one_card(request, shape, nodes)
        _, after = self._ledger.after(shape, nodes, self._kind)
        return self._at(nodes, shape, after)

    def _wish(self, shape: TaskShape) -> DeviceWish | None:
        return self._ledger.wish_of(shape) if shape.spec.devices is not None else None

    def _only_request(self, shape: TaskShape) -> CardRequest | None:
        """The request of a pod that wants one card, and nothing else of this kind."""
        wish = self._wish(shape)
        found = [r for r in wish.requests if r.kind == self._kind] if wish is not None else []
        return found[0] if len(found) == 1 and found[0].number == 1 else None

    def _with_one_card(self, request: CardRequest, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) fragments with a pod that gets the card of which least is lost; as `_at`, but quicker."""
        mask, used = self._ledger.free_cards(request, shape, nodes)
        able, before, left = self.able.at(nodes, shape), self.free(nodes, used), self._left(request, nodes, used)
        out = np.zeros(len(nodes))
        for demand, part in self._by_demand(nodes):
            weights = demand.weights(self.able, able[part])
            cards = demand.of_cards(weights, before[part])
            lost = cards - demand.of_cards(weights, left[part])
            whole = (before[part] == CARD).sum(axis=1)
            several = demand.of_whole(weights, whole)
            if len(demand.counts):
                lost += _broken(demand, weights, before[part], whole, several)
            lost[~mask[part]] = np.inf
            column = lost.argmin(axis=1)
            rows, fits = np.arange(len(column)), mask[part].any(axis=1)
            usable = cards.sum(axis=1) + several - np.where(fits, lost[rows, column], 0.0)
            taken = np.where(fits, (before[part] - left[part])[rows, column], 0)
            out[part] = demand.fragments(usable, before[part].sum(axis=1).astype(np.float64) - taken)
        return out

    # --- a few nodes

    def _one(self, row: int) -> float | None:
        if self._cards.mig is not None:
            return None
        return self._node_cards(row).fragments(self.able.number(self._places[row]))

    def _each_with(self, shape: TaskShape, rows: list[int]) -> list[float] | None:
        if shape not in self._wanted:
            self._wanted[shape] = self._read_wish(shape)
        wanted = self._wanted[shape]
        if wanted is None:
            return None
        cpu, memory = shape.request.item(CPU_ROW), shape.request.item(MEMORY_ROW)
        number, places = self.able.number, self._places
        return [self._node_cards(row).fragments_with(wanted, number(places[row], cpu, memory), row) for row in rows]

    def _read_wish(self, shape: TaskShape) -> Wanted | None:
        """The request of pods with one card of this kind or none; None if more than figures decides which card."""
        wish = self._wish(shape)
        if self._cards.mig is not None:
            return None
        if wish is None or self._kind not in wish.kinds:
            return Wanted(-1, None, lambda row: [])
        request = self._only_request(shape)
        if request is None or wish.ids or wish.not_ids or wish.apart or RULES in shape.traits:
            return None
        number = self._numbers.setdefault(wish, len(self._numbers))
        fitting = partial(self._table.fitting_at, request, wish, now=False)
        return Wanted(number, request, fitting)

    def _node_cards(self, row: int) -> NodeCards:
        """The cards of a node, the same for all nodes whose cards are in one state."""
        return self._ledger.states.once(self._kind, row, partial(self._read, row))

    def _read(self, row: int) -> NodeCards:
        demand, cards = self._demands[self._demand_of[row]], self._cards
        offered, used = cards.capacity[:, row].tolist(), self._table.later[:, row].tolist()
        found = map(CardState._make, zip(*offered, *used, cards.there[row].tolist(), strict=True))
        return NodeCards(demand, partial(demand.use, self.able), list(found))

    # --- many nodes

    def _at(self, nodes: NodeRows, shape: TaskShape | None, used: IntArray) -> FloatArray:
        able, free = self.able.at(nodes, shape), self.free(nodes, used)
        out = np.zeros(len(nodes))
        for demand, part in self._by_demand(nodes):
            usable = demand.usable(demand.weights(self.able, able[part]), free[part])
            out[part] = demand.fragments(usable, free[part].sum(axis=1).astype(np.float64))
        return out

    def _by_demand(self, nodes: NodeRows) -> list[tuple[Demand, NDArray[np.intp] | slice]]:
        """Demands with the nodes that each applies to."""
        if len(self._demands) == 1:
            return [(self._demands[0], slice(None))]
        which = nodes.take(self._demand_of)
        return [(self._demands[number], np.flatnonzero(which == number)) for number in np.unique(which)]

    def free(self, nodes: NodeRows, used: IntArray) -> IntArray:
        """(n, C) thousandths of each card that are free, by the scarcer of memory and cores."""
        capacity = nodes_of(self._cards.capacity, nodes)
        there = self._cards.there if nodes.rows is None else self._cards.there.take(nodes.rows, axis=0)
        # Division of whole numbers is slow. In float64 it is as exact: a quotient of at most a thousand that is not
        # whole is farther from the next whole number than it is rounded by.
        left = np.maximum(capacity[:SLOTS] - used[:SLOTS], 0) * float(CARD) / np.maximum(capacity[:SLOTS], 1)
        free: IntArray = np.minimum(left[CARD_MEMORY], left[CORES]).astype(np.int64)
        free[~there | (used[SLOTS] >= capacity[SLOTS])] = 0
        return free

    def loss(self, choice: CardChoice) -> FloatArray:
        """(n, C) usable part that is lost if the request is served by one of the cards."""
        nodes, used = choice.nodes, choice.used
        if len(nodes) == 1 and (one := self._loss_at(choice)) is not None:
            return one
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

    def _loss_at(self, choice: CardChoice) -> FloatArray | None:
        """As `loss`, for one node, quicker; None where it is not."""
        if choice.nodes.rows is None or not choice.placed or self._cards.mig is not None:
            return None
        row = int(choice.nodes.rows[0])
        if not np.array_equal(choice.used[:, 0], self._table.later[:, row]):
            return None  # another container of the pod takes cards too
        return np.array([self._node_cards(row).losses(choice.request, self.able.number(self.able.place(row)))])

    def _left(self, request: CardRequest, nodes: NodeRows, used: IntArray) -> IntArray:
        """(n, C) what is free of each card once the request has been served by it."""
        capacity, after = nodes_of(self._cards.capacity, nodes), used.copy()
        after[CARD_MEMORY] += self._table.memory_of(request, capacity)
        after[CORES] += request.cores
        after[SLOTS] += 1
        return self.free(nodes, after)


def _broken(
    demand: Demand, weights: Weights, free: IntArray, whole: NDArray[np.intp], several: FloatArray
) -> FloatArray:
    """(n, C) usable part for pods with several cards that is lost with each card that is wholly free."""
    lost = several - demand.of_whole(weights, np.maximum(whole - 1, 0))
    out: FloatArray = np.where(free == CARD, lost[:, None], 0.0)
    return out
