"""The usable part of free cards, for the typical pods of one kind of cards.

A free card is of use to a typical pod if the pod may be on the node and has its cores and memory there, if the free
part of the card is as large as the pod's share, and for a pod with several cards, if that many are wholly free. Summed
over the cards and the typical pods by their weight, this is the usable part; the rest of what is free is fragments.

Amounts of cards are thousandths, weights are whole numbers. All sums are of integers and exact, so that a node has the
same score alone as among others.

All pods weigh the same, as in the paper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.ledger import DeviceLedger
from kilauea.engine.devices.order import CardChoice, nodes_of
from kilauea.engine.devices.table import CORES, SLOTS, IntArray
from kilauea.engine.devices.table import MEMORY as CARD_MEMORY
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.mix import Mix, Typical

CARD = 1000
WEIGHTS = 1 << 20
"""About the sum of the weights of typical pods: small enough for sums in float32 to be exact."""
FloatArray = NDArray[np.float64]


class Weights(NamedTuple):
    """Weights of the typical pods that some nodes (n) can take; nodes that can take the same pods share a row (u)."""

    by_share: FloatArray
    """(u, J + 1) of pods with a share of at most the first j sizes."""
    by_count: FloatArray
    """(u, K) of pods with several cards, by number of cards."""
    row: NDArray[np.int32]
    """(n,)"""


class Demand:
    """The shares and numbers of cards that typical pods ask for, on cards of one size."""

    def __init__(self, mix: Mix, card_memory: int) -> None:
        shares = [_share(typical, card_memory) for typical in mix.pods]
        self.sizes = np.array(
            sorted({s for s, t in zip(shares, mix.pods, strict=True) if t.cards == 1}), dtype=np.int64
        )
        """(J,) shares of pods with one card."""
        self.counts = np.array(sorted({t.cards for t in mix.pods if t.cards > 1}), dtype=np.int64)
        """(K,) numbers of cards of pods with several."""
        single = np.zeros((len(shares), len(self.sizes)))
        several = np.zeros((len(shares), len(self.counts)))
        weights = [max(number * WEIGHTS // sum(mix.numbers), 1) for number in mix.numbers]
        self.total = sum(weights)
        for number, (share, typical, weight) in enumerate(zip(shares, mix.pods, weights, strict=True)):
            if typical.cards == 1:
                single[number, np.searchsorted(self.sizes, share)] = weight
            else:
                several[number, np.searchsorted(self.counts, typical.cards)] = weight
        none = np.zeros((len(shares), 1))
        # Sums of whole numbers below 2**24 are exact in float32, in whatever order they are summed.
        self._table = np.concatenate([none, single.cumsum(axis=1), several], axis=1).astype(np.float32)
        self._cut = len(self.sizes) + 1
        self._place: NDArray[np.int32] | None = None
        """By set of typical pods: its row of the weights, -1 if it has none yet."""
        self._found = np.zeros((0, self._table.shape[1]), dtype=np.float32)
        self._by_share = self._by_count = np.zeros((0, 0))

    def weights(self, able: Able, sets: IntArray) -> Weights:
        """The weights on nodes that can take some sets of typical pods (n,) but for cards."""
        # A cluster has far fewer sets than nodes, and they come up again and again.
        if self._place is None:
            self._place = np.full(able.sets, -1, dtype=np.int32)
        row = self._place.take(sets)
        if len(row) and row.min() < 0:
            new = np.unique(sets[row < 0])
            self._place[new] = np.arange(len(self._found), len(self._found) + len(new))
            self._found = np.concatenate([self._found, (able.pods(new).astype(np.float32) @ self._table)])
            found = self._found.astype(np.float64)
            self._by_share, self._by_count = np.ascontiguousarray(found[:, : self._cut]), found[:, self._cut :]
            row = self._place.take(sets)
        return Weights(self._by_share, self._by_count, row)

    def of_cards(self, weights: Weights, free: IntArray) -> FloatArray:
        """(n, C) usable part of each card for pods with one card, by what is free of it (n, C)."""
        index = self.sizes.searchsorted(free, side="right")
        index += weights.row[:, None] * self._cut
        part: FloatArray = free * weights.by_share.take(index)
        return part

    def of_whole(self, weights: Weights, whole: IntArray) -> FloatArray:
        """(n,) usable part of so many wholly free cards (n,) for pods with several cards."""
        if not len(self.counts):
            return np.zeros(len(whole))
        wanted: FloatArray = (weights.by_count[weights.row] * (whole[:, None] >= self.counts)).sum(axis=1)
        return wanted * whole * CARD

    def fragments(self, usable: FloatArray, free: FloatArray) -> FloatArray:
        """(n,) cards that the average pod cannot use, of what is free in thousandths (n,)."""
        out: FloatArray = (free * self.total - usable) / (CARD * self.total)
        return out

    def usable(self, weights: Weights, free: IntArray) -> FloatArray:
        """(n,) usable part of the free cards (n, C)."""
        out: FloatArray = self.of_cards(weights, free).sum(axis=1) + self.of_whole(weights, (free == CARD).sum(axis=1))
        return out


def _share(typical: Typical, card_memory: int) -> int:
    """Thousandths of a card that a typical pod takes of each of its cards; more than a card if it does not fit."""
    if typical.card_memory:
        by_memory = -(-typical.card_memory * CARD // card_memory) if card_memory else CARD + 1
    else:
        by_memory = typical.percent * CARD // 100
    return min(max(by_memory, typical.cores * CARD // 100, 1), CARD + 1)


class Able:
    """The typical pods that nodes can take but for cards.

    Free cores and memory and the rules of selectors decide; nodes where each has the same rank take the same set.
    """

    def __init__(self, mix: Mix, nodes: NodeTable) -> None:
        self._rules, rule = np.unique(mix.allowed(nodes), axis=0, return_inverse=True)
        self._rule = rule.reshape(-1)
        """(N,) row of `_rules` (k, M)."""
        self._cpu, self._cpu_rank = _ranked([typical.cpu for typical in mix.pods])
        self._memory, self._memory_rank = _ranked([typical.memory for typical in mix.pods])
        self._cpu_steps, self._memory_steps = self._cpu.tolist(), self._memory.tolist()
        self._nodes = nodes
        self.sets = (len(self._cpu) + 1) * (len(self._memory) + 1) * len(self._rules)
        """The number of sets."""

    def at(self, nodes: NodeRows, shape: TaskShape | None) -> IntArray:
        """(n,) numbers of the sets for nodes as they are, or with a pod of a shape."""
        free = nodes.allocatable[:2] - nodes.used[:2] + nodes.releasing[:2] - nodes.pipelined[:2]
        if shape is not None:
            free = free - shape.request[:2, None]
        cpu = self._cpu.searchsorted(free[0], side="right")
        memory = self._memory.searchsorted(free[1], side="right")
        out: IntArray = (cpu * (len(self._memory) + 1) + memory) * len(self._rules) + nodes.take(self._rule)
        return out

    def one(self, row: int) -> int:
        """The number of the set for one node as it is; as `at`, but quicker."""
        nodes = self._nodes
        cpu, memory = (
            nodes.allocatable[:2, row] - nodes.used[:2, row] + nodes.releasing[:2, row] - nodes.pipelined[:2, row]
        ).tolist()
        ranks = bisect_right(self._cpu_steps, cpu), bisect_right(self._memory_steps, memory)
        return (ranks[0] * (len(self._memory_steps) + 1) + ranks[1]) * len(self._rules) + int(self._rule[row])

    def pods(self, sets: IntArray) -> NDArray[np.bool_]:
        """(u, M) pods of some sets."""
        ranks, rule = np.divmod(sets, len(self._rules))
        cpu, memory = np.divmod(ranks, len(self._memory) + 1)
        out: NDArray[np.bool_] = (cpu[:, None] > self._cpu_rank) & (memory[:, None] > self._memory_rank)
        return out & self._rules[rule]


def _ranked(amounts: list[int]) -> tuple[IntArray, NDArray[np.intp]]:
    """Different amounts in order, and the rank of each."""
    steps, rank = np.unique(np.array(amounts, dtype=np.int64), return_inverse=True)
    return steps, rank


class Family(ABC):
    """Cards of one kind, and the pods that want them; fragments are computed again where something changed."""

    def __init__(self, nodes: NodeTable, mix: Mix) -> None:
        self._nodes = nodes
        self.able = Able(mix, nodes)
        self.part = sum(mix.numbers) / max(mix.total, 1)
        """Part of the pods with cards that want these."""
        self.stale = np.ones(len(nodes), dtype=bool)
        """(N,) nodes that changed since their fragments were computed."""
        self._known = np.zeros(len(nodes))

    def growth(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) by how many cards the fragments of a node grow if a pod of this shape comes."""
        return self.fragments_with(shape, nodes) - self._fragments_now(nodes)

    @abstractmethod
    def fragments(self, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments now."""

    @abstractmethod
    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """(n,) cards that are fragments once a pod of this shape has come."""

    def _fragments_now(self, nodes: NodeRows) -> FloatArray:
        """(n,) `fragments`, as they were computed when the nodes last changed."""
        stale = np.flatnonzero(self.stale)
        if len(stale):
            self._known[stale] = self.fragments(self._nodes.select(stale))
            self.stale[stale] = False
        return nodes.take(self._known)


class WholeCards(Family):
    """Cards that a node only counts."""

    def __init__(self, mix: Mix, nodes: NodeTable, resource: int) -> None:
        super().__init__(nodes, mix)
        self._resource = resource
        self._demand = Demand(mix, 0)

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None)

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, shape)

    def _at(self, nodes: NodeRows, shape: TaskShape | None) -> FloatArray:
        row = self._resource
        free = nodes.future_idle[row] - (shape.request[row] if shape is not None else 0)
        cards = np.maximum(free // CARD, 0)
        weights = self._demand.weights(self.able, self.able.at(nodes, shape))
        usable = cards * CARD * weights.by_share[weights.row, -1] + self._demand.of_whole(weights, cards)
        return self._demand.fragments(usable, (cards * CARD).astype(np.float64))


class SharedCards(Family):
    """Cards that pods share, one by one."""

    def __init__(self, mix: Mix, nodes: NodeTable, kind: str, ledger: DeviceLedger) -> None:
        super().__init__(nodes, mix)
        self._kind = kind
        self._ledger = ledger
        self._cards = ledger.tables[kind].cards
        sizes = self._cards.capacity[CARD_MEMORY].max(axis=1)
        known = np.unique(sizes[self._cards.registered])
        sizes[~self._cards.registered] = known[0] if len(known) else 0
        self._demands = [Demand(mix, int(size)) for size in known] or [Demand(mix, 0)]
        self._demand_of = known.searchsorted(sizes)
        """(N,) number of the demand, by the memory of the node's cards."""

    def fragments(self, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        return self._at(nodes, None, nodes_of(self._ledger.tables[self._kind].later, nodes))

    def fragments_with(self, shape: TaskShape, nodes: NodeRows) -> FloatArray:
        """See `Family`."""
        request = self._only_request(shape)
        if request is not None:
            return self._with_one_card(request, shape, nodes)
        _, after = self._ledger.after(shape, nodes, self._kind)
        return self._at(nodes, shape, after)

    def _only_request(self, shape: TaskShape) -> CardRequest | None:
        """The request of a pod that wants one card, and nothing else of this kind."""
        wish = shape.spec.devices
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
            rows = np.arange(len(column))
            usable = cards.sum(axis=1) + several - np.where(mask[part].any(axis=1), lost[rows, column], 0.0)
            taken = (before[part] - left[part])[rows, column]
            out[part] = demand.fragments(usable, before[part].sum(axis=1).astype(np.float64) - taken)
        return out

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
        """(n, C) what is free of each card once the request has been served by it."""
        capacity, after = nodes_of(self._cards.capacity, nodes), used.copy()
        after[CARD_MEMORY] += self._ledger.tables[self._kind].memory_of(request, capacity)
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
