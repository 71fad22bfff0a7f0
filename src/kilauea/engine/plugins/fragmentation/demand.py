"""The usable part of free cards for typical pods, by the free parts of cards and the pods that a node accepts.

Amounts of cards are thousandths, weights are whole numbers. All sums are of integers and exact, so a node has the same
score whether it is computed alone or together with others.

All pods weigh the same, as in the paper.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.table import IntArray
from kilauea.engine.plugins.fragmentation.able import Able
from kilauea.engine.plugins.fragmentation.mix import Mix, Typical

CARD = 1000
WEIGHTS = 1 << 20
"""Approximate sum of the weights of typical pods: small enough for sums in float32 to be exact."""
FREE = np.arange(CARD + 1)
"""All possible free amounts of a card."""
NO_ROOM = CARD + 1
"""The free amount of a card without room for a request: serving it would cost infinitely much."""
WIDTH = CARD + 2
FloatArray = NDArray[np.float64]
Amounts = TypeVar("Amounts", float, FloatArray)


class Weights(NamedTuple):
    """Weights of the typical pods that nodes (n) can accept; nodes that accept the same pods share a row (u)."""

    by_share: FloatArray
    """(u, J + 1) of pods whose share is one of the j smallest sizes."""
    by_count: FloatArray
    """(u, K) of pods with several cards, by number of cards."""
    by_free: FloatArray
    """(u, WIDTH) the usable part of a card for pods with one card, by its free amount."""
    first: NDArray[np.intp]
    """(n,) index in the flat `by_free` where the usable parts of each node start."""

    @property
    def row(self) -> NDArray[np.intp]:
        """(n,) row of the weights."""
        return self.first // WIDTH


class Use:
    """The weights of one set of typical pods, for computing cards one by one."""

    __slots__ = ("_by_count", "_of_all", "by_free", "counts")

    def __init__(self, by_free: list[float], of_all: float, counts: list[int], by_count: list[float]) -> None:
        self.by_free = by_free
        """The usable part of a card for pods with one card, by its free amount."""
        self.counts = counts
        """Numbers of cards of pods with several cards."""
        self._of_all, self._by_count = of_all, by_count

    def of_whole(self, whole: int) -> float:
        """The usable part of this many entirely free cards for pods with several cards."""
        if not self.counts:
            return 0.0
        return sum(self._by_count[: bisect_right(self.counts, whole)]) * whole * CARD

    def of_counted(self, cards: int) -> float:
        """The usable part of this many entirely free cards for all pods."""
        return cards * CARD * self._of_all + self.of_whole(cards)


class Demand:
    """The shares and numbers of cards that typical pods request, on cards of one size."""

    def __init__(self, mix: Mix, card_memory: int) -> None:
        shares = [_share(typical, card_memory) for typical in mix.pods]
        self.sizes = np.array(
            sorted({s for s, t in zip(shares, mix.pods, strict=True) if t.cards == 1}), dtype=np.int64
        )
        """(J,) shares of pods with one card."""
        self.counts = np.array(sorted({t.cards for t in mix.pods if t.cards > 1}), dtype=np.int64)
        """(K,) numbers of cards of pods with several cards."""
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
        self._steps = self.sizes.searchsorted(FREE, side="right")
        """(CARD + 1,) number of sizes that fit in each free amount of a card."""
        self._place: NDArray[np.intp] | None = None
        """By set of typical pods: the start of its row of weights, -1 if it does not have one yet."""
        self._size = 0
        """Number of sets with weights; the arrays have room for more."""
        self._by_share = self._by_count = self._by_free = np.zeros((0, 0))
        self._uses: dict[int, Use] = {}

    def weights(self, able: Able, sets: IntArray) -> Weights:
        """Return the weights of nodes that can accept some sets of typical pods (n,), apart from cards."""
        # A cluster has far fewer sets than nodes, and the same sets recur.
        if self._place is None:
            self._place = np.full(able.sets, -1, dtype=np.intp)
        first = self._place.take(sets)
        if len(first) and np.minimum.reduce(first) < 0:
            self._take(able, np.unique(sets[first < 0]), self._place)
            first = self._place.take(sets)
        return Weights(self._by_share, self._by_count, self._by_free, first)

    def _take(self, able: Able, new: IntArray, place: NDArray[np.intp]) -> None:
        """Compute the weights of sets that do not have any yet."""
        size = self._size + len(new)
        if size > len(self._by_free):
            self._by_share = _longer(self._by_share, 2 * size, self._cut)
            self._by_count = _longer(self._by_count, 2 * size, len(self.counts))
            self._by_free = _longer(self._by_free, 2 * size, WIDTH)
        rows = np.arange(self._size, size)
        found = (able.pods(new).astype(np.float32) @ self._table).astype(np.float64)
        self._by_share[rows], self._by_count[rows] = found[:, : self._cut], found[:, self._cut :]
        self._by_free[rows, :NO_ROOM] = FREE * found[:, self._steps]
        self._by_free[rows, NO_ROOM] = -np.inf
        place[new], self._size = rows * WIDTH, size

    def use(self, able: Able, number: int) -> Use:
        """Return the weights of a node that can accept one set of typical pods, apart from cards."""
        known = self._uses.get(number)
        if known is None:
            found = self.weights(able, np.array([number]))
            row = int(found.row[0])
            by_free, by_count = found.by_free[row].tolist(), found.by_count[row].tolist()
            of_all = float(found.by_share[row, -1])
            known = self._uses[number] = Use(by_free, of_all, self.counts.tolist(), by_count)
        return known

    def of_cards(self, weights: Weights, free: IntArray) -> FloatArray:
        """(n, C) usable part of each card for pods with one card, by the free amounts of the cards (n, C)."""
        part: FloatArray = weights.by_free.take(free + weights.first[:, None])
        return part

    def of_whole(self, weights: Weights, whole: IntArray) -> FloatArray:
        """(n,) usable part of this many entirely free cards (n,) for pods with several cards."""
        if not len(self.counts):
            return np.zeros(len(whole))
        wanted: FloatArray = (weights.by_count[weights.row] * (whole[:, None] >= self.counts)).sum(axis=1)
        return wanted * whole * CARD

    def fragments(self, usable: Amounts, free: Amounts) -> Amounts:
        """The cards out of the free thousandths that the average pod cannot use, for one node or for several (n,)."""
        return (free * self.total - usable) / (CARD * self.total)

    def usable(self, weights: Weights, free: IntArray) -> FloatArray:
        """(n,) usable part of the free cards (n, C)."""
        out: FloatArray = self.of_cards(weights, free).sum(axis=1) + self.of_whole(weights, (free == CARD).sum(axis=1))
        return out


def _longer(rows: FloatArray, count: int, width: int) -> FloatArray:
    """Return a copy with room for this many rows."""
    out = np.empty((count, width))
    if len(rows):
        out[: len(rows)] = rows
    return out


def _share(typical: Typical, card_memory: int) -> int:
    """Thousandths of each of its cards that a typical pod uses; more than a card if it does not fit."""
    if typical.card_memory:
        by_memory = -(-typical.card_memory * CARD // card_memory) if card_memory else CARD + 1
    else:
        by_memory = typical.percent * CARD // 100
    return min(max(by_memory, typical.cores * CARD // 100, 1), CARD + 1)
