"""Buckets of a job: tasks that are best placed on one node, created when a session opens and updated during it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import HOLDING, PENDING
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugins.task_topology.fitting import Requests, Room, Sums, WaitingRequests
from kilauea.engine.plugins.task_topology.relations import Relations

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Background:
    """The nodes and resources of a session, shared by the buckets of all jobs."""

    row_of: Mapping[str, int]
    room: Room
    requests: Requests


class Bucket:
    """Tasks that belong together.

    Attributes:
        index: its index among the buckets of the job.
        waiting: tasks without a node.
        bound: number of tasks by the row of their node.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: dict[str, Task] = {}
        self.bound: dict[int, int] = {}
        self._specs: dict[TaskSpec, int] = {}
        """Number of the waiting tasks by spec."""
        self._sums: dict[TaskSpec, Sums] = {}
        self._order: WaitingRequests | None = None

    @property
    def size(self) -> int:
        """Number of its tasks."""
        return len(self.waiting) + sum(self.bound.values())

    def waits(self, task: Task) -> None:
        """Add a task that waits for a node."""
        self.waiting[task.key] = task
        self._specs[task.spec] = self._specs.get(task.spec, 0) + 1

    def arrived(self, task: Task, row: int) -> None:
        """Record that a task was placed on a node."""
        known = self.waiting.pop(task.key, None)
        if known is not None:
            self._specs[task.spec] -= 1
            if not self._specs[task.spec]:
                del self._specs[task.spec]
            if self._order is not None:
                self._order.remove(task)
        self.bound[row] = self.bound.get(row, 0) + 1
        self._sums.clear()

    def departed(self, task: Task, row: int) -> None:
        """Record that a task left its node: it waits again, or was evicted."""
        self.bound[row] = self.bound.get(row, 0) - 1
        if not self.bound[row]:
            del self.bound[row]
        if task.status == PENDING:
            self.waits(task)
            # Equal requests are in the order in which the tasks started to wait.
            self._order = None
        self._sums.clear()

    def fitting(self, shape: TaskShape, nodes: NodeRows, background: Background) -> IntArray:
        """(n,) number of waiting tasks that fit on nodes, including one of this shape; 0 if that does not fit.

        The others are added from the smallest on, so that as many as possible fit.
        """
        known = self._sums.get(shape.spec)
        if known is None:
            known = self._sums[shape.spec] = self._add_up(shape, background)
        return background.room.fitting(known, nodes)

    def _add_up(self, shape: TaskShape, background: Background) -> Sums:
        """Requests of the first, the first two, ... of the waiting tasks, starting with one of the shape."""
        if not self._specs or (len(self._specs) == 1 and shape.spec in self._specs):
            return background.requests.alike(shape.spec, max(len(self.waiting), 1))
        if self._order is None:
            self._order = WaitingRequests(self.waiting.values(), background.requests)
        return self._order.sums(shape.spec)


class Buckets:
    """The buckets of a job, and the nodes of its tasks.

    Attributes:
        of_task: the bucket by the key of a task.
        largest: size of the largest bucket when the session opened.
        relations: the relations of its tasks.
    """

    def __init__(self, tasks: Iterable[Task], relations: Relations, background: Background) -> None:
        self.relations = relations
        self._background = background
        self.of_task: dict[str, Bucket] = {}
        self.ranks = {name: relations.rank(name) for name in sorted({task.role for task in tasks})}
        self._buckets: list[Bucket] = []
        self._nodes = len(background.row_of)
        self._apart_from: dict[str, list[str]] = {}
        """By name of a task: the tasks to be apart from."""
        for a, b in sorted(relations.apart):
            self._apart_from.setdefault(b, []).append(a)
        self._shunned: dict[str, IntArray] = {}
        """By name of a task: (N,) pods on each node to be apart from."""
        self._weights: dict[str, list[tuple[str, int]]] = {name: [] for name in self.ranks}
        """By name of a task: tasks to be together with (1) or apart from (-1); with both, a task has two entries."""
        for pairs, weight in ((relations.together, 1), (relations.apart, -1)):
            for a, b in sorted(pairs):
                if a in self.ranks and b in self.ranks:
                    self._weights[b].append((a, weight))
        self._suits: dict[str, list[int]] = {name: [] for name in self.ranks}
        """By name of a task: the affinity of the tasks in each bucket."""
        self._loads: list[float] = []
        self._fill([task for task in tasks if self.ranks[task.role]])
        self.largest = max((bucket.size for bucket in self._buckets), default=0)

    # --- creation of buckets

    def _fill(self, tasks: list[Task]) -> None:
        row_of = self._background.row_of
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
            bucket.waits(task)
            self._loads[bucket.index] += self._background.requests.of(task.spec).size

    def _choose(self, task: Task) -> Bucket:
        """The bucket with the highest affinity for a task, then with the fewest pending requests; else a new one."""
        suits = self._suits[task.role]
        most = max(suits, default=-1)
        if most >= 0:
            best = min((index for index, suit in enumerate(suits) if suit == most), key=self._loads.__getitem__)
            return self._buckets[best]
        return self._add_bucket()

    def _add_bucket(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        self._loads.append(0.0)
        for suits in self._suits.values():
            suits.append(0)
        return bucket

    def _join(self, bucket: Bucket, task: Task) -> None:
        self.of_task[task.key] = bucket
        for name, weight in self._weights[task.role]:
            self._suits[name][bucket.index] += weight

    # --- changes in the session

    def arrived(self, task: Task, row: int) -> None:
        """Record that a task of a bucket was placed on a node."""
        self.of_task[task.key].arrived(task, row)
        self._count(task.role, row, 1)

    def departed(self, task: Task, row: int) -> None:
        """Record that a task of a bucket left its node."""
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

    def score(self, index: int, role: str, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) the fraction of its bucket that a node holds or can accept with a task; for the largest, at most 1."""
        bucket = self._buckets[index]
        fitting = bucket.fitting(shape, nodes, self._background)
        total, shunned = fitting, self._shunned.get(role)
        if bucket.bound:
            held = np.zeros(self._nodes, dtype=np.int64)
            held[list(bucket.bound)] = list(bucket.bound.values())
            total = total + self._of(nodes, held)
        if shunned is not None:
            total = total - self._of(nodes, shunned)
        part: NDArray[np.float64] = total / max(self.largest, 1)
        # Nodes without room for the task itself are rarely scored.
        return part if np.count_nonzero(fitting) == len(fitting) else np.where(fitting > 0, part, 0.0)

    def _of(self, nodes: NodeRows, column: IntArray) -> IntArray:
        """The part of a column (N,) for some nodes, without a copy for all nodes."""
        return column if len(nodes) == self._nodes else nodes.take(column)
