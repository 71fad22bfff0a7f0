"""The parts of cards that pods have in this cycle: pods get them when they come, and lose them when they go.

The ledger begins with what the annotations of pods on nodes say, so a restarted scheduler knows what the one before
it gave. From then on it hears of each pod that comes and goes, as the node figures do. A pod on a node without a record
that can be read counts where a new pod would go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.devices import DeviceTextError, Slice
from kilauea.engine.devices.order import CardChoice, Order
from kilauea.engine.devices.table import CORES, MEMORY, SLOTS, BoolArray, Cards, CardTable, IntArray, cards_of
from kilauea.engine.model import status
from kilauea.engine.model.devices import SHARE, CardRequest, DeviceWish, slices_in
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState

READ_FAULT, NO_CARDS, TOO_FEW = 1, 2, 3
"""Reasons why a node has no cards for a pod."""


class Taken(NamedTuple):
    """Cards of one request: columns of the node's cards, and MiB and hundredths of cores of each."""

    request: CardRequest
    columns: tuple[int, ...]
    memory: tuple[int, ...]
    cores: tuple[int, ...]


class Booking(NamedTuple):
    """Cards that a pod has on a node."""

    row: int
    taken: tuple[Taken, ...]
    promised: bool
    leaving: bool = False


class Survey(NamedTuple):
    """Answers for some nodes: (n,) 0 or why not; and for each request the cards it would get, (n, k)."""

    codes: NDArray[np.int8]
    chosen: tuple[NDArray[np.intp], ...]


class DeviceLedger:
    """The cards of a cluster in one cycle."""

    def __init__(self, state: ClusterState, kinds: Callable[[str], bool], order: Order) -> None:
        self._state = state
        self._nodes = state.nodes
        self.order = order
        self.tables: dict[str, CardTable] = {}
        self.bookings: dict[str, Booking] = {}
        self.unrecorded: list[str] = []
        """Pods on nodes of which no annotation says which cards they have."""
        self._apart: dict[str, dict[tuple[int, str, int], int]] = {}
        """By group whose pods share no card: how many of them are on a card (row, kind, column)."""
        self._kinds = kinds
        for kind in sorted({s.kind for facts in self._nodes.facts for s in facts.devices if kinds(s.kind)}):
            self.tables[kind] = CardTable(self._cards(kind))

    def _cards(self, kind: str) -> Cards:
        kept = self._state.kept.get(f"devices {kind}")
        if kept is None or kept[0] is not self._nodes:
            kept = self._state.kept[f"devices {kind}"] = (self._nodes, cards_of(self._nodes, kind))
        cards: Cards = kept[1]
        return cards

    def serves(self, wish: DeviceWish | None) -> bool:
        """Return True if the cards that a pod asks for are given out here."""
        return wish is not None and any(map(self._kinds, wish.kinds))

    def take_in(self, shape_of: Callable[[Task], TaskShape]) -> None:
        """Book what pods on nodes have."""
        placements, later = self._state.placements, []
        for key in sorted(self._state.with_devices):
            task = self._state.with_devices[key]
            row = int(placements.node[task.row])
            if row < 0 or not self.serves(task.spec.devices):
                continue
            taken = self._recorded(task, row)
            if taken is None:
                later.append((task, row))
            else:
                self._enter(task, Booking(row, taken, promised=False, leaving=task.status == status.RELEASING))
        for task, row in later:
            self.unrecorded.append(task.key)
            taken = self._choose(shape_of(task), row, now=True)
            leaving = task.status == status.RELEASING
            self._enter(task, Booking(row, taken, promised=False, leaving=leaving))

    def _recorded(self, task: Task, row: int) -> tuple[Taken, ...] | None:
        """Return the cards in the annotations of a pod; None if they do not account for every request."""
        wish, texts = task.spec.devices, dict(task.record)
        assert wish is not None
        out: list[Taken] = []
        try:
            records = {kind: slices_in(kind, text) for kind, text in texts.items() if kind in self.tables}
        except DeviceTextError:
            return None
        for request in wish.requests:
            if request.kind not in self.tables:
                continue
            containers = records.get(request.kind, ())
            slices = containers[request.container] if request.container < len(containers) else ()
            taken = self._placed_slices(request, slices, row)
            if taken is None:
                return None
            out.append(taken)
        return tuple(out)

    def _placed_slices(self, request: CardRequest, slices: Sequence[Slice], row: int) -> Taken | None:
        table = self.tables[request.kind]
        columns = table.cards.columns[row]
        found = [(columns[s.card], s.memory, max(s.cores, request.cores)) for s in slices if s.card in columns]
        if len(found) < max(request.number, 1):
            return None
        if request.kind == SHARE:
            found = [(column, self._memory(table, request, row, column), cores) for column, _, cores in found]
        return Taken(request, *zip(*found, strict=True))

    def _memory(self, table: CardTable, request: CardRequest, row: int, column: int) -> int:
        if request.memory:
            return request.memory
        return int(table.cards.capacity[MEMORY, row, column]) * request.percent // 100

    # --- which cards

    def survey(self, shape: TaskShape, nodes: NodeRows, *, now: bool, placed: bool = False) -> Survey:
        """The cards that a task would get on some nodes, and why it gets none on others."""
        wish = shape.spec.devices
        assert wish is not None
        codes = np.zeros(len(nodes), dtype=np.int8)
        chosen: list[NDArray[np.intp]] = []
        extra: dict[str, IntArray] = {}
        last = {request.kind: i for i, request in enumerate(wish.requests)}
        for number, request in enumerate(wish.requests):
            table = self.tables.get(request.kind)
            if table is None:
                # Cards of kinds that are switched off are the node's own affair, as without the plugin.
                if self._kinds(request.kind):
                    codes[codes == 0] = NO_CARDS
                chosen.append(np.zeros((len(nodes), 0), dtype=np.intp))
                continue
            cards, rows = table.cards, nodes.rows
            mask, used = self._free(table, request, wish, nodes, extra.get(request.kind), now=now)
            codes[(codes == 0) & nodes.take(cards.faulty)] = READ_FAULT
            codes[(codes == 0) & ~nodes.take(cards.registered)] = NO_CARDS
            codes[(codes == 0) & (mask.sum(axis=1) < request.number)] = TOO_FEW
            columns = self._first(table, request, shape, nodes, mask, used, placed)
            chosen.append(columns)
            if last[request.kind] > number:
                taken = extra.setdefault(request.kind, np.zeros((3, len(nodes), mask.shape[1]), dtype=np.int64))
                capacity = cards.capacity if rows is None else cards.capacity.take(rows, axis=1)
                self._add(taken, columns, request, table.memory_of(request, capacity))
        return Survey(codes, tuple(chosen))

    def fits(self, shape: TaskShape, nodes: NodeRows, *, now: bool) -> NDArray[np.int8]:
        """(n,) 0 where a task finds its cards, or why not; quicker than `survey` for a single request."""
        wish = shape.spec.devices
        assert wish is not None
        table = self.tables.get(wish.requests[0].kind)
        if len(wish.requests) > 1 or table is None:
            return self.survey(shape, nodes, now=now).codes
        request, cards = wish.requests[0], table.cards
        mask, _ = self._free(table, request, wish, nodes, None, now=now)
        codes: NDArray[np.int8] = np.where(mask.sum(axis=1) < request.number, np.int8(TOO_FEW), np.int8(0))
        codes[~nodes.take(cards.registered)] = NO_CARDS
        codes[nodes.take(cards.faulty)] = READ_FAULT
        return codes

    def free_cards(self, request: CardRequest, shape: TaskShape, nodes: NodeRows) -> tuple[BoolArray, IntArray]:
        """(n, C) cards with room for a request of a shape, and (3, n, C) what is used of them."""
        wish = shape.spec.devices
        assert wish is not None
        return self._free(self.tables[request.kind], request, wish, nodes, None, now=False)

    def _free(
        self,
        table: CardTable,
        request: CardRequest,
        wish: DeviceWish,
        nodes: NodeRows,
        extra: IntArray | None,
        *,
        now: bool,
    ) -> tuple[BoolArray, IntArray]:
        """(n, C) cards with room for a request, and (3, n, C) what is used of them; `extra` is used beside that."""
        rows = nodes.rows
        uses = [table.later, table.held] if now and table.moving else [table.later]
        if rows is not None:
            uses = [use.take(rows, axis=1) for use in uses]
        if extra is not None:
            uses = [use + extra for use in uses]
        mask = table.fitting(request, wish, rows, *uses)
        if wish.apart and self._apart.get(wish.apart):
            mask = mask & ~self._shared_with_mates(table, wish.apart, nodes)
        return mask, uses[0]

    def _shared_with_mates(self, table: CardTable, group: str, nodes: NodeRows) -> BoolArray:
        """(n, C) cards with a pod of the group."""
        out = np.zeros(table.cards.there.shape, dtype=bool)
        for (row, kind, column), count in self._apart[group].items():
            if kind == table.cards.kind and count > 0:
                out[row, column] = True
        return out if nodes.rows is None else out.take(nodes.rows, axis=0)

    def _first(
        self,
        table: CardTable,
        request: CardRequest,
        shape: TaskShape,
        nodes: NodeRows,
        mask: BoolArray,
        used: IntArray,
        placed: bool,
    ) -> NDArray[np.intp]:
        """(n, k) columns of the cards to take; nonsense where too few fit."""
        count = min(request.number, mask.shape[1])
        key = np.where(mask, self.order(CardChoice(table, request, shape, nodes, used, placed)), np.inf)
        if count == 1:
            first: NDArray[np.intp] = key.argmin(axis=1)[:, None]
            return first
        columns: NDArray[np.intp] = key.argsort(axis=1, kind="stable")[:, :count]
        return columns

    @staticmethod
    def _add(taken: IntArray, columns: NDArray[np.intp], request: CardRequest, memory: IntArray | int) -> None:
        """Add a request to what is taken (3, n, C) of the cards in these columns (n, k)."""
        rows = np.arange(columns.shape[0])[:, None]
        taken[MEMORY][rows, columns] += memory if isinstance(memory, int) else memory[rows, columns]
        taken[CORES][rows, columns] += request.cores
        taken[SLOTS][rows, columns] += 1

    def after(self, shape: TaskShape, nodes: NodeRows, kind: str) -> tuple[IntArray, IntArray]:
        """(3, n, C) what is used of the cards of a kind before and after a task took its cards."""
        table, wish = self.tables[kind], shape.spec.devices
        before = table.later if nodes.rows is None else table.later.take(nodes.rows, axis=1)
        if wish is None or kind not in wish.kinds:
            return before, before
        capacity = table.cards.capacity if nodes.rows is None else table.cards.capacity.take(nodes.rows, axis=1)
        chosen, after = self.survey(shape, nodes, now=False).chosen, before.copy()
        for request, columns in zip(wish.requests, chosen, strict=True):
            if request.kind == kind:
                self._add(after, columns, request, table.memory_of(request, capacity))
        return before, after

    def _choose(self, shape: TaskShape, row: int, *, now: bool) -> tuple[Taken, ...]:
        """The cards for a task on a node that has room; fewer if it has none, as when an action places regardless."""
        wish = shape.spec.devices
        assert wish is not None
        nodes = self._nodes.select(np.array([row], dtype=np.intp))
        found = self.survey(shape, nodes, now=now, placed=True)
        if found.codes[0]:
            return ()
        out = []
        for request, columns in zip(wish.requests, found.chosen, strict=True):
            table = self.tables.get(request.kind)
            if table is None:
                continue
            picked = tuple(sorted(int(column) for column in columns[0]))
            memory = tuple(self._memory(table, request, row, column) for column in picked)
            out.append(Taken(request, picked, memory, (request.cores,) * len(picked)))
        return tuple(out)

    # --- pods come and go

    def placed(self, task: Task, shape: TaskShape, row: int) -> None:
        """A task came to a node: it gets its cards; those that it had, if its eviction is undone."""
        known = self.bookings.get(task.key)
        if known is not None and known.leaving:
            self._leave(task, known)
            self._enter(task, known._replace(leaving=False))
            return
        promised = task.status == status.PIPELINED
        self._enter(task, Booking(row, self._choose(shape, row, now=not promised), promised))

    def gone(self, task: Task) -> None:
        """A task left its node, or will once it has terminated."""
        known = self.bookings.get(task.key)
        if known is None:
            return
        self._leave(task, known)
        if task.status == status.RELEASING:
            self._enter(task, known._replace(leaving=True))

    def _enter(self, task: Task, booking: Booking) -> None:
        self.bookings[task.key] = booking
        self._count(task, booking, 1)

    def _leave(self, task: Task, booking: Booking) -> None:
        del self.bookings[task.key]
        self._count(task, booking, -1)

    def _count(self, task: Task, booking: Booking, by: int) -> None:
        held, later = (0 if booking.promised else by), (0 if booking.leaving else by)
        apart = task.spec.devices.apart if task.spec.devices is not None else ""
        for taken in booking.taken:
            table = self.tables[taken.request.kind]
            amounts = np.zeros((3, table.held.shape[2]), dtype=np.int64)
            for column, memory, cores in zip(taken.columns, taken.memory, taken.cores, strict=True):
                amounts[:, column] += (memory, cores, 1)
                if apart:
                    mates = self._apart.setdefault(apart, {})
                    place = (booking.row, taken.request.kind, column)
                    mates[place] = mates.get(place, 0) + by
            table.book(amounts, booking.row, held=held, later=later)
            table.moving += by if booking.promised or booking.leaving else 0

    def slices(self, task: Task) -> dict[str, list[list[Slice]]]:
        """By kind: the slices of each container of a task."""
        booking, wish = self.bookings.get(task.key), task.spec.devices
        if booking is None or wish is None:
            return {}
        out: dict[str, list[list[Slice]]] = {}
        for taken in booking.taken:
            cards = self.tables[taken.request.kind].cards.sets[booking.row]
            assert cards is not None
            containers = out.setdefault(taken.request.kind, [[] for _ in range(wish.containers)])
            for column, memory, cores in zip(taken.columns, taken.memory, taken.cores, strict=True):
                containers[taken.request.container].append(Slice(cards.cards[column].id, memory, cores))
        return out


def kinds_in(wanted: Collection[str], prefixes: Sequence[str]) -> Callable[[str], bool]:
    """A test of kinds: one of some names, or one that begins in some way."""
    return lambda kind: kind in wanted or any(kind.startswith(prefix) for prefix in prefixes)
