"""The typical pods that nodes can accept, apart from cards."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.table import IntArray
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugins.fragmentation.mix import Mix

CPU_ROW, MEMORY_ROW = 0, 1
"""Rows of the first resources on every axis."""
Place = tuple[int, int, int]
"""Future idle cpu and memory of a node, and the number of its set of selector and taint rules."""


class Standing(NamedTuple):
    """The state of a node that determines which typical pods it can accept, and the number of their set."""

    place: Place
    able: int


class Able:
    """The typical pods that nodes can accept, apart from cards.

    They depend on free cpu, free memory and selectors; nodes with equal ranks in all of these accept the same set.
    """

    def __init__(self, mix: Mix, nodes: NodeTable) -> None:
        self._rules, rule = np.unique(mix.allowed(nodes), axis=0, return_inverse=True)
        self._rule = rule.reshape(-1)
        """(N,) row of `_rules` (k, M)."""
        self._cpu, self._cpu_rank = _ranked([typical.cpu for typical in mix.pods])
        self._memory, self._memory_rank = _ranked([typical.memory for typical in mix.pods])
        self._cpu_steps, self._memory_steps = self._cpu.tolist(), self._memory.tolist()
        self._nodes = nodes
        self._last: tuple[int, int, Standing] = (-1, -1, Standing((0, 0, 0), 0))
        """The last result of `standing`: the number of node changes then, the row, and the result."""
        self.sets = (len(self._cpu) + 1) * (len(self._memory) + 1) * len(self._rules)
        """The number of sets."""

    def at(self, nodes: NodeRows, shape: TaskShape | None) -> IntArray:
        """(n,) numbers of the sets of nodes, as they are or with a pod of the shape."""
        return self.sets_of(free_of(nodes, shape), nodes)

    def sets_of(self, free: IntArray, nodes: NodeRows) -> IntArray:
        """(n,) numbers of the sets of nodes with this free cpu and memory (2, n)."""
        out: IntArray = self._cpu.searchsorted(free[0], side="right")
        out *= len(self._memory) + 1
        out += self._memory.searchsorted(free[1], side="right")
        return out if len(self._rules) == 1 else out * len(self._rules) + nodes.take(self._rule)

    def standing(self, row: int) -> Standing:
        """Return the current state of a node; called several times after a placement, before anything else changes."""
        changes = len(self._nodes.changed)
        at, of, known = self._last
        if of != row or at != changes:
            place = self.place(row)
            known = Standing(place, self.number(place))
            self._last = changes, row, known
        return known

    def place(self, row: int) -> Place:
        """All that determines the set of one node in its current state."""
        nodes = self._nodes
        cpu = nodes.allocatable.item(CPU_ROW, row) - nodes.used.item(CPU_ROW, row)
        memory = nodes.allocatable.item(MEMORY_ROW, row) - nodes.used.item(MEMORY_ROW, row)
        if nodes.future:
            cpu += nodes.releasing.item(CPU_ROW, row) - nodes.pipelined.item(CPU_ROW, row)
            memory += nodes.releasing.item(MEMORY_ROW, row) - nodes.pipelined.item(MEMORY_ROW, row)
        return cpu, memory, self._rule.item(row)

    def number(self, place: Place, cpu: int = 0, memory: int = 0) -> int:
        """The number of the set of one node, with this much less cpu and memory."""
        left, right, rule = place
        first = bisect_right(self._cpu_steps, left - cpu) * (len(self._memory_steps) + 1)
        return (first + bisect_right(self._memory_steps, right - memory)) * len(self._rules) + rule

    def pods(self, sets: IntArray) -> NDArray[np.bool_]:
        """(u, M) pods of the sets."""
        ranks, rule = np.divmod(sets, len(self._rules))
        cpu, memory = np.divmod(ranks, len(self._memory) + 1)
        out: NDArray[np.bool_] = (cpu[:, None] > self._cpu_rank) & (memory[:, None] > self._memory_rank)
        return out & self._rules[rule]


def free_of(nodes: NodeRows, shape: TaskShape | None) -> IntArray:
    """(2, n) future idle cpu and memory, as they are or with a pod of the shape."""
    free: IntArray = nodes.allocatable[:2] - nodes.used[:2]
    if nodes.table.future:
        free += nodes.releasing[:2] - nodes.pipelined[:2]
    if shape is not None:
        free -= shape.request[:2, None]
    return free


def _ranked(amounts: list[int]) -> tuple[IntArray, NDArray[np.intp]]:
    """The distinct amounts in ascending order, and the rank of each."""
    steps, rank = np.unique(np.array(amounts, dtype=np.int64), return_inverse=True)
    return steps, rank
