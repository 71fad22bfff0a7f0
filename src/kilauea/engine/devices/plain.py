"""Requests for cards of a single kind, on cards that are not split: the most common case.

The class of a card determines if it has room for such a request, so the cards of a node are looked up, not compared.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.classes import CardState, Figure, Followed
from kilauea.engine.devices.table import BoolArray, CardTable, has_room
from kilauea.engine.model.devices import CardRequest, DeviceWish
from kilauea.engine.model.nodes import NodeRows, NodeTable

MOST_KNOWN = 65536
"""Maximum number of cached choices for each request."""
FEW = 16
"""Up to this many nodes are checked one by one."""
Rows = NDArray[np.intp]


class Taken(NamedTuple):
    """Cards of one request: columns of the node's cards, and MiB and hundredths of cores of each."""

    request: CardRequest
    columns: tuple[int, ...]
    memory: tuple[int, ...]
    cores: tuple[int, ...]
    parts: tuple[int, ...] = ()
    """Numbers of the MIG instances on these cards, -1 for cards that are not split; empty if no card is."""


class PlainRequest:
    """A request for some cards of one kind.

    Attributes:
        table: the cards.
        request: the request, adapted to the configuration.
        eligible: (N, C) cards that the pod may have; None if it may have any that is healthy.
    """

    def __init__(self, table: CardTable, request: CardRequest, wish: DeviceWish) -> None:
        self.table, self.request = table, request
        self.eligible = table.eligible(wish) if wish.selects else None
        self._later, self._now = table.room(request, now=False), table.room(request, now=True)
        self.chosen: dict[Hashable, tuple[Taken, ...]] = {}
        """Cards that the request gets, by all that determines them; empty if there are too few."""
        self._codes: Followed | None = None
        """Results of `refusals` for room later, computed when they are needed."""
        self._enough: dict[int, bool] = {}
        """By key of a node's cards: True if there is room for the request later, if all cards are eligible."""

    def has_room(self, state: CardState) -> bool:
        """True if a card in this state has room for the request, if all cards are eligible."""
        return state.there and has_room(self.request, state.offered, state.later)

    def eligible_of(self, rows: Rows | None) -> BoolArray:
        """(n, C) eligible cards of some nodes, if not all are."""
        assert self.eligible is not None
        return self.eligible if rows is None else self.eligible.take(rows, axis=0)

    def fitting(self, rows: Rows | None, *, now: bool) -> BoolArray:
        """(n, C) cards of some nodes that have room for the request."""
        room = self._now if now and self.table.moving else self._later
        mask: BoolArray = room.table.take(self.table.classes.of(rows))
        return mask if self.eligible is None else mask & self.eligible_of(rows)

    def fitting_at(self, row: int, *, now: bool) -> list[int]:
        """Columns of the cards of a node that have room for the request; as `fitting`, but faster for one node."""
        room = (self._now if now and self.table.moving else self._later).values
        numbers = self.table.classes.numbers[row].tolist()
        if self.eligible is None:
            return [column for column, number in enumerate(numbers) if room[number]]
        eligible = self.eligible[row].tolist()
        return [column for column, number in enumerate(numbers) if eligible[column] and room[number]]

    def refusals(self, nodes: NodeRows, *, now: bool) -> NDArray[np.int8] | None:
        """(n,) 0 where a node has enough cards for the request, otherwise the reason; None if all have enough."""
        if now and self.table.moving:
            return self._judge(nodes, now=True)
        if nodes.rows is not None and len(nodes.rows) <= FEW and self.eligible is None:
            return self._refusals_of_few(nodes.rows.tolist())
        if self._codes is None:
            self._codes = Followed(self.table.classes, lambda: self._all(nodes.table), self._code)
        codes = self._codes.of(nodes.rows)
        return codes if np.count_nonzero(codes) else None

    def _refusals_of_few(self, rows: list[int]) -> NDArray[np.int8] | None:
        """As `refusals` for room later, where all cards are eligible."""
        keys, enough = self.table.classes.keys, self._enough.get
        found = [enough(keys[row]) for row in rows]
        if None in found:
            found = [self._enough_at(row) if known is None else known for row, known in zip(rows, found, strict=True)]
        if all(found):
            return None
        lack = self.table.lack.item
        return np.array([0 if known else lack(row) for row, known in zip(rows, found, strict=True)], dtype=np.int8)

    def _judge(self, nodes: NodeRows, *, now: bool) -> NDArray[np.int8] | None:
        """As `refusals`, without the cache."""
        return self.table.lacking(self.fitting(nodes.rows, now=now), self.request.number, nodes)

    def _all(self, nodes: NodeTable) -> NDArray[np.int8]:
        """(N,) as `_judge` for all nodes, with zeros if all have enough."""
        codes = self._judge(nodes.all(), now=False)
        return np.zeros(len(nodes), dtype=np.int8) if codes is None else codes

    def _code(self, row: int) -> int:
        """As `_judge` for one node."""
        return 0 if self._enough_at(row) else self.table.lack.item(row)

    def _enough_at(self, row: int) -> bool:
        """True if a node will have enough cards for the request later."""
        key = self.table.classes.key(row) if self.eligible is None else -1
        enough = self._enough.get(key)
        if enough is None:
            enough = len(self.fitting_at(row, now=False)) >= self.request.number
            if key >= 0:
                self._enough[key] = enough
        return enough

    def points_at(self, row: int, place: Figure[float], points: Figure[float]) -> float:
        """As `points`, for one node."""
        if self.request.number != 1 or self.eligible is not None:
            return float(self.points(np.array([row], dtype=np.intp), place, points)[0])
        numbers = self.table.classes.numbers[row].tolist()
        found: float = points.values[min(numbers, key=place.values.__getitem__)]
        return found

    def points(self, rows: Rows | None, place: Figure[float], points: Figure[float]) -> NDArray[np.float64]:
        """(n,) the sum of the points of the cards that a pod would get, those first in the order; 0 if it gets none.

        By class of cards; the place is infinite and the points are 0 for cards without room.
        """
        numbers, wanted = self.table.classes.of(rows), self.request.number
        places = place.table.take(numbers)
        if self.eligible is not None:
            places[~self.eligible_of(rows)] = np.inf
        if wanted == 1:
            columns = places.argmin(axis=1)[:, None]
        else:
            columns = places.argsort(axis=1, kind="stable")[:, :wanted]
        at = np.arange(len(numbers))[:, None]
        total: NDArray[np.float64] = np.add.reduce(points.table.take(numbers[at, columns]), axis=1)
        if wanted > 1 or self.eligible is not None:
            total[np.isinf(places[at, columns]).any(axis=1) | (columns.shape[1] < wanted)] = 0.0
        return total
