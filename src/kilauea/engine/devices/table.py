"""The cards of one kind on all nodes, as arrays (N, C): a row for each node, its cards in the order of registration.

The usage of a card is counted twice, as for nodes: `held` by pods that are present, including terminating ones; and
`later`, without resources that are being released and with nominations. A pod that starts now needs room in addition to
both; a nomination only in addition to the latter.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api import devices
from kilauea.api.device_config import DeviceConfig
from kilauea.engine.devices.classes import Amounts, CardClasses, CardState, Figure, classes_of
from kilauea.engine.devices.mig import MigShapes
from kilauea.engine.model.devices import ASCEND, SOFTLY, CardRequest, DeviceSet, DeviceWish
from kilauea.engine.model.nodes import NodeRows, NodeTable

MEMORY, CORES, SLOTS = 0, 1, 2
"""First index of amounts: MiB, hundredths of cores, containers."""
READ_FAULT, NO_CARDS, TOO_FEW = 1, 2, 3
"""Reasons why a node has no cards for a pod."""

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Cards(NamedTuple):
    """Cards that the nodes register; they change only with the node objects."""

    kind: str
    sets: tuple[DeviceSet | None, ...]
    """By node."""
    capacity: IntArray
    """(3, N, C) capacity of the cards; zero where there is no card."""
    there: BoolArray
    """(N, C) healthy cards."""
    model: NDArray[np.int32]
    """(N, C) number of the card's model."""
    models: tuple[str, ...]
    columns: tuple[dict[str, int], ...]
    """By node: the column of a card, by its id."""
    faulty: BoolArray
    """(N,) nodes with annotations that cannot be read."""
    registered: BoolArray
    """(N,) nodes with cards."""
    soft: BoolArray
    """(N,) nodes whose NPUs are shared by software."""
    network: NDArray[np.int64]
    """(N, C) number of a card's network; -1 unless all cards of the node have one."""
    locked: IntArray
    """(N,) time at which a node was locked for a bind; 0 without a lock."""
    alike: IntArray
    """(N,) number of the node's set of cards, equal for nodes whose cards differ only in their ids."""
    numbers: NDArray[np.intp]
    """(N, C) class number of each card while unused."""
    states: list[CardState]
    """The classes, by number."""
    mig: MigShapes | None = None
    """The instances of cards in mode mig; None if there are no such cards."""


def cards_of(nodes: NodeTable, kind: str, config: DeviceConfig) -> Cards:
    """The cards of a kind on all nodes."""
    sets = tuple(_usable(next((s for s in facts.devices if s.kind == kind), None), config) for facts in nodes.facts)
    width = max((len(s.cards) for s in sets if s is not None), default=0)
    capacity = np.zeros((3, len(sets), max(width, 1)), dtype=np.int64)
    there = np.zeros(capacity.shape[1:], dtype=bool)
    model = np.zeros(there.shape, dtype=np.int32)
    network = np.full(there.shape, -1, dtype=np.int64)
    models: dict[str, int] = {"": 0}
    columns: list[dict[str, int]] = []
    soft = np.array([s is not None and (s.mode == SOFTLY or (not s.mode and config.soft)) for s in sets], dtype=bool)
    for row, found in enumerate(sets):
        cards = found.cards if found is not None else ()
        connected = all(card.network >= 0 for card in cards)
        columns.append({card.id: column for column, card in enumerate(cards)})
        for column, card in enumerate(cards):
            # Cards that are shared by software have hundredths, regardless of the number of cores of a chip.
            capacity[:, row, column] = card.memory, devices.WHOLE if soft[row] else card.cores, card.slots
            there[row, column] = card.healthy
            model[row, column] = models.setdefault(card.model, len(models))
            network[row, column] = card.network if connected else -1
    faulty = np.array([s is not None and bool(s.fault) for s in sets], dtype=bool)
    registered: BoolArray = np.logical_or.reduce(there, axis=1)
    mig = _mig_shapes(sets, config, width)
    locked = np.array([s.locked if s is not None else 0 for s in sets], dtype=np.int64)
    names, places = tuple(models), tuple(columns)
    geometry = mig.geometry if mig is not None else np.zeros((len(sets), 0), dtype=np.int64)
    modes = np.unique(np.array([s.mode if s is not None else "" for s in sets]), return_inverse=True)[1]
    columns_of_nodes = (*capacity, there, model, network, geometry, faulty, soft, locked, modes)
    alike = _numbered([np.asarray(column, dtype=np.int64).reshape(len(sets), -1) for column in columns_of_nodes])
    classes = classes_of(capacity, there)
    return Cards(
        kind,
        sets,
        capacity,
        there,
        model,
        names,
        places,
        faulty,
        registered,
        soft,
        network,
        locked,
        alike,
        *classes,
        mig,
    )


def _numbered(columns: list[IntArray]) -> IntArray:
    """(N,) a number for each distinct row of the columns (N, k)."""
    rows = np.concatenate(columns, axis=1)
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in rows], dtype=np.int64)


def _usable(found: DeviceSet | None, config: DeviceConfig) -> DeviceSet | None:
    """The cards of a node; with a fault if one is in mode mig and its model's geometry is unknown."""
    if found is None or found.mode != devices.MIG:
        return found
    unknown = next((card.model for card in found.cards if config.geometry_of(card.model) < 0), None)
    if unknown is None:
        return found
    fault = (
        f"{devices.VGPU_REGISTER}: its cards are in mode mig, and no geometry of model {unknown[:80]!r} is known: "
        "add it to knownMigGeometries in the ConfigMap of the devices"
    )
    return found._replace(cards=(), fault=fault)


def _mig_shapes(sets: tuple[DeviceSet | None, ...], config: DeviceConfig, width: int) -> MigShapes | None:
    if not any(s is not None and s.mode == devices.MIG and s.cards for s in sets):
        return None
    numbers = [
        [config.geometry_of(card.model) for card in s.cards] if s is not None and s.mode == devices.MIG else []
        for s in sets
    ]
    return MigShapes(config.geometries, numbers, width)


class CardTable:
    """The cards of one kind in one cycle."""

    def __init__(self, cards: Cards) -> None:
        self.cards = cards
        self._held: IntArray = np.zeros_like(cards.capacity)
        self._later: IntArray = np.zeros_like(cards.capacity)
        self._booked: list[tuple[int, int]] = []
        """Row and column of cards that were booked since `held` and `later` were last read."""
        self.moving = 0
        """Number of pods that terminate or are nominated; without any, `held` and `later` are equal."""
        size = (*cards.there.shape, cards.mig.width if cards.mig is not None else 0)
        self.parts_held: IntArray = np.zeros(size, dtype=np.int64)
        """(N, C, P) pods on each MIG instance."""
        self.parts_later: IntArray = np.zeros_like(self.parts_held)
        self.classes = CardClasses(cards.numbers, cards.states)
        self._eligible: dict[tuple[object, ...], BoolArray] = {}
        self._room: dict[tuple[object, ...], Figure[bool]] = {}
        self.lack = np.where(cards.registered, np.int8(TOO_FEW), np.int8(NO_CARDS))
        """(N,) the reason why a node has too few cards, if it does."""
        self.lack[cards.faulty] = READ_FAULT

    @property
    def held(self) -> IntArray:
        """(3, N, C) usage of each card by pods that are present."""
        self._catch_up()
        return self._held

    @property
    def later(self) -> IntArray:
        """(3, N, C) the same without resources that are being released, with nominations."""
        self._catch_up()
        return self._later

    def _catch_up(self) -> None:
        """Update the arrays from the classes of cards; most requests do not need the arrays."""
        if not self._booked:
            return
        numbers, states = self.classes.numbers, self.classes.states
        for row, column in dict.fromkeys(self._booked):
            state = states[numbers.item(row, column)]
            self._held[:, row, column], self._later[:, row, column] = state.held, state.later
        self._booked.clear()

    def eligible(self, wish: DeviceWish) -> BoolArray:
        """(N, C) cards that a pod may use at all: healthy, and of a model and with an id that it allows."""
        key = (wish.mode, wish.models, wish.not_models, wish.ids, wish.not_ids, wish.soft)
        known = self._eligible.get(key)
        if known is None:
            known = self._eligible[key] = self._judge(wish)
        return known

    def _judge(self, wish: DeviceWish) -> BoolArray:
        cards = self.cards
        out = cards.there.copy()
        if wish.models or wish.not_models:
            names = [name.upper() for name in cards.models]
            right = [not wish.models or any(part in name for part in wish.models) for name in names]
            wrong = [not wish.models and any(part in name for part in wish.not_models) for name in names]
            out &= (np.array(right) & ~np.array(wrong))[cards.model]
        ascend = cards.kind.startswith(ASCEND)
        if wish.soft and ascend:
            out &= cards.soft[:, None]
        if wish.mode and not ascend:
            out &= np.array([s is not None and s.mode == wish.mode for s in cards.sets], dtype=bool)[:, None]
        if wish.ids:
            named = np.zeros_like(out)
            for card in wish.ids:
                self._mark(named, card, True)
            out &= named
        for card in wish.not_ids:
            self._mark(out, card, False)
        return out

    def _mark(self, mask: BoolArray, card: str, value: bool) -> None:
        for row, columns in enumerate(self.cards.columns):
            if card in columns:
                mask[row, columns[card]] = value

    def memory_of(self, request: CardRequest, capacity: IntArray) -> IntArray | int:
        """MiB of each card that a request uses: a number, or (n, C) for a percentage."""
        return request.memory if request.memory else capacity[MEMORY] * request.percent // 100

    def room(self, request: CardRequest, *, now: bool) -> Figure[bool]:
        """By class of cards: True if a card has room for a request, now or once terminating pods have ended."""
        key = (request.memory, request.percent, request.cores, request.alone, now)
        known = self._room.get(key)
        if known is None:

            def find(state: CardState) -> bool:
                uses = (state.later, state.held) if now else (state.later,)
                return state.there and all(has_room(request, state.offered, used) for used in uses)

            known = self._room[key] = Figure(self.classes.states, find, bool)
        return known

    def lacking(self, mask: BoolArray, number: int, nodes: NodeRows) -> NDArray[np.int8] | None:
        """(n,) 0 where a mask (n, C) has enough cards, otherwise the reason; None if it has enough everywhere."""
        enough: BoolArray = np.logical_or.reduce(mask, axis=1) if number == 1 else mask.sum(axis=1) >= number
        if np.logical_and.reduce(enough):
            return None  # a mask has no cards on nodes without cards or with unreadable ones
        codes = nodes.take(self.lack).copy()
        codes[enough] = 0
        return codes

    def fitting(
        self, request: CardRequest, wish: DeviceWish, rows: NDArray[np.intp] | None, *used: IntArray
    ) -> BoolArray:
        """(n, C) cards with room for a request in addition to each of the usages (3, n, C)."""
        capacity, out = self.cards.capacity, self.eligible(wish)
        if rows is not None:
            capacity, out = capacity.take(rows, axis=1), out.take(rows, axis=0)
        memory = self.memory_of(request, capacity)
        for taken in used:
            out = out & (taken[SLOTS] < capacity[SLOTS]) & (taken[MEMORY] + memory <= capacity[MEMORY])
            if request.alone:
                out &= taken[SLOTS] == 0
            elif request.cores:
                out &= taken[CORES] + request.cores <= capacity[CORES]
            else:
                out &= taken[CORES] < capacity[CORES]
        return out

    def instances(
        self, need: IntArray | int, rows: NDArray[np.intp] | None, *used: IntArray
    ) -> NDArray[np.int64] | None:
        """(n, C) the MIG instance that each card would give with the usages (n, C, P); None if no card is split."""
        return None if self.cards.mig is None else self.cards.mig.choose(need, rows, *used)

    def book_parts(self, columns: tuple[int, ...], parts: tuple[int, ...], row: int, *, held: int, later: int) -> None:
        """Add a pod to MIG instances of a node, by column, multiplied by 1, 0 or -1."""
        for column, part in zip(columns, parts, strict=False):
            if part >= 0:
                self.parts_held[row, column, part] += held
                self.parts_later[row, column, part] += later

    def states(self, rows: NDArray[np.intp]) -> IntArray:
        """(n, k) all that determines which requests the cards of nodes can serve, except the ids of the cards."""
        moving, size = self.moving > 0, len(rows)
        out = [2 * self.cards.alike.take(rows)[:, None] + moving]  # the first column tells if `held` follows
        for use in [self.later, self.held] if moving else [self.later]:
            out.append(use.take(rows, axis=1).transpose(1, 0, 2).reshape(size, -1))
        if self.cards.mig is not None:
            out += [parts.take(rows, axis=0).reshape(size, -1) for parts in (self.parts_later, self.parts_held)]
        return np.concatenate(out, axis=1)

    def state(self, row: int) -> bytes:
        """The bytes of `states` for one node; building them directly is faster than an array with one element."""
        moving = self.moving > 0
        out = [(2 * int(self.cards.alike[row]) + moving).to_bytes(8, sys.byteorder)]
        out += [use[:, row].tobytes() for use in ([self.later, self.held] if moving else [self.later])]
        if self.cards.mig is not None:
            out += [parts[row].tobytes() for parts in (self.parts_later, self.parts_held)]
        return b"".join(out)

    def book(self, amounts: Amounts, row: int, column: int, *, held: int, later: int) -> None:
        """Add a pod's usage of a card, multiplied by `held` and `later`: 1, 0 or -1."""
        self.classes.book(amounts, row, column, held=held, later=later)
        self._booked.append((row, column))


def has_room(request: CardRequest, offered: Amounts, used: Amounts) -> bool:
    """True if a card with this capacity and usage has room for a request."""
    memory = request.memory or offered[MEMORY] * request.percent // 100
    if used[SLOTS] >= offered[SLOTS] or used[MEMORY] + memory > offered[MEMORY]:
        return False
    return used[SLOTS] == 0 if request.alone else used[CORES] + max(request.cores, 1) <= offered[CORES]
