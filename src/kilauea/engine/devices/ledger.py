"""The parts of cards that pods use in this cycle: added when pods are placed, removed when they leave.

The ledger starts from the annotations of pods on nodes, so a restarted scheduler knows the cards that were assigned
before. From then on it follows each pod that is placed or removed, as the node figures do. A pod on a node without a
valid record counts on the cards that a new pod would get.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.device_config import DeviceConfig
from kilauea.api.devices import DeviceTextError, Slice, mig_instance
from kilauea.engine.devices.adapting import Adapter
from kilauea.engine.devices.order import CardChoice, CardOrder
from kilauea.engine.devices.plain import MOST_KNOWN, PlainRequest, Taken
from kilauea.engine.devices.states import CardStates
from kilauea.engine.devices.table import CORES, MEMORY, NO_CARDS, SLOTS, BoolArray, Cards, CardTable, IntArray, cards_of
from kilauea.engine.model import status
from kilauea.engine.model.devices import ASCEND, SHARE, VGPU, CardRequest, DeviceWish, slices_in
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState

NETWORKED = ASCEND + "Ascend910"
"""Prefix of the kinds whose cards are connected by networks."""
RULES = "deviceshare"
"""Trait of tasks: the numbers of the rules that they match."""


class Booking(NamedTuple):
    """Cards that a pod has on a node."""

    row: int
    taken: tuple[Taken, ...]
    promised: bool
    leaving: bool = False


class Survey(NamedTuple):
    """Results for some nodes: (n,) 0 or the reason; and for each request the cards that it would get, (n, k)."""

    codes: NDArray[np.int8]
    chosen: tuple[NDArray[np.intp], ...]
    parts: tuple[NDArray[np.int64] | None, ...] = ()
    """(n, k) the MIG instances on them, -1 for cards that are not split; None if no card is split."""


class DeviceLedger:
    """The cards of a cluster in one cycle.

    Args:
        state: nodes and pods.
        kinds: returns True for the kinds of cards that are assigned.
        order: the order in which a pod takes the cards of a node.
        config: the configuration of the devices.
        rules: the numbers of the rules that a pod matches; two pods that match the same rule share no vGPU.
    """

    def __init__(
        self,
        state: ClusterState,
        kinds: Callable[[str], bool],
        order: CardOrder,
        config: DeviceConfig,
        rules: Callable[[Task], tuple[int, ...]] = lambda task: (),
    ) -> None:
        self._state = state
        self._adapter = Adapter(config)
        self._config = config
        self._rules = rules
        self._nodes = state.nodes
        self._order = order
        self._served: dict[TaskShape, bool] = {}
        self._plain: dict[TaskShape, PlainRequest | None] = {}
        self._plain_of: dict[CardRequest, PlainRequest] = {}
        """By request, for those that any healthy card can serve."""
        self._last: tuple[tuple[object, ...], tuple[BoolArray, IntArray]] | None = None
        """The last result of `_free`, with its arguments: predicates and scores ask the same of the same nodes."""
        self.tables: dict[str, CardTable] = {}
        self.states = CardStates(self.tables, len(self._nodes))
        self.bookings: dict[str, Booking] = {}
        self.unrecorded: list[str] = []
        """Pods on nodes whose annotations do not contain their cards."""
        self._apart: dict[str | int, dict[tuple[int, str, int], int]] = {}
        """By group or rule whose pods share no card: the number of them on a card (row, kind, column)."""
        self._kinds = kinds
        for kind in sorted({s.kind for facts in self._nodes.facts for s in facts.devices if kinds(s.kind)}):
            self.tables[kind] = CardTable(self._cards(kind))

    def _cards(self, kind: str) -> Cards:
        kept = self._state.kept.get(f"devices {kind}")
        if kept is None or kept[0][0] is not self._nodes or kept[0][1] != self._config:
            known = self._nodes, self._config
            kept = self._state.kept[f"devices {kind}"] = (known, cards_of(self._nodes, kind, self._config))
        cards: Cards = kept[1]
        return cards

    def serves(self, wish: DeviceWish | None) -> bool:
        """Return True if this ledger assigns the cards that a pod requests."""
        return wish is not None and any(map(self._kinds, wish.kinds))

    def serves_shape(self, shape: TaskShape) -> bool:
        """As `serves`, for the request of a shape."""
        known = self._served.get(shape)
        if known is None:
            known = self._served[shape] = self.serves(shape.spec.devices)
        return known

    def wish_of(self, of: TaskShape | Task) -> DeviceWish:
        """The cards that a task requests, adapted to the configuration."""
        wish = of.spec.devices
        assert wish is not None
        return self.adapt(wish)

    def adapt(self, wish: DeviceWish) -> DeviceWish:
        """Adapt requested cards to the configuration."""
        return self._adapter.adapt(wish)

    def take_in(self, shape_of: Callable[[Task], TaskShape]) -> None:
        """Book the cards of pods on nodes."""
        placements, later = self._state.placements, []
        for key in sorted(self._state.with_shares):
            task = self._state.with_shares[key]
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
            taken = self.choose(shape_of(task), row, now=True)
            leaving = task.status == status.RELEASING
            self._enter(task, Booking(row, taken or (), promised=False, leaving=leaving))

    def _recorded(self, task: Task, row: int) -> tuple[Taken, ...] | None:
        """Return the cards in the annotations of a pod; None if they do not account for every request."""
        wish, texts = self.wish_of(task), dict(task.record)
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
        columns, mig = table.cards.columns[row], table.cards.mig
        found = []
        for s in slices:
            instance = mig_instance(s.card) if mig is not None else None
            column = columns.get(instance[0] if instance is not None else s.card)
            if column is None:
                continue
            part = -1
            if mig is not None and mig.geometry[row, column] >= 0:
                part = mig.find(row, column, *instance[1:]) if instance is not None else -1
                if part < 0:
                    return None
            memory = self._memory(table, request, row, column) if request.kind == SHARE else s.memory
            found.append((column, memory, max(s.cores, request.cores), part))
        if len(found) < max(request.number, 1):
            return None
        return Taken(request, *zip(*found, strict=True))

    def _memory(self, table: CardTable, request: CardRequest, row: int, column: int, part: int = -1) -> int:
        if part >= 0 and table.cards.mig is not None:
            return table.cards.mig.memory(row, column, part)
        if request.memory:
            return request.memory
        return int(table.cards.capacity[MEMORY, row, column]) * request.percent // 100

    # --- selection of cards

    def survey(self, shape: TaskShape, nodes: NodeRows, *, now: bool, placed: bool = False) -> Survey:
        """Return the cards that a task would get on some nodes, and the reasons why it gets none on others."""
        wish = self.wish_of(shape)
        codes = np.full(len(nodes), self._refusal(shape), dtype=np.int8)
        chosen: list[NDArray[np.intp]] = []
        parts: list[NDArray[np.int64] | None] = []
        extra: dict[str, IntArray] = {}
        split: dict[str, IntArray] = {}
        last = {request.kind: i for i, request in enumerate(wish.requests)}
        for number, request in enumerate(wish.requests):
            table = self.tables.get(request.kind)
            if table is None:
                # Cards of disabled kinds are left to the node, as without the plugin.
                if self._kinds(request.kind):
                    codes[codes == 0] = NO_CARDS
                chosen.append(np.zeros((len(nodes), 0), dtype=np.intp))
                parts.append(None)
                continue
            cards, rows = table.cards, nodes.rows
            mask, used = self._free(table, request, shape, nodes, extra.get(request.kind), now=now)
            instances = self._instances(table, request, nodes, split.get(request.kind), now=now)
            mask = self._whole_or_split(table, mask, instances, nodes)
            if (why := table.lacking(mask, request.number, nodes)) is not None:
                codes = np.where(codes == 0, why, codes)
            columns = self._first(table, request, shape, nodes, mask, used, placed)
            chosen.append(columns)
            parts.append(None if instances is None else np.take_along_axis(instances, columns, axis=1))
            if last[request.kind] > number:
                taken = extra.setdefault(request.kind, np.zeros((3, len(nodes), mask.shape[1]), dtype=np.int64))
                capacity = cards.capacity if rows is None else cards.capacity.take(rows, axis=1)
                self._add(taken, columns, request, table.memory_of(request, capacity))
                if (given := parts[-1]) is not None:
                    size = (len(nodes), *table.parts_held.shape[1:])
                    used_parts = split.setdefault(request.kind, np.zeros(size, dtype=np.int64))
                    row, k = np.nonzero(given >= 0)
                    used_parts[row, columns[row, k], given[row, k]] += 1
        return Survey(codes, tuple(chosen), tuple(parts))

    def _refusal(self, shape: TaskShape) -> int:
        """The reason why no node can have cards for a shape; 0 if one can."""
        return self._adapter.refusal(shape.spec.devices) if shape.spec.devices is not None else 0

    def refusals(self, shape: TaskShape, nodes: NodeRows, *, now: bool) -> NDArray[np.int8] | None:
        """(n,) 0 where a task finds its cards, otherwise the reason; None if it finds them everywhere."""
        plain = self.plain(shape)
        if plain is not None:
            return plain.refusals(nodes, now=now)
        codes: NDArray[np.int8] = self.by_state(
            ("fits", now and self._is_moving()),
            shape,
            nodes,
            lambda row: int(self._fits(shape, self._nodes.select(np.array([row], dtype=np.intp)), now=now)[0]),
            lambda some: self._fits(shape, some, now=now),
        ).astype(np.int8)
        return codes if codes.any() else None

    def _is_moving(self) -> bool:
        return any(table.moving for table in self.tables.values())

    def by_state(
        self,
        about: Hashable,
        shape: TaskShape,
        nodes: NodeRows,
        one: Callable[[int], float],
        many: Callable[[NodeRows], NDArray[Any]],
    ) -> NDArray[Any]:
        """(n,) results that depend on the request of a shape and the cards of the nodes.

        `one` computes the result of a row, `many` those of several nodes; neither is called for cached results.
        """
        if not depends_on_state(shape):
            return many(nodes)
        return self.states.ask((about, shape.spec.devices), nodes, one, many)

    def plain(self, shape: TaskShape) -> PlainRequest | None:
        """The request of a shape for cards of one kind that are not split; None if it requests anything else."""
        if shape not in self._plain:
            self._plain[shape] = self._read_plain(shape)
        return self._plain[shape]

    def _read_plain(self, shape: TaskShape) -> PlainRequest | None:
        wish = self.wish_of(shape)
        table = self.tables.get(wish.requests[0].kind)
        if len(wish.requests) > 1 or table is None or table.cards.mig is not None or self._refusal(shape):
            return None
        if not depends_on_state(shape):
            return None
        if wish.selects:
            return PlainRequest(table, wish.requests[0], wish)
        # Shapes that request the same cards share the results about nodes.
        request = wish.requests[0]
        known = self._plain_of.get(request)
        if known is None:
            known = self._plain_of[request] = PlainRequest(table, request, wish)
        return known

    def _fits(self, shape: TaskShape, nodes: NodeRows, *, now: bool) -> NDArray[np.int8]:
        """As `fits`, without the cache; faster than `survey` for a single request."""
        wish = self.wish_of(shape)
        table = self.tables.get(wish.requests[0].kind)
        if len(wish.requests) > 1 or table is None or self._refusal(shape):
            return self.survey(shape, nodes, now=now).codes
        request = wish.requests[0]
        mask, _ = self._free(table, request, shape, nodes, None, now=now)
        mask = self._whole_or_split(table, mask, self._instances(table, request, nodes, None, now=now), nodes)
        codes = table.lacking(mask, request.number, nodes)
        return np.zeros(len(nodes), dtype=np.int8) if codes is None else codes

    def free_cards(self, request: CardRequest, shape: TaskShape, nodes: NodeRows) -> BoolArray:
        """(n, C) cards with room for a request of a shape."""
        table = self.tables[request.kind]
        mask, _ = self._free(table, request, shape, nodes, None, now=False)
        return self._whole_or_split(table, mask, self._instances(table, request, nodes, None, now=False), nodes)

    @staticmethod
    def _instances(
        table: CardTable, request: CardRequest, nodes: NodeRows, extra: IntArray | None, *, now: bool
    ) -> NDArray[np.int64] | None:
        """(n, C) the MIG instance that each card would give; `extra` (n, C, P) is used in addition to the bookings."""
        if table.cards.mig is None:
            return None
        rows, uses = nodes.rows, [table.parts_later, table.parts_held] if now else [table.parts_later]
        if rows is not None:
            uses = [use.take(rows, axis=0) for use in uses]
        if extra is not None:
            uses.append(extra)
        capacity = table.cards.capacity if rows is None else table.cards.capacity.take(rows, axis=1)
        return table.instances(table.memory_of(request, capacity), rows, *uses)

    @staticmethod
    def _whole_or_split(
        table: CardTable, mask: BoolArray, instances: NDArray[np.int64] | None, nodes: NodeRows
    ) -> BoolArray:
        """Cards of a mask (n, C); of those in mode mig, only the ones with a free instance."""
        if table.cards.mig is None or instances is None:
            return mask
        return mask & ((_of_rows(table.cards.mig.geometry, nodes) < 0) | (instances >= 0))

    def _free(
        self,
        table: CardTable,
        request: CardRequest,
        shape: TaskShape,
        nodes: NodeRows,
        extra: IntArray | None,
        *,
        now: bool,
    ) -> tuple[BoolArray, IntArray]:
        """(n, C) cards with room for a request, and (3, n, C) their usage; `extra` is used in addition."""
        asked = table, request, shape, nodes, now
        if extra is None and self._last is not None and all(map(is_, self._last[0], asked)):
            return self._last[1]
        rows = nodes.rows
        uses = [table.later, table.held] if now and table.moving else [table.later]
        if rows is not None:
            uses = [use.take(rows, axis=1) for use in uses]
        if extra is not None:
            uses = [use + extra for use in uses]
        wish = self.wish_of(shape)
        mask = table.fitting(request, wish, rows, *uses)
        for group in self._groups_apart(wish, request.kind, shape.traits.get(RULES, ())):
            if self._apart.get(group):
                mask = mask & ~self._shared_with_mates(table, group, nodes)
        if extra is not None and request.kind.startswith(ASCEND):
            mask = mask & (extra[SLOTS] == 0)  # an NPU serves one container of a pod
        if extra is None and rows is not None:
            self._last = asked, (mask, uses[0])
        return mask, uses[0]

    @staticmethod
    def _groups_apart(wish: DeviceWish, kind: str, rules: Any) -> list[str | int]:
        """The group and the rules because of which a pod does not share a card of a kind with others."""
        return [*([wish.apart] if wish.apart else []), *(rules if kind == VGPU else ())]

    def _shared_with_mates(self, table: CardTable, group: str | int, nodes: NodeRows) -> BoolArray:
        """(n, C) cards with a pod of a group or rule."""
        out = np.zeros(table.cards.there.shape, dtype=bool)
        for (row, kind, column), count in self._apart[group].items():
            if kind == table.cards.kind and count > 0:
                out[row, column] = True
        if table.cards.mig is not None and isinstance(group, int):
            out &= table.cards.mig.geometry < 0  # rules apply to cards that are shared by software
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
        """(n, k) columns of the cards to take; meaningless where too few fit."""
        count = min(request.number, mask.shape[1])
        order = self._order.order(CardChoice(table, request, shape, nodes, used, placed))
        if request.kind.startswith(NETWORKED) and request.number > 1:
            order = self._by_network(table, nodes, mask, order)
        key = np.where(mask, order, np.inf)
        if count == 1:
            first: NDArray[np.intp] = key.argmin(axis=1)[:, None]
            return first
        columns: NDArray[np.intp] = key.argsort(axis=1, kind="stable")[:, :count]
        return columns

    @staticmethod
    def _by_network(
        table: CardTable, nodes: NodeRows, mask: BoolArray, order: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """An order (n, C) in which cards of the network with the most fitting cards come first."""
        network = _of_rows(table.cards.network, nodes)
        mates = ((network[:, :, None] == network[:, None, :]) & mask[:, None, :]).sum(axis=2)
        first = np.where(mask, mates * (network.max() + 2.0) - network, 0.0)
        order = np.broadcast_to(order, mask.shape)
        place: NDArray[np.float64] = np.lexsort((order, -first), axis=1).argsort(axis=1).astype(np.float64)
        connected: BoolArray = np.logical_or.reduce(network >= 0, axis=1)
        return np.where(connected[:, None], place, order)

    @staticmethod
    def _add(taken: IntArray, columns: NDArray[np.intp], request: CardRequest, memory: IntArray | int) -> None:
        """Add a request to the usage (3, n, C) of the cards in these columns (n, k)."""
        rows = np.arange(columns.shape[0])[:, None]
        taken[MEMORY][rows, columns] += memory if isinstance(memory, int) else memory[rows, columns]
        taken[CORES][rows, columns] += request.cores
        taken[SLOTS][rows, columns] += 1

    def after(self, shape: TaskShape, nodes: NodeRows, kind: str) -> tuple[IntArray, IntArray]:
        """(3, n, C) usage of the cards of a kind, before and after a task took its cards."""
        table, wish = self.tables[kind], self.wish_of(shape) if shape.spec.devices is not None else None
        before = table.later if nodes.rows is None else table.later.take(nodes.rows, axis=1)
        if wish is None or kind not in wish.kinds:
            return before, before
        capacity = table.cards.capacity if nodes.rows is None else table.cards.capacity.take(nodes.rows, axis=1)
        chosen, after = self.survey(shape, nodes, now=False).chosen, before.copy()
        for request, columns in zip(wish.requests, chosen, strict=True):
            if request.kind == kind:
                self._add(after, columns, request, table.memory_of(request, capacity))
        return before, after

    def choose(self, shape: TaskShape, row: int, *, now: bool) -> tuple[Taken, ...] | None:
        """Choose the cards for a task on a node; None if there are too few, which an action may cause."""
        plain = self.plain(shape)
        if plain is not None and not (plain.request.number > 1 and plain.request.kind.startswith(NETWORKED)):
            return self._chosen_plainly(plain, row, now=now)
        if not depends_on_state(shape):
            return self._chosen(shape, row, now=now)
        question = shape.spec.devices, now and self._is_moving(), self._order.state(row)
        return self.states.once(question, row, lambda: self._chosen(shape, row, now=now))

    def _chosen(self, shape: TaskShape, row: int, *, now: bool) -> tuple[Taken, ...] | None:
        """As `choose`, without the cache."""
        nodes = self._nodes.select(np.array([row], dtype=np.intp))
        found = self.survey(shape, nodes, now=now, placed=True)
        if found.codes[0]:
            return None
        out = []
        for request, columns, parts in zip(self.wish_of(shape).requests, found.chosen, found.parts, strict=True):
            table = self.tables.get(request.kind)
            if table is None:
                continue
            given = [-1] * len(columns[0]) if parts is None else parts[0].tolist()
            picked, instances = zip(*sorted(zip(columns[0].tolist(), given, strict=True)), strict=True)
            memory = tuple(self._memory(table, request, row, *each) for each in zip(picked, instances, strict=True))
            out.append(Taken(request, picked, memory, (request.cores,) * len(picked), instances))
        return tuple(out)

    def _chosen_plainly(self, plain: PlainRequest, row: int, *, now: bool) -> tuple[Taken, ...] | None:
        """As `choose`, for a plain request."""
        if plain.eligible is not None:
            return self._found_plainly(plain, row, now=now)
        # Nodes with equal cards and equal usage give the same result, if the order of the cards is the same.
        question = plain.table.classes.key(row), now and plain.table.moving > 0, self._order.state(row)
        known = plain.chosen.get(question)
        if known is None:
            if len(plain.chosen) >= MOST_KNOWN:
                plain.chosen.clear()
            known = plain.chosen[question] = self._found_plainly(plain, row, now=now) or ()
        return known or None

    def _found_plainly(self, plain: PlainRequest, row: int, *, now: bool) -> tuple[Taken, ...] | None:
        """As `_chosen_plainly`, without the cache."""
        fitting, request = plain.fitting_at(row, now=now), plain.request
        if len(fitting) < request.number:
            return None
        if request.number < len(fitting):
            order = self._order.at(plain.table, request, row).__getitem__
            fitting = (
                sorted(sorted(fitting, key=order)[: request.number])
                if request.number != 1
                else [min(fitting, key=order)]
            )
        memory = tuple([self._memory(plain.table, request, row, column) for column in fitting])
        count = len(fitting)
        return (Taken(request, tuple(fitting), memory, (request.cores,) * count, (-1,) * count),)

    # --- placements

    def placed(self, task: Task, shape: TaskShape, row: int) -> bool:
        """Book the cards of a task that was placed on a node; its previous ones if its eviction is undone.

        Returns:
            False if the node has no cards left for it.
        """
        known = self.bookings.get(task.key)
        if known is not None and known.leaving:
            self._leave(task, known)
            self._enter(task, known._replace(leaving=False))
            return True
        promised = task.status == status.PIPELINED
        taken = self.choose(shape, row, now=not promised)
        if taken is not None:
            self._enter(task, Booking(row, taken, promised))
        return taken is not None

    def gone(self, task: Task) -> None:
        """Release the cards of a task that left its node, or will once it has terminated."""
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
        self._last = None
        row, several, promised, leaving = booking
        self.states.changed(row)
        held, later = (0 if promised else by), (0 if leaving else by)
        wish, rules = task.spec.devices, self._rules(task)
        for taken in several:
            request, columns, parts = taken.request, taken.columns, taken.parts
            table = self.tables[request.kind]
            for column, memory, cores in zip(columns, taken.memory, taken.cores, strict=True):
                table.book((memory, cores, 1), row, column, held=held, later=later)
            if wish is not None and (wish.apart or rules):
                self._count_apart(self._groups_apart(wish, request.kind, rules), request.kind, row, columns, by)
            if table.cards.mig is not None:
                table.book_parts(columns, parts, row, held=held, later=later)
            if promised or leaving:
                table.moving += by

    def _count_apart(self, groups: Sequence[str | int], kind: str, row: int, columns: Sequence[int], by: int) -> None:
        """Count a pod of some groups and rules on cards of a node, which it does not share with their other pods."""
        for group in groups:
            mates = self._apart.setdefault(group, {})
            for column in columns:
                place = (row, kind, column)
                mates[place] = mates.get(place, 0) + by

    def slices(self, task: Task) -> dict[str, list[list[Slice]]]:
        """By kind: the slices of each container of a task."""
        booking, wish = self.bookings.get(task.key), task.spec.devices
        if booking is None or wish is None:
            return {}
        out: dict[str, list[list[Slice]]] = {}
        for request, columns, memory, cores, parts in booking.taken:
            table = self.tables[request.kind]
            found, mig = table.cards.sets[booking.row], table.cards.mig
            assert found is not None
            ids = [found.cards[column].id for column in columns]
            if mig is not None and parts:
                named = zip(ids, columns, parts, strict=True)
                ids = [i + mig.name(booking.row, column, part) if part >= 0 else i for i, column, part in named]
            containers = out.get(request.kind)
            if containers is None:
                containers = out[request.kind] = [[] for _ in range(wish.containers)]
            containers[request.container] += map(Slice, ids, memory, cores)
        return out


def depends_on_state(shape: TaskShape) -> bool:
    """Return True if the state of a node's cards alone determines which of them a shape gets.

    False for shapes that name cards, or do not share cards with some other pods.
    """
    wish = shape.spec.devices
    return wish is None or not (wish.ids or wish.not_ids or wish.apart or RULES in shape.traits)


def _of_rows(cells: NDArray[np.int64], nodes: NodeRows) -> NDArray[np.int64]:
    """The part of an array over nodes and cards (N, C) that belongs to some nodes."""
    return cells if nodes.rows is None else cells.take(nodes.rows, axis=0)


def kinds_in(wanted: Collection[str], prefixes: Sequence[str]) -> Callable[[str], bool]:
    """Return a test for kinds that are in `wanted` or start with a prefix."""
    return lambda kind: kind in wanted or any(kind.startswith(prefix) for prefix in prefixes)
