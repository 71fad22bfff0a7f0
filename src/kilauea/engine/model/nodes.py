"""The nodes of a cluster as columns: what each offers, what is used, and what its labels and taints are.

Resources are rows and nodes are columns, so that one resource of all nodes lies together in memory. Nodes stand in the
natural order of their names (`n2` before `n10`), which is also the order in which ties fall.

Two pictures are kept of what a node carries (spec of the scheduler, 1.6 and 3.1). The account: `used`, `releasing`,
`pipelined`, for room and quotas. The view: `viewed` and `scored`, what Kubernetes' own filters and scores would see;
there a pod counts as soon as it is nominated, and no longer once it is evicted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.api import wellknown
from kilauea.api.core import Node
from kilauea.api.quantity import resource_amounts
from kilauea.api.selectors import TaintKey, taint_of
from kilauea.engine.model.resources import CPU, MEMORY, ResourceAxis

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node's object says, in the engine's units."""

    name: str
    allocatable: dict[str, int]
    labels: dict[str, str]
    taints: tuple[TaintKey, ...]
    unschedulable: bool
    images: dict[str, int] = field(default_factory=dict)
    """Image name to size in bytes."""


def facts_of(node: Node) -> NodeFacts:
    """Read a node's object.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    node_status, spec = node.status, node.spec
    allocatable = dict(resource_amounts(node_status.allocatable or node_status.capacity) if node_status else {})
    for annotation, name in ((wellknown.OVERSUBSCRIPTION_CPU, CPU), (wellknown.OVERSUBSCRIPTION_MEMORY, MEMORY)):
        text = node.annotations.get(annotation, "")
        if text.isdigit():
            allocatable[name] = allocatable.get(name, 0) + int(text)
    images = {
        name: image.size_bytes or 0
        for image in (node_status.images if node_status else None) or ()
        for name in image.names or ()
    }
    taints = tuple(taint_of(t) for t in (spec.taints if spec else None) or ())
    return NodeFacts(node.name, allocatable, node.labels, taints, bool(spec and spec.unschedulable), images)


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that orders numbers inside names by value."""
    parts = re.split(r"(\d+)", name)
    return (*(((0, int(p)) if p.isdigit() else (1, p)) for p in parts if p), (2, name))


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label over all nodes: its distinct values and, for each node, the index of its value (-1 without the label)."""

    values: list[str]
    ids: NDArray[np.int32]


class NodeTable:
    """All nodes. Arrays over nodes have shape (N,), over resources and nodes (R, N); amounts are int64."""

    def __init__(self, facts: Sequence[NodeFacts], axis: ResourceAxis) -> None:
        self.facts = sorted(facts, key=lambda f: natural(f.name))
        self.axis = axis
        self.names = [f.name for f in self.facts]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        for f in self.facts:
            axis.admit(f.allocatable)
        shape = (len(axis), len(self.facts))
        self.allocatable: IntArray = np.zeros(shape, dtype=np.int64)
        for name, row in axis.rows.items():
            self.allocatable[row] = [f.allocatable.get(name, 0) for f in self.facts]
        self.used: IntArray = np.zeros(shape, dtype=np.int64)
        """Taken by tasks on the node, those that are being removed included."""
        self.releasing: IntArray = np.zeros(shape, dtype=np.int64)
        """Part of `used` that is being freed."""
        self.pipelined: IntArray = np.zeros(shape, dtype=np.int64)
        """Promised to tasks that wait for room to be freed."""
        self.viewed: IntArray = np.zeros(shape, dtype=np.int64)
        """Requests of the pods in the view."""
        self.scored: IntArray = np.zeros((2, len(self.facts)), dtype=np.int64)
        """cpu and memory of the pods in the view, where containers without a request count a little."""
        self.changed: list[int] = []
        """Rows that a session changed, in order, repeats included; whoever keeps figures by node mends them by it."""
        self.kept: dict[tuple[object, ...], NDArray[Any]] = {}
        """Arrays over nodes that depend on the nodes' objects alone (`kilauea.engine.matching`)."""
        self.future = False
        """Whether any node has anything releasing or pipelined."""

    def __len__(self) -> int:
        return len(self.names)

    def widen(self) -> None:
        """Add rows for resources that the axis has learned since."""
        missing = len(self.axis) - self.allocatable.shape[0]
        if missing > 0:
            for name in ("allocatable", "used", "releasing", "pipelined", "viewed"):
                old = getattr(self, name)
                setattr(self, name, np.vstack([old, np.zeros((missing, len(self)), dtype=np.int64)]))

    def total(self) -> dict[str, int]:
        """Sum of what all nodes offer."""
        return {name: int(self.allocatable[row].sum()) for name, row in self.axis.rows.items()}

    @cached_property
    def unschedulable(self) -> BoolArray:
        """Nodes that are cordoned."""
        return np.array([f.unschedulable for f in self.facts], dtype=bool)

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[TaintKey, ...]], NDArray[np.int32]]:
        """The distinct sets of taints, and for each node the index of its set."""
        known: dict[tuple[TaintKey, ...], int] = {}
        ids = [known.setdefault(f.taints, len(known)) for f in self.facts]
        return list(known), np.array(ids, dtype=np.int32)

    @cached_property
    def holds_images(self) -> bool:
        """Whether any node says which images it holds."""
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


class NodeRows:
    """Some nodes of a table: what predicates and scores are asked about. Arrays have shape (n,) or (R, n).

    `rows` is None for all nodes (then the arrays are the table's own: never write to them) or an array of row numbers.
    """

    __slots__ = ("_cache", "rows", "table")

    def __init__(self, table: NodeTable, rows: NDArray[np.intp] | None) -> None:
        self.table = table
        self.rows = rows
        self._cache: dict[str, IntArray] = {}

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def take(self, column: NDArray[np.generic]) -> NDArray[np.generic]:
        """The part of a column over all nodes (last dimension) that belongs to these nodes."""
        return column if self.rows is None else column.take(self.rows, axis=-1)

    def _part(self, name: str) -> IntArray:
        whole: IntArray = getattr(self.table, name)
        if self.rows is None:
            return whole
        part = self._cache.get(name)
        if part is None:
            part = self._cache[name] = whole.take(self.rows, axis=-1)
        return part

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows]

    @property
    def allocatable(self) -> IntArray:
        """(R, n) what the nodes offer."""
        return self._part("allocatable")

    @property
    def used(self) -> IntArray:
        """(R, n) what tasks take, those being removed included."""
        return self._part("used")

    @property
    def releasing(self) -> IntArray:
        """(R, n) part of `used` that is being freed."""
        return self._part("releasing")

    @property
    def pipelined(self) -> IntArray:
        """(R, n) what is promised to tasks that wait."""
        return self._part("pipelined")

    @property
    def viewed(self) -> IntArray:
        """(R, n) requests of the pods that Kubernetes' filters and scores would see."""
        return self._part("viewed")

    @property
    def scored(self) -> IntArray:
        """(2, n) cpu and memory for scores."""
        return self._part("scored")

    @property
    def idle(self) -> IntArray:
        """(R, n) free now."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> IntArray:
        """(R, n) free once everything has ended that is ending, less what is promised."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    @property
    def pod_count(self) -> IntArray:
        """(n,) number of pods in the view."""
        return self.viewed[2]

    @property
    def pod_capacity(self) -> IntArray:
        """(n,) number of pods that the nodes take."""
        return self.allocatable[2]

    def resource(self, name: str) -> int | None:
        """Row of a resource in the (R, n) arrays; None for one that nobody has or asks for."""
        return self.table.axis.rows.get(name)
