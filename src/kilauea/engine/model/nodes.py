"""The nodes of a cluster as columns: allocatable and used resources, labels and taints.

Resources are rows and nodes are columns, so that one resource of all nodes is contiguous in memory. Nodes are in the
natural order of their names (`n2` before `n10`), which also breaks ties.

The usage of a node is kept in two forms (spec of the scheduler, 1.6 and 3.1). The account, `used`, `releasing` and
`pipelined`, is for free resources and quotas. The view, `viewed` and `scored`, is what the filters and scores of
kube-scheduler would see: a pod counts from its nomination to its eviction.
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
"""Annotations with longer numbers are ignored."""

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
    """Cards that pods can share, one entry each."""
    capacity: tuple[int, int] = (0, 0)
    """Cpu and memory of the whole machine; the allocatable amounts if the object does not contain them."""
    evicts_offline: bool = False
    """True if the agent on the node is evicting offline pods."""


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
    """Nodes in the natural order of their names; `before` contains the rows of nodes whose order is known."""
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
        """True if every node has a different value, such as its host name."""
        return len(self.values) == len(self.ids)

    def spread(self, by_value: NDArray[T]) -> NDArray[T]:
        """(N,) the entry of each node's value in an array over values (D,); zero or false without the label."""
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
    """Devices that several nodes can reach: these nodes (N,), and the amount of the devices."""


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
        """Nodes that offer an extended resource only through devices of a class, by resource."""
        self._repeated: dict[str, int] = {}
        """Amount of each such resource that is counted again for further nodes."""
        self.changes = 0
        """Number of changes of the nodes' own offers."""
        self.changed: list[int] = []
        """Rows that a session changed, in order, with repeats; values cached by node are updated from it."""
        self.kept: dict[tuple[object, ...], NDArray[Any]] = {}
        """Arrays over nodes that depend only on the nodes' objects (`kilauea.engine.evaluation.matching`)."""
        self.future = False
        """True if resources are being released or are nominated, so that free resources now and later can differ."""

    def __len__(self) -> int:
        return len(self.names)

    def _allot(self) -> None:
        """Create the columns in one block, so that one operation reads or writes all values of a node."""
        count = len(self.axis)
        self.block: IntArray = np.zeros((5 * count + 2, len(self.facts)), dtype=np.int64)
        """(5 R + 2, N): the columns below, stacked."""
        self._name_parts()

    def _name_parts(self) -> None:
        columns = columns_of(self.block, len(self.axis))
        self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored = columns

    def widen(self) -> None:
        """Add rows for new resources of the axis."""
        if self.allocatable.shape[0] == len(self.axis):
            return
        old = (self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored)
        self._allot()
        for part, before in zip(columns_of(self.block, len(self.axis)), old, strict=True):
            part[: before.shape[0]] = before

    def change_offer(self, facts: NodeFacts) -> None:
        """Change the resources that a node offers; everything else stays the same."""
        self.widen()
        row = self.row_of[facts.name]
        self.facts[row] = facts
        self._offered = None
        self.changes += 1
        self.allocatable[:, row] = self.axis.vector(facts.allocatable)
        self.complete = bool((self.allocatable[:2] > 0).all())

    def offer_by_class(self, offers: Mapping[str, Offer]) -> None:
        """Set the extended resources that devices serve on nodes that do not offer them themselves."""
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
        """(N,) the amount of a resource that the nodes offer themselves."""
        return np.array([f.allocatable.get(name, 0) for f in self.facts], dtype=np.int64)

    def restore(self, block: IntArray) -> None:
        """Restore a copy of `block`."""
        self.block = block
        self._name_parts()

    def total(self) -> dict[str, int]:
        """Return the total that the nodes offer of each of their resources; devices of several nodes count once."""
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
        """True if any node reports its images."""
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
        """Select distinct rows in ascending order; nothing is copied if they are all rows."""
        nodes = NodeRows(self, rows)
        if len(rows) == len(self):
            nodes._read(self.block)
        return nodes


def columns_of(block: IntArray, resources: int) -> tuple[IntArray, ...]:
    """The parts of a block: allocatable, used, releasing, pipelined, viewed (each (R, n)) and scored (2, n)."""
    r = resources  # inlined, because this runs for each node that changed
    return block[:r], block[r : 2 * r], block[2 * r : 3 * r], block[3 * r : 4 * r], block[4 * r : 5 * r], block[5 * r :]


class NodeRows:
    """Some nodes of a table, for predicates and scores. Arrays have shape (n,) or (R, n).

    Attributes:
        rows: row numbers of the nodes in the table; None for all nodes, whose arrays are the table's own: never write
            to them.
        allocatable: (R, n) allocatable amounts.
        used: (R, n) requests of tasks, including those that are being removed.
        releasing: (R, n) part of `used` that is being released.
        pipelined: (R, n) requests of nominated tasks.
        viewed: (R, n) requests of the pods that the filters and scores of kube-scheduler would see.
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
        # Called for a column that was not read before; one gather reads all of them.
        if name not in NodeRows.__slots__:
            raise AttributeError(f"nodes have no {name!r}")
        block = self.table.block
        self._read(block if self.rows is None else block.take(self.rows, axis=1))
        found: IntArray = object.__getattribute__(self, name)
        return found

    def _read(self, block: IntArray) -> None:
        """Set the columns from a block with the values of these nodes."""
        columns = columns_of(block, len(self.table.axis))
        self.allocatable, self.used, self.releasing, self.pipelined, self.viewed, self.scored = columns

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def take(self, column: NDArray[T]) -> NDArray[T]:
        """Return the values of these nodes in a column over all nodes (last dimension)."""
        return column if self.rows is None else column.take(self.rows, axis=-1)

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows]

    @property
    def idle(self) -> IntArray:
        """(R, n) resources that are free now."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> IntArray:
        """(R, n) resources that are free once terminating tasks have ended, minus nominated requests."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    @property
    def staying_count(self) -> IntArray:
        """(n,) number of pods on the nodes, including nominated and excluding terminating ones."""
        count: IntArray = self.used[2] + self.pipelined[2] - self.releasing[2]
        return count

    @property
    def has_slots(self) -> NDArray[np.bool_]:
        """(n,) True for nodes with a free pod slot."""
        free: NDArray[np.bool_] = self.used[2] < self.allocatable[2]
        return free

    @property
    def pod_count(self) -> IntArray:
        """(n,) number of pods in the view."""
        count: IntArray = self.viewed[2]
        return count

    @property
    def task_count(self) -> IntArray:
        """(n,) number of pods on the nodes, including terminating and nominated ones."""
        count: IntArray = self.used[2] + self.pipelined[2]
        return count

    @property
    def pod_capacity(self) -> IntArray:
        """(n,) maximum number of pods on the nodes."""
        count: IntArray = self.allocatable[2]
        return count

    def resource(self, name: str) -> int | None:
        """Return the row of a resource in the (R, n) arrays; None if no node has it and no task requests it."""
        return self.table.axis.rows.get(name)
