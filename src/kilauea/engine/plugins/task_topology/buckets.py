"""Buckets of a job: tasks that are best placed on one node, made when a session opens and followed while it lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY, PODS, ResourceAxis
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import HOLDING, PENDING
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugins.task_topology.relations import Relations

MEBIBYTE = 1 << 20


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
        self._sums: dict[TaskSpec, NDArray[np.int64]] = {}

    @property
    def size(self) -> int:
        """Number of its tasks."""
        return len(self.waiting) + sum(self.bound.values())

    def arrived(self, task: Task, row: int) -> None:
        """A task came to a node."""
        self.waiting.pop(task.key, None)
        self.bound[row] = self.bound.get(row, 0) + 1
        self._sums.clear()

    def departed(self, task: Task, row: int) -> None:
        """A task left its node: it waits again, or has been evicted."""
        self.bound[row] = self.bound.get(row, 0) - 1
        if task.status == PENDING:
            self.waiting[task.key] = task
        self._sums.clear()

    def fitting(self, shape: TaskShape, room: NDArray[np.int64], axis: ResourceAxis) -> NDArray[np.int64]:
        """(n,) how many of the waiting tasks fit into a room (R, n), one of this shape among them; 0 if that does not.

        The smallest of the others come first, so that as many as possible fit.
        """
        sums = self._sums.get(shape.spec)
        if sums is None:
            sums = self._sums[shape.spec] = self._add_up(shape, axis)
        count = np.full(room.shape[1], sums.shape[1], dtype=np.int64)
        for row in np.flatnonzero(sums[:, -1]):
            np.minimum(count, np.searchsorted(sums[row], room[row], side="right"), out=count)
        return count

    def _add_up(self, shape: TaskShape, axis: ResourceAxis) -> NDArray[np.int64]:
        """(R, k) requests of the first, the first two, ... of the waiting tasks, beginning with one of the shape."""
        specs = sorted((task.spec for task in self.waiting.values()), key=resource_score)
        if shape.spec in specs:
            specs.remove(shape.spec)
        return np.cumsum([axis.listed(spec.requests) for spec in (shape.spec, *specs)], axis=0, dtype=np.int64).T


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
        self._placed: dict[str, NDArray[np.int64]] = {}
        """By name of a task that belongs apart from others: (N,) pods of it on each node."""
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
        if any(role in pair for pair in self.relations.apart):
            placed = self._placed.get(role)
            if placed is None:
                placed = self._placed[role] = np.zeros(self._nodes, dtype=np.int64)
            placed[row] += by

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
        fitting = bucket.fitting(shape, nodes.allocatable - nodes.used + nodes.releasing, axis)
        total = fitting.astype(np.float64)
        held = np.zeros(self._nodes)
        for row, count in bucket.bound.items():
            held[row] = count
        for other, placed in self._placed.items():
            if (role, other) in self.relations.apart:
                held -= placed
        total += nodes.take(held)
        return np.where(fitting > 0, total / max(self.largest, 1), 0.0)


def resource_score(spec: TaskSpec) -> float:
    """One number for the size of a request: milli-cores, mebibytes and thousandths of the rest, added up."""
    requests = spec.requests
    rest = sum(amount for name, amount in requests.items() if name not in (CPU, MEMORY, PODS))
    return requests.get(CPU, 0) + requests.get(MEMORY, 0) / MEBIBYTE + rest
