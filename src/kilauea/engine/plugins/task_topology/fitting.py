"""How many waiting tasks of a bucket fit on each node: the room there, followed while the session lasts, and requests."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.resources import CPU, MEMORY, PODS, ResourceAxis
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task

MEBIBYTE = 1 << 20
IntArray = NDArray[np.int64]


class Needed(NamedTuple):
    """One resource of tasks that are added up: its row, the sums (k,) of the first one, two, ..., and the last sum."""

    row: int
    sums: IntArray
    most: int


def needed(sums: IntArray) -> tuple[Needed, ...]:
    """The resources that count of sums (R, k) of requests."""
    return tuple(Needed(row, sums[row], most) for row, most in enumerate(sums[:, -1].tolist()) if most)


class Room:
    """The room that nodes have once everything that ends has ended. Nodes that changed are looked at again."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seen = -1
        """The part of the list of changes that is processed; -1 before the first look."""
        self._left: IntArray
        """(R, N)"""
        self._least: list[int]
        """(R,) amounts that no node has less of, though each may have more."""

    def fitting(self, tasks: tuple[Needed, ...], most: int, nodes: NodeRows) -> IntArray:
        """(n,) how many of the first tasks fit on nodes; `most` where all of them do."""
        self._follow()
        count: IntArray | None = None
        for row, sums, whole in tasks:
            # Often all nodes have room for all, as with memory; to see that is quicker than to count.
            if whole > self._least[row]:
                left = self._left[row]
                fit = sums.searchsorted(left if len(nodes) == len(left) else nodes.take(left), side="right")
                count = fit if count is None else np.minimum(count, fit)
        return np.full(len(nodes), most, dtype=np.int64) if count is None else count

    def _follow(self) -> None:
        nodes = self._nodes
        if self._seen < 0:
            self._left = nodes.allocatable - nodes.used + nodes.releasing
            self._least = np.minimum.reduce(self._left, axis=1, initial=np.iinfo(np.int64).max).tolist()
        elif self._seen < len(nodes.changed):
            for row in dict.fromkeys(nodes.changed[self._seen :]):
                left = nodes.allocatable[:, row] - nodes.used[:, row] + nodes.releasing[:, row]
                self._left[:, row] = left
                self._least = list(map(min, self._least, left.tolist()))
        self._seen = len(nodes.changed)


class Sizes:
    """One number for the size of each request: milli-cores, mebibytes and thousandths of the rest, added up."""

    def __init__(self) -> None:
        self._known: dict[TaskSpec, float] = {}

    def of(self, spec: TaskSpec) -> float:
        """The size of the request of a spec."""
        size = self._known.get(spec)
        if size is None:
            asked = spec.requests
            rest = sum(amount for name, amount in asked.items() if name not in (CPU, MEMORY, PODS))
            size = self._known[spec] = asked.get(CPU, 0) + asked.get(MEMORY, 0) / MEBIBYTE + rest
        return size


class WaitingRequests:
    """The requests of waiting tasks, the smallest first."""

    def __init__(self, tasks: Iterable[Task], axis: ResourceAxis, sizes: Sizes) -> None:
        self._sizes = sizes
        sized = [(sizes.of(task.spec), number, task) for number, task in enumerate(tasks)]
        order = sorted(sized, key=lambda entry: entry[:2])
        self._keys = [(size, number) for size, number, _ in order]
        self._specs = [task.spec for _, _, task in order]
        self._key_of = {task.key: (size, number) for size, number, task in order}
        requests = np.array([[0] * len(axis), *(axis.listed(spec.requests) for spec in self._specs)], dtype=np.int64)
        self._sums: IntArray = np.ascontiguousarray(requests.cumsum(axis=0).T)
        """(R, k + 1) requests of the first, the first two, ... of the tasks, after a column for none of them."""

    def remove(self, task: Task) -> None:
        """A task waits no longer."""
        at = bisect_left(self._keys, self._key_of.pop(task.key))
        del self._keys[at], self._specs[at]
        sums = self._sums
        request = sums[:, at + 1 : at + 2] - sums[:, at : at + 1]
        self._sums = np.concatenate([sums[:, : at + 1], sums[:, at + 2 :] - request], axis=1)

    def sums(self, shape: TaskShape) -> IntArray:
        """(R, k) requests of the first, the first two, ... of the tasks, beginning with one of a shape."""
        at = bisect_left(self._keys, (self._sizes.of(shape.spec), -1))
        # Tasks of other specs may be as large.
        while at < len(self._specs) and self._specs[at] is not shape.spec:
            at += 1
        # Those after the task of this shape are added up with it already.
        with_it = self._sums[:, : at + 1] + shape.request[:, None]
        return np.concatenate([with_it, self._sums[:, at + 2 :]], axis=1)
