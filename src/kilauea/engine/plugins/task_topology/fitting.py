"""The number of waiting tasks of a bucket that fit on each node: its free resources, and the cumulated requests."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.resources import CPU, MEMORY, PODS, ResourceAxis
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task

MEBIBYTE = 1 << 20
FEW = 16
"""Up to this many tasks, the sums of equal requests are cached."""
IntArray = NDArray[np.int64]


class Needed:
    """The requests of several tasks for one resource.

    Attributes:
        row: row of the resource.
        most: the sum of all requests.
    """

    def __init__(self, row: int, requests: array[int], most: int) -> None:
        self.row = row
        self.most = most
        self._requests = requests

    @cached_property
    def steps(self) -> IntArray:
        """(k,) requests of the first task, the first two, and so on; computed only for resources that can be scarce."""
        steps: IntArray = np.frombuffer(self._requests, dtype=np.int64).cumsum()
        return steps


class Sums(NamedTuple):
    """The cumulative requests of tasks: the resources that count, and the number of tasks."""

    needed: tuple[Needed, ...]
    tasks: int


class Room:
    """The future idle resources of nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._least: dict[int, tuple[int, int]] = {}
        """By row of a resource: a lower bound for all nodes, and the part of the list of changes that it includes."""

    def fitting(self, sums: Sums, nodes: NodeRows) -> IntArray:
        """(n,) number of the first tasks that fit on nodes."""
        count: IntArray | None = None
        for needed in sums.needed:
            # Often all nodes have room for all tasks, as with memory; checking that is faster than counting.
            if self._at_least(needed.row, needed.most):
                continue
            left = self._left(needed.row)
            if len(nodes) < len(left):
                left = nodes.take(left)
            if sums.tasks == 1:
                fit = (left >= needed.most).astype(np.int64)
            else:
                fit = needed.steps.searchsorted(left, side="right")
            count = fit if count is None else np.minimum(count, fit)
        return np.full(len(nodes), sums.tasks, dtype=np.int64) if count is None else count

    def _left(self, row: int) -> IntArray:
        """(N,) future idle amount of one resource."""
        nodes = self._nodes
        left: IntArray = nodes.allocatable[row] - nodes.used[row]
        return left + nodes.releasing[row] if nodes.future else left

    def _at_least(self, row: int, amount: int) -> bool:
        """Return True if all nodes are known to have this much of a resource."""
        nodes, known = self._nodes, self._least.get(row)
        if known is None:
            least = int(self._left(row).min(initial=np.iinfo(np.int64).max))
            known = self._least[row] = (least, len(nodes.changed))
        least, seen = known
        # If a node has more again, the bound is too low, which only costs a check of all nodes.
        if least >= amount and seen < len(nodes.changed):
            for node in nodes.changed[seen:]:
                used = nodes.used.item(row, node) - nodes.releasing.item(row, node)
                least = min(least, nodes.allocatable.item(row, node) - used)
            self._least[row] = (least, len(nodes.changed))
        return least >= amount


class Request(NamedTuple):
    """The request of a spec: (R) amounts, and one number for its size.

    The size is the sum of milli-cores, mebibytes and thousandths of the rest.
    """

    amounts: list[int]
    size: float


class Requests:
    """The requests of specs, and of several tasks with the same request, shared by similar jobs."""

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._known: dict[TaskSpec, Request] = {}
        self._alike: dict[tuple[TaskSpec, int], Sums] = {}

    def of(self, spec: TaskSpec) -> Request:
        """The request of a spec."""
        found = self._known.get(spec)
        if found is None:
            asked = spec.requests
            rest = sum(amount for name, amount in asked.items() if name not in (CPU, MEMORY, PODS))
            size = asked.get(CPU, 0) + asked.get(MEMORY, 0) / MEBIBYTE + rest
            found = self._known[spec] = Request(self._axis.listed(asked), size)
        return found

    def alike(self, spec: TaskSpec, count: int) -> Sums:
        """Requests of one task of a spec, of two, and so on."""
        sums = self._alike.get((spec, count))
        if sums is None:
            amounts = enumerate(self.of(spec).amounts)
            needed = tuple(Needed(row, array("q", [asked]) * count, asked * count) for row, asked in amounts if asked)
            sums = Sums(needed, count)
            if count <= FEW:
                self._alike[spec, count] = sums
        return sums


class WaitingRequests:
    """The requests of waiting tasks, the smallest first."""

    def __init__(self, tasks: Iterable[Task], requests: Requests) -> None:
        self._of = requests.of
        sized = [(requests.of(task.spec).size, number, task) for number, task in enumerate(tasks)]
        sized.sort(key=lambda entry: entry[:2])
        self._keys = [(size, number) for size, number, _ in sized]
        self._specs = [task.spec for _, _, task in sized]
        self._key_of = {task.key: (size, number) for size, number, task in sized}
        amounts = zip(*(requests.of(spec).amounts for spec in self._specs), strict=True)
        self._amounts = [array("q", of_resource) for of_resource in amounts]
        """By resource, those of the tasks."""
        self._totals = [sum(of_resource) for of_resource in self._amounts]

    def remove(self, task: Task) -> None:
        """Remove a task that no longer waits."""
        at = bisect_left(self._keys, self._key_of.pop(task.key))
        del self._keys[at], self._specs[at]
        for row, amounts in enumerate(self._amounts):
            self._totals[row] -= amounts.pop(at)

    def sums(self, spec: TaskSpec) -> Sums:
        """Requests of the first, the first two, ... of the tasks, starting with one of a spec."""
        request = self._of(spec)
        at = bisect_left(self._keys, (request.size, -1))
        # Tasks of other specs may have the same size.
        while at < len(self._specs) and self._specs[at] is not spec:
            at += 1
        waits = at < len(self._specs)
        needed = []
        for row, (asked, amounts, total) in enumerate(zip(request.amounts, self._amounts, self._totals, strict=True)):
            most = total if waits else total + asked
            if most:
                ordered = array("q", [asked])
                ordered += amounts[:at]
                ordered += amounts[at + 1 :]
                needed.append(Needed(row, ordered, most))
        return Sums(tuple(needed), len(self._specs) + (not waits))
