"""The cards of one node, for the typical pods: as `families.py` computes it for many nodes, but card by card.

Between two pods of a kind only a few nodes change. For so few, numbers of Python are several times as fast as arrays,
and what is found holds for all nodes whose cards are in the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kilauea.engine.model.devices import CardRequest
from kilauea.engine.plugins.fragmentation.demand import CARD, Demand, Use


class CardState(NamedTuple):
    """A card: what it offers, and what is used of it."""

    memory: int
    cores: int
    slots: int
    used_memory: int
    used_cores: int
    used_slots: int
    there: bool
    """It is healthy."""

    @property
    def free(self) -> int:
        """Thousandths that are free, by the scarcer of memory and cores."""
        if not self.there or self.used_slots >= self.slots:
            return 0
        memory = max(self.memory - self.used_memory, 0) * float(CARD) / max(self.memory, 1)
        cores = max(self.cores - self.used_cores, 0) * float(CARD) / max(self.cores, 1)
        return int(min(memory, cores))

    def need(self, request: CardRequest) -> int:
        """MiB that a request takes of it."""
        return request.memory or self.memory * request.percent // 100

    def left(self, request: CardRequest) -> int:
        """Thousandths that are free once a request has been served by it."""
        memory, cores = self.used_memory + self.need(request), self.used_cores + request.cores
        return self._replace(used_memory=memory, used_cores=cores, used_slots=self.used_slots + 1).free


class Wanted(NamedTuple):
    """A request for one card, and nothing else of its kind; or for none."""

    number: int
    """Wishes that are the same have the same."""
    request: CardRequest | None
    fitting: Callable[[int], list[int]]
    """Columns of the cards of a node, by row, that have room for it."""


class NodeCards:
    """The cards of the nodes on which all cards are in the same state."""

    def __init__(self, demand: Demand, uses: Callable[[int], Use], cards: list[CardState]) -> None:
        self._demand, self._uses, self._cards = demand, uses, cards
        self._free = [card.free for card in cards]
        self._whole = self._free.count(CARD)
        self._usable: dict[int, float] = {}
        """By set of typical pods."""
        self._changes: dict[int, list[tuple[int, int]]] = {}
        """By request: what is free of a card that can serve it, before and after, each pair once."""
        self._with: dict[tuple[int, int], float] = {}
        """By request and set of typical pods."""

    def fragments(self, able: int) -> float:
        """Cards that the average pod cannot use, where a set of typical pods can be."""
        return self._demand.fragments(self._usable_by(able), float(sum(self._free)))

    def _usable_by(self, able: int) -> float:
        known = self._usable.get(able)
        if known is None:
            use = self._uses(able)
            known = self._usable[able] = sum(map(use.of_card, self._free)) + use.of_whole(self._whole)
        return known

    def fragments_with(self, wanted: Wanted, able: int, row: int) -> float:
        """The same with a request that is served by the card of which least is lost; `row` is one of the nodes."""
        known = self._with.get((wanted.number, able))
        if known is None:
            lost, taken = self._least(wanted, able, row)
            usable = self._usable_by(able) - lost
            known = self._demand.fragments(usable, float(sum(self._free) - taken))
            self._with[wanted.number, able] = known
        return known

    def _least(self, wanted: Wanted, able: int, row: int) -> tuple[float, int]:
        """The least usable part that the request takes from a card, and the thousandths that it takes there."""
        changes = self._changes.get(wanted.number)
        if changes is None:
            changes = self._changes[wanted.number] = self._changed(wanted, row)
        if not changes:
            return 0.0, 0
        use, best = self._uses(able), (np.inf, 0)
        broken = self._broken(use)
        for change in changes:
            lost = use.lost(change) + (broken if change[0] == CARD else 0.0)
            # Of those that lose the same the first, as the order of cards has it.
            if lost < best[0]:
                best = lost, change[0] - change[1]
        return best

    def losses(self, request: CardRequest, able: int) -> list[float]:
        """The usable part that is lost if a card serves a request, by card, whether or not it has room for it."""
        use = self._uses(able)
        broken = self._broken(use)
        return [
            use.lost((free, card.left(request))) + (broken if free == CARD else 0.0)
            for card, free in zip(self._cards, self._free, strict=True)
        ]

    def _broken(self, use: Use) -> float:
        """The usable part for pods with several cards that is lost with a card that is wholly free."""
        return use.of_whole(self._whole) - use.of_whole(self._whole - 1) if self._whole else 0.0

    def _changed(self, wanted: Wanted, row: int) -> list[tuple[int, int]]:
        request = wanted.request
        if request is None:
            return []
        fitting = [self._cards[column] for column in wanted.fitting(row)]
        return list(dict.fromkeys((card.free, card.left(request)) for card in dict.fromkeys(fitting)))
