"""The part of free cards that typical pods can use, by what the cards have free and which of the pods a node can take.

Amounts of cards are thousandths, weights are whole numbers. All sums are of integers and exact, so that a node has the
same score alone as among others, whether it is computed for one node or for many at once.

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
"""About the sum of the weights of typical pods: small enough for sums in float32 to be exact."""
FloatArray = NDArray[np.float64]
Amounts = TypeVar("Amounts", float, FloatArray)


class Weights(NamedTuple):
    """Weights of the typical pods that some nodes (n) can take; nodes that can take the same pods share a row (u)."""

    by_share: FloatArray
    """(u, J + 1) of pods with a share of at most the first j sizes."""
    by_count: FloatArray
    """(u, K) of pods with several cards, by number of cards."""
    row: NDArray[np.int32]
    """(n,)"""


class Use:
    """The weights of one set of typical pods, for cards one by one."""

    __slots__ = ("_by_count", "_by_share", "_counts", "_lost", "_sizes")

    def __init__(self, sizes: list[int], by_share: list[float], counts: list[int], by_count: list[float]) -> None:
        self._sizes, self._by_share, self._counts, self._by_count = sizes, by_share, counts, by_count
        self._lost: dict[tuple[int, int], float] = {}
        """Results by the free part of a card, before and after: few different amounts come up."""

    def of_card(self, free: int) -> float:
        """The usable part of a card for pods with one card, by what is free of it."""
        return free * self._by_share[bisect_right(self._sizes, free)]

    def lost(self, change: tuple[int, int]) -> float:
        """The usable part that is lost where less is free of a card than before."""
        known = self._lost.get(change)
        if known is None:
            known = self._lost[change] = self.of_card(change[0]) - self.of_card(change[1])
        return known

    def of_whole(self, whole: int) -> float:
        """The usable part of so many wholly free cards for pods with several cards."""
        if not self._counts:
            return 0.0
        return sum(self._by_count[: bisect_right(self._counts, whole)]) * whole * CARD

    def of_counted(self, cards: int) -> float:
        """The usable part of so many wholly free cards, for all pods."""
        return cards * CARD * self._by_share[-1] + self.of_whole(cards)


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
        self._uses: dict[int, Use] = {}

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

    def use(self, able: Able, number: int) -> Use:
        """The weights on a node that can take one set of typical pods but for cards."""
        known = self._uses.get(number)
        if known is None:
            found = self.weights(able, np.array([number]))
            row = int(found.row[0])
            by_share, by_count = found.by_share[row].tolist(), found.by_count[row].tolist()
            known = self._uses[number] = Use(self.sizes.tolist(), by_share, self.counts.tolist(), by_count)
        return known

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

    def fragments(self, usable: Amounts, free: Amounts) -> Amounts:
        """Cards that the average pod cannot use, of what is free in thousandths; of one node or of several (n,)."""
        return (free * self.total - usable) / (CARD * self.total)

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
