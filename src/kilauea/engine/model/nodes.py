"""The nodes of a cluster as columns: allocatable and used resources, labels and taints.

Resources are rows and nodes are columns, so that one resource of all nodes lies together in memory. Nodes stand in the
natural order of their names (`n2` before `n10`), which is also the order in which ties fall.

Two pictures are kept of what a node carries (spec of the scheduler, 1.6 and 3.1). The account: `used`, `releasing`,
`pipelined`, for room and quotas. The view: `viewed` and `scored`, what Kubernetes' own filters and scores would see;
there a pod counts as soon as it is nominated, and no longer once it is evicted.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilauea.api import wellknown
from kilauea.api.core import Node
from kilauea.api.quantity import resource_amounts
from kilauea.api.selectors import TaintKey, taint_of
from kilauea.engine.model.cards import WITHOUT_CARDS, NodeCards, cards_of_node
from kilauea.engine.model.devices import DeviceSet, devices_of_node, unregistered
from kilauea.engine.model.resources import CPU, MEMORY, MOST, ResourceAxis, order_of

LONGEST_NUMBER = 16
"""Annotations with longer numbers are not read."""

IntArray = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, as its object describes it, in the engine's units."""

    name: str
    allocatable: dict[str, int]
    labels: dict[str, str]
    taints: tuple[TaintKey, ...]
    unschedulable: bool
    images: dict[str, int] = field(default_factory=dict)
    """Image name to size in bytes."""
    cards: NodeCards = WITHOUT_CARDS
    """Accelerator cards by model."""
    devices: tuple[DeviceSet, ...] = ()
    """Cards that several pods can share, one by one."""
    capacity: tuple[int, int] = (0, 0)
    """Cpu and memory of the whole machine; what is allocatable if the object does not tell."""
    evicts_offline: bool = False
    """The agent on the node is evicting offline pods."""


def facts_of(node: Node) -> NodeFacts:
    """Read a node's object.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    node_status, spec = node.status, node.spec
    allocatable = dict(resource_amounts(node_status.allocatable or node_status.capacity) if node_status else {})
    whole = (node_status and resource_amounts(node_status.capacity)) or allocatable
    capacity = (whole.get(CPU, 0), whole.get(MEMORY, 0))
    for annotation, name in ((wellknown.OVERSUBSCRIPTION_CPU, CPU), (wellknown.OVERSUBSCRIPTION_MEMORY, MEMORY)):
        text = node.annotations.get(annotation, "")
        if text.isascii() and text.isdigit() and len(text) < LONGEST_NUMBER:
            allocatable[name] = allocatable.get(name, 0) + int(text)
    images = {
        name: min(max(image.size_bytes or 0, 0), MOST)
        for image in (node_status.images if node_status else None) or ()
        for name in image.names or ()
    }
    taints = tuple(taint_of(t) for t in (spec.taints if spec else None) or ())
    unschedulable = bool(spec and spec.unschedulable)
    cards = cards_of_node(node.name, node.labels, allocatable)
    devices = devices_of_node(node.annotations, allocatable)
    allocatable |= unregistered(devices, allocatable) if devices else {}
    evicts_offline = node.annotations.get(wellknown.OFFLINE_EVICTING) == "true"
    return NodeFacts(
        node.name,
        allocatable,
        node.labels,
        taints,
        unschedulable,
        images,
        cards,
        devices,
        capacity,
        evicts_offline,
    )


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that orders numbers inside names by value."""
    parts = re.split(r"([0-9]+)", name)
    numbers = {p: p.lstrip("0") for p in parts[1::2]}
    keys = ((0, len(numbers[p]), numbers[p]) if p in numbers else (1, 0, p) for p in parts if p)
    return (*keys, (-1, 0, name))


def in_order(facts: Collection[NodeFacts], before: Mapping[str, int]) -> list[NodeFacts]:
    """Nodes in the natural order of their names; `before` has the rows of those whose order is known already."""
    added = [f for f in facts if f.name not in before]
    if len(added) > len(before):
        return sorted(facts, key=lambda f: natural(f.name))
    ordered = sorted((f for f in facts if f.name in before), key=lambda f: before[f.name])
    for one in added:
        bisect.insort(ordered, one, key=lambda f: natural(f.name))
    return ordered


@dataclass(frozen=True)
class LabelColumn:
    """One label over all nodes: its distinct values, and by node the index of its value (-1 without the label)."""

    values: list[str]
    ids: NDArray[np.int32]

    @cached_property
    def everywhere(self) -> bool:
        """True if all nodes have the label."""
        return bool((self.ids >= 0).all())

    @cached_property
    def distinct(self) -> bool:
        """True if every node has a value of its own, as with the label of its name."""
        return len(self.values) == len(self.ids)

    def spread(self, by_value: NDArray[T]) -> NDArray[T]:
        """(N,) for each node the entry of its value in an array over values (D,); zero or false without the label."""
        if self.distinct:
            return by_value
        if self.everywhere:
            return by_value[self.ids]
        return np.concatenate([by_value, np.zeros(1, dtype=by_value.dtype)])[self.ids]


class Offer(NamedTuple):
    """The amount of an extended resource that devices of a class serve, in thousandths."""

    by_node: IntArray
    """(N,)"""
    several: Sequence[tuple[BoolArray, int]]
    """Devices that several nodes reach: which nodes (N,), and their part of the amount."""


class NodeTable:
    """All nodes. Arrays over nodes have shape (N,), over resources and nodes (R, N); amounts are int64."""

    def __init__(
        self, facts: Collection[NodeFacts], axis: ResourceAxis, before: Mapping[str, int] | None = None
    ) -> None:
        self.facts = in_order(facts, before or {})
        self.axis = axis
        self.names = [f.name for f in self.facts]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        for f in self.facts:
            axis.admit(f.allocatable)
        self._allot()
        for name, row in axis.rows.items():
            self.allocatable[row] = [f.allocatable.get(name, 0) for f in self.facts]
        self.complete = bool((self.allocatable[:2] > 0).all())
        """True if every node offers cpu and memory."""
        self._offered: list[str] | None = None
        self.by_class: dict[str, BoolArray] = {}
        """By extended resource that devices of a class serve: nodes that do not offer it themselves."""
        self._repeated: dict[str, int] = {}
        """By such a resource the amount that counts for more than one node, without its first time."""
        self.changes = 0
        """Changes of what nodes offer themselves."""
        self.changed: list[int] = []
        """Rows that a session changed, in order, repeats included; values cached by node are updated from it."""
        self.kept: dict[tuple[object, ...], NDArray[Any]] = {}
        """Arrays over nodes that depend on the nodes' objects alone (`kilauea.engine.evaluation.matching`)."""
        self.future = False
        """True if anything is being freed or promised, so that room now and room later may differ."""

    def __len__(self) -> int:
        return len(self.names)

    def _allot(self) -> None:
        """Make the columns. They lie in one block, so that one operation reads or writes all figures of a node."""
        count = len(self.axis)
        self.block: IntArray = np.zeros((5 * count + 2, len(self.facts)), dtype=np.int64)
        """(5 R + 2, N): the columns below, one under the other."""
        self._name_parts()

    def _name_parts(self) -> None:
        columns = columns_of(self.block, len(self.axis))
        self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored = columns

    def widen(self) -> None:
        """Make room for resources that the axis has learned since."""
        if self.allocatable.shape[0] == len(self.axis):
            return
        old = (self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored)
        self._allot()
        for part, before in zip(columns_of(self.block, len(self.axis)), old, strict=True):
            part[: before.shape[0]] = before

    def change_offer(self, facts: NodeFacts) -> None:
        """A node offers something else now, and is otherwise the same."""
        self.widen()
        row = self.row_of[facts.name]
        self.facts[row] = facts
        self._offered = None
        self.changes += 1
        self.allocatable[:, row] = self.axis.vector(facts.allocatable)
        self.complete = bool((self.allocatable[:2] > 0).all())

    def offer_by_class(self, offers: Mapping[str, Offer]) -> None:
        """Devices serve these extended resources, and no others, on nodes that do not offer them themselves."""
        self.widen()
        for name in self.by_class.keys() - offers.keys():
            self.allocatable[self.axis.rows[name]] = self._own(name)
        self.by_class, self._repeated, self._offered = {}, {}, None
        for name, offer in offers.items():
            own = self._own(name)
            here = self.by_class[name] = own <= 0
            self.allocatable[self.axis.rows[name]] = np.where(here, offer.by_node, own)
            times = ((int(np.count_nonzero(reach & here)), amount) for reach, amount in offer.several)
            self._repeated[name] = sum(amount * max(nodes - 1, 0) for nodes, amount in times)

    def _own(self, name: str) -> IntArray:
        """(N,) how much of a resource the nodes offer themselves."""
        return np.array([f.allocatable.get(name, 0) for f in self.facts], dtype=np.int64)

    def restore(self, block: IntArray) -> None:
        """Put back a copy of `block`."""
        self.block = block
        self._name_parts()

    def total(self) -> dict[str, int]:
        """Sum of what all nodes offer, of the resources that any of them names; devices of several nodes count once."""
        if self._offered is None:
            named = {name for f in self.facts for name in f.allocatable}
            served = {name for name in self.by_class if self.allocatable[self.axis.rows[name]].any()}
            self._offered = sorted(named | served, key=order_of)
        repeated, rows = self._repeated, self.axis.rows
        return {name: int(self.allocatable[rows[name]].sum()) - repeated.get(name, 0) for name in self._offered}

    @cached_property
    def capacity(self) -> IntArray:
        """(2, N) cpu and memory of the whole machines."""
        return np.array([f.capacity for f in self.facts], dtype=np.int64).reshape(-1, 2).T

    @cached_property
    def unschedulable(self) -> BoolArray:
        """Nodes that are cordoned."""
        return np.array([f.unschedulable for f in self.facts], dtype=bool)

    @cached_property
    def evicts_offline(self) -> BoolArray:
        """Nodes whose agents are evicting offline pods."""
        return np.array([f.evicts_offline for f in self.facts], dtype=bool)

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[TaintKey, ...]], NDArray[np.int32]]:
        """The distinct sets of taints, and for each node the index of its set."""
        known: dict[tuple[TaintKey, ...], int] = {}
        ids = [known.setdefault(f.taints, len(known)) for f in self.facts]
        return list(known), np.array(ids, dtype=np.int32)

    @cached_property
    def taint_effects(self) -> frozenset[str]:
        """Effects of all taints of all nodes."""
        return frozenset(taint.effect for taints in self.taint_sets[0] for taint in taints)

    @cached_property
    def holds_images(self) -> bool:
        """True if any node reports which images it holds."""
        return any(f.images for f in self.facts)

    @cached_property
    def _columns(self) -> dict[str, LabelColumn]:
        return {}

    def label(self, key: str) -> LabelColumn:
        """The column of a label."""
        column = self._columns.get(key)
        if column is None:
            known: dict[str, int] = {}
            ids = np.full(len(self), -1, dtype=np.int32)
            for row, f in enumerate(self.facts):
                value = f.labels.get(key)
                if value is not None:
                    ids[row] = known.setdefault(value, len(known))
            column = self._columns[key] = LabelColumn(list(known), ids)
        return column

    def all(self) -> NodeRows:
        """Selection of all nodes."""
        return NodeRows(self, None)

    def select(self, rows: NDArray[np.intp]) -> NodeRows:
        """Selection of some nodes, by row."""
        return NodeRows(self, rows)

    def ascending(self, rows: NDArray[np.intp]) -> NodeRows:
        """As `select`, for different rows in ascending order: nothing is copied if they are all."""
        nodes = NodeRows(self, rows)
        if len(rows) == len(self):
            nodes._read(self.block)
        return nodes


def columns_of(block: IntArray, resources: int) -> tuple[IntArray, ...]:
    """The parts of a block: allocatable, used, releasing, pipelined, viewed (each (R, n)) and scored (2, n)."""
    r = resources  # written out, because this runs once for each node that changed
    return block[:r], block[r : 2 * r], block[2 * r : 3 * r], block[3 * r : 4 * r], block[4 * r : 5 * r], block[5 * r :]


class NodeRows:
    """Some nodes of a table: what predicates and scores are asked about. Arrays have shape (n,) or (R, n).

    Attributes:
        rows: numbers of the nodes' rows in the table; None for all nodes. The arrays of all nodes are the table's own:
            never write to them.
        allocatable: (R, n) what the nodes offer.
        used: (R, n) what tasks take, those being removed included.
        releasing: (R, n) part of `used` that is being freed.
        pipelined: (R, n) what is promised to tasks that wait.
        viewed: (R, n) requests of the pods that Kubernetes' filters and scores would see.
        scored: (2, n) cpu and memory of those pods for scores.
    """

    __slots__ = ("allocatable", "pipelined", "releasing", "rows", "scored", "table", "used", "viewed")

    allocatable: IntArray
    used: IntArray
    releasing: IntArray
    pipelined: IntArray
    viewed: IntArray
    scored: IntArray

    def __init__(self, table: NodeTable, rows: NDArray[np.intp] | None) -> None:
        self.table = table
        self.rows = rows

    def __getattr__(self, name: str) -> IntArray:
        # Called for a column that was not read before: one gather brings all of them.
        if name not in NodeRows.__slots__:
            raise AttributeError(f"nodes have no {name!r}")
        block = self.table.block
        self._read(block if self.rows is None else block.take(self.rows, axis=1))
        found: IntArray = object.__getattribute__(self, name)
        return found

    def _read(self, block: IntArray) -> None:
        """Take the columns from a block with the figures of these nodes."""
        columns = columns_of(block, len(self.table.axis))
        self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored = columns

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def take(self, column: NDArray[T]) -> NDArray[T]:
        """The part of a column over all nodes (last dimension) that belongs to these nodes."""
        return column if self.rows is None else column.take(self.rows, axis=-1)

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows]

    @property
    def idle(self) -> IntArray:
        """(R, n) free now."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> IntArray:
        """(R, n) free once everything has ended that is ending, less what is promised."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    @property
    def staying_count(self) -> IntArray:
        """(n,) number of pods on the nodes, with nominated and without terminating ones."""
        count: IntArray = self.used[2] + self.pipelined[2] - self.releasing[2]
        return count

    @property
    def has_slots(self) -> NDArray[np.bool_]:
        """(n,) nodes that take one more pod now."""
        free: NDArray[np.bool_] = self.used[2] < self.allocatable[2]
        return free

    @property
    def pod_count(self) -> IntArray:
        """(n,) number of pods in the view."""
        count: IntArray = self.viewed[2]
        return count

    @property
    def task_count(self) -> IntArray:
        """(n,) number of pods on the nodes, with terminating and nominated ones."""
        count: IntArray = self.used[2] + self.pipelined[2]
        return count

    @property
    def pod_capacity(self) -> IntArray:
        """(n,) number of pods that the nodes take."""
        count: IntArray = self.allocatable[2]
        return count

    def resource(self, name: str) -> int | None:
        """Row of a resource in the (R, n) arrays; None for one that no node has and no task requests."""
        return self.table.axis.rows.get(name)
