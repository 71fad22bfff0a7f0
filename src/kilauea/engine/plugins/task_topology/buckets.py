"""Buckets of a job: tasks that are best placed on one node, made when a session opens and followed while it lasts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.resources import CPU, MEMORY, PODS, ResourceAxis
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import HOLDING, PENDING
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugins.task_topology.relations import Relations

MEBIBYTE = 1 << 20
IntArray = NDArray[np.int64]


class Bucket:
    """Tasks that belong together.

    Attributes:
        index: its place among the buckets of the job.
        waiting: tasks without a node.
        bound: number of tasks by the row of their node.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: dict[str, Task] = {}
        self.bound: dict[int, int] = {}
        self._sums: dict[TaskSpec, IntArray] = {}
        self._order: WaitingRequests | None = None

    @property
    def size(self) -> int:
        """Number of its tasks."""
        return len(self.waiting) + sum(self.bound.values())

    def arrived(self, task: Task, row: int) -> None:
        """A task came to a node."""
        known = self.waiting.pop(task.key, None)
        if known is not None and self._order is not None:
            self._order.remove(task)
        self.bound[row] = self.bound.get(row, 0) + 1
        self._sums.clear()

    def departed(self, task: Task, row: int) -> None:
        """A task left its node: it waits again, or has been evicted."""
        self.bound[row] = self.bound.get(row, 0) - 1
        if task.status == PENDING:
            self.waiting[task.key] = task
            # The order of equal requests is that in which they came to wait.
            self._order = None
        self._sums.clear()

    def fitting(self, shape: TaskShape, nodes: NodeRows, axis: ResourceAxis) -> IntArray:
        """(n,) how many of the waiting tasks fit on nodes, one of this shape among them; 0 if that does not.

        The smallest of the others come first, so that as many as possible fit.
        """
        sums = self._sums.get(shape.spec)
        if sums is None:
            sums = self._sums[shape.spec] = self._add_up(shape, axis)
        if 2 * len(nodes) > len(nodes.table):
            # To look at all nodes is quicker than to gather the figures of most.
            return nodes.take(_fitting(sums, nodes.table, nodes.table.future))
        return _fitting(sums, nodes, nodes.table.future)

    def _add_up(self, shape: TaskShape, axis: ResourceAxis) -> IntArray:
        """(R, k) requests of the first, the first two, ... of the waiting tasks, beginning with one of the shape."""
        if all(task.spec is shape.spec for task in self.waiting.values()):
            return shape.request[:, None] * np.arange(1, max(len(self.waiting), 1) + 1)
        if self._order is None:
            self._order = WaitingRequests(self.waiting.values(), axis)
        return self._order.sums(shape)


def _fitting(sums: IntArray, nodes: NodeRows | NodeTable, future: bool) -> IntArray:
    """(n,) how many of the sums (R, k) of requests fit on nodes; `future` if anything is being freed."""
    count = np.full(len(nodes), sums.shape[1], dtype=np.int64)
    for row, most in enumerate(sums[:, -1].tolist()):
        if not most:
            continue
        room = nodes.allocatable[row] - nodes.used[row]
        if future:
            room += nodes.releasing[row]
        # Often all nodes have room for all, as with memory; to see that is quicker than to count.
        if np.minimum.reduce(room, initial=most) < most:
            np.minimum(count, sums[row].searchsorted(room, side="right"), out=count)
    return count


class WaitingRequests:
    """The requests of waiting tasks, the smallest first."""

    def __init__(self, tasks: Iterable[Task], axis: ResourceAxis) -> None:
        sized = [(resource_score(task.spec), number, task) for number, task in enumerate(tasks)]
        order = sorted(sized, key=lambda entry: entry[:2])
        self._keys = [(score, number) for score, number, _ in order]
        self._specs = [task.spec for _, _, task in order]
        self._key_of = {task.key: (score, number) for score, number, task in order}
        self._requests: IntArray = np.array([axis.listed(spec.requests) for spec in self._specs], dtype=np.int64)
        self._requests = np.ascontiguousarray(self._requests.reshape(-1, len(axis)).T)
        """(R, k)"""

    def remove(self, task: Task) -> None:
        """A task waits no longer."""
        at = bisect_left(self._keys, self._key_of.pop(task.key))
        del self._keys[at], self._specs[at]
        self._requests = self._without(at)

    def sums(self, shape: TaskShape) -> IntArray:
        """(R, k) requests of the first, the first two, ... of the tasks, beginning with one of a shape."""
        at = bisect_left(self._keys, (resource_score(shape.spec), -1))
        # Tasks of other specs may be as large.
        while at < len(self._specs) and self._specs[at] is not shape.spec:
            at += 1
        others = self._without(at) if at < len(self._specs) else self._requests
        out: IntArray = np.concatenate([shape.request[:, None], others], axis=1).cumsum(axis=1)
        return out

    def _without(self, at: int) -> IntArray:
        return np.concatenate([self._requests[:, :at], self._requests[:, at + 1 :]], axis=1)


class Buckets:
    """The buckets of a job, and where its tasks are.

    Attributes:
        of_task: the bucket by the key of a task.
        largest: size of the largest bucket when the session opened.
        relations: the relations of its tasks.
    """

    def __init__(self, tasks: Iterable[Task], relations: Relations, row_of: Mapping[str, int], nodes: int) -> None:
        self.relations = relations
        self.of_task: dict[str, Bucket] = {}
        self.ranks = {name: relations.rank(name) for name in sorted({task.role for task in tasks})}
        self._buckets: list[Bucket] = []
        self._nodes = nodes
        self._apart_from: dict[str, list[str]] = {}
        """By name of a task: those that belong apart from it."""
        for a, b in sorted(relations.apart):
            self._apart_from.setdefault(b, []).append(a)
        self._shunned: dict[str, IntArray] = {}
        """By name of a task: (N,) pods on each node from which it belongs apart."""
        self._names = {name: i for i, name in enumerate(self.ranks)}
        size = len(self._names)
        self._weights = np.zeros((size, size), dtype=np.int64)
        for pairs, weight in ((relations.together, 1), (relations.apart, -1)):
            for a, b in pairs:
                if a in self._names and b in self._names:
                    self._weights[self._names[a], self._names[b]] += weight
        self._counts = np.zeros((16, size), dtype=np.int64)
        """(buckets, names) number of tasks; rows in excess are for buckets to come."""
        self._loads: list[float] = []
        self._fill([task for task in tasks if self.ranks[task.role]], row_of)
        self.largest = max((bucket.size for bucket in self._buckets), default=0)

    # --- making buckets

    def _fill(self, tasks: list[Task], row_of: Mapping[str, int]) -> None:
        bound = [task for task in tasks if task.status in HOLDING and task.node in row_of]
        by_node: dict[str, Bucket] = {}
        for task in sorted(bound, key=lambda task: (row_of[task.node], task.order)):
            bucket = by_node.get(task.node) or by_node.setdefault(task.node, self._add_bucket())
            self._join(bucket, task)
            self.arrived(task, row_of[task.node])
        order, ranks = self.relations.order, self.ranks
        waiting = [task for task in tasks if task.status == PENDING]
        for task in sorted(waiting, key=lambda task: (-order.get(task.role, 0), -ranks[task.role], task.order)):
            bucket = self._choose(task)
            self._join(bucket, task)
            bucket.waiting[task.key] = task
            self._loads[bucket.index] += resource_score(task.spec)

    def _choose(self, task: Task) -> Bucket:
        """The bucket whose tasks suit a task best, of equal ones the one with the least to place; else a new one."""
        count = len(self._buckets)
        if count:
            suits = self._counts[:count] @ self._weights[self._names[task.role]]
            most = suits.max()
            if most >= 0:
                best = min(np.flatnonzero(suits == most).tolist(), key=self._loads.__getitem__)
                return self._buckets[best]
        return self._add_bucket()

    def _add_bucket(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        self._loads.append(0.0)
        if len(self._buckets) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return bucket

    def _join(self, bucket: Bucket, task: Task) -> None:
        self.of_task[task.key] = bucket
        self._counts[bucket.index, self._names[task.role]] += 1

    # --- following the session

    def arrived(self, task: Task, row: int) -> None:
        """A task of a bucket came to a node."""
        self.of_task[task.key].arrived(task, row)
        self._count(task.role, row, 1)

    def departed(self, task: Task, row: int) -> None:
        """A task of a bucket left its node."""
        self.of_task[task.key].departed(task, row)
        self._count(task.role, row, -1)

    def _count(self, role: str, row: int, by: int) -> None:
        for other in self._apart_from.get(role, ()):
            shunned = self._shunned.get(other)
            if shunned is None:
                shunned = self._shunned[other] = np.zeros(self._nodes, dtype=np.int64)
            shunned[row] += by

    # --- scores

    def key(self, task: Task) -> tuple[int, int, int, int, int]:
        """Sort key: tasks of large buckets first, in a bucket by the order of the annotation, then by rank."""
        order = -self.relations.order.get(task.role, 0)
        bucket = self.of_task.get(task.key)
        if bucket is None:
            return (1, 0, 0, order, 0)
        return (0, -len(bucket.waiting), bucket.index, order, -self.ranks[task.role])

    def score(
        self, index: int, role: str, shape: TaskShape, nodes: NodeRows, axis: ResourceAxis
    ) -> NDArray[np.float64]:
        """(n,) the part of its bucket that a node holds or can take with a task; of the largest bucket, at most 1."""
        bucket = self._buckets[index]
        fitting = bucket.fitting(shape, nodes, axis)
        total, shunned = fitting, self._shunned.get(role)
        if any(bucket.bound.values()):
            held = np.zeros(self._nodes, dtype=np.int64)
            held[list(bucket.bound)] = list(bucket.bound.values())
            total = total + nodes.take(held)
        if shunned is not None:
            total = total - nodes.take(shunned)
        return np.where(fitting > 0, total / max(self.largest, 1), 0.0)


def resource_score(spec: TaskSpec) -> float:
    """One number for the size of a request: milli-cores, mebibytes and thousandths of the rest, added up."""
    requests = spec.requests
    rest = sum(amount for name, amount in requests.items() if name not in (CPU, MEMORY, PODS))
    return requests.get(CPU, 0) + requests.get(MEMORY, 0) / MEBIBYTE + rest
