"""The free part of a card, now and after serving a request: calculated once for all cards in the same state."""

from __future__ import annotations

from functools import partial

from kilauea.engine.devices.classes import Amounts, CardClasses, CardState, Figure
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.plugins.fragmentation.demand import CARD, NO_ROOM


class CardFigures:
    """Free thousandths by class of cards."""

    def __init__(self, classes: CardClasses) -> None:
        self._states = classes.states
        self.free = Figure(self._states, lambda state: free_of(state, state.later), int)
        self._left: dict[CardRequest, Figure[int]] = {}
        self._left_where: dict[PlainRequest, Figure[int]] = {}

    def left(self, request: CardRequest) -> Figure[int]:
        """The same after a card serves a request."""
        known = self._left.get(request)
        if known is None:
            known = self._left[request] = Figure(self._states, partial(left_of, request), int)
        return known

    def left_where(self, plain: PlainRequest) -> Figure[int]:
        """The same for cards with room for the request; `NO_ROOM` for the others."""
        known = self._left_where.get(plain)
        if known is None:

            def find(state: CardState) -> int:
                return left_of(plain.request, state) if plain.has_room(state) else NO_ROOM

            known = self._left_where[plain] = Figure(self._states, find, int)
        return known


def free_of(state: CardState, used: Amounts) -> int:
    """Free thousandths of a card with this usage, by the scarcer of memory and cores."""
    memory, cores, slots = state.offered
    if not state.there or used[2] >= slots:
        return 0
    by_memory = max(memory - used[0], 0) * float(CARD) / max(memory, 1)
    by_cores = max(cores - used[1], 0) * float(CARD) / max(cores, 1)
    return int(min(by_memory, by_cores))


def left_of(request: CardRequest, state: CardState) -> int:
    """Free thousandths of a card after it serves a request."""
    memory = request.memory or state.offered[0] * request.percent // 100
    used = state.later
    return free_of(state, (used[0] + memory, used[1] + request.cores, used[2] + 1))
