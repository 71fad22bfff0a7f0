"""Tasks of a job that communicate share a node; others are kept apart.

What:
    Annotations of a job list which of its tasks should share a node (`volcano.sh/task-topology-affinity`) and which
    should run on different nodes (`volcano.sh/task-topology-anti-affinity`): groups of task names, separated by `;`,
    with the names in a group separated by `,`. A group of one name applies to the pods of that task among themselves.
    The tasks are sorted into buckets, each of which is best placed on one node. The score of a node is the part of the
    bucket that it holds or has room for, minus its pods that the pod should be kept apart from, divided by the largest
    bucket, times 100, times `task-topology.weight`. The largest bucket is placed first.
    `volcano.sh/task-topology-task-order` lists the tasks that go first.

Why:
    Workers on the same node as their parameter server save network traffic; two servers on one node compete for it.

Arguments:
    task-topology.weight (integer, 1): weight of the score.

Example:
    tiers:
    - plugins:
      - name: task-topology
        arguments:
          task-topology.weight: 10

Difference from the original:
    Placements of a discarded attempt are undone. Pods that ran before the cycle also count for anti-affinity. The task
    order also applies among tasks without affinity. Annotations that name a task that the job does not have, or name
    one twice, are ignored as a whole as in Volcano, and reported as a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import Finding, argument
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import PENDING
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.wishes import TASK_TOPOLOGY_BIT
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.task_topology.buckets import Background, Buckets
from kilauea.engine.plugins.task_topology.fitting import Requests, Room
from kilauea.engine.plugins.task_topology.relations import relations_of
from kilauea.engine.session import Session

ELSEWHERE = (1, 0, 0, 0, 0)
"""Sort key of tasks of other jobs."""


@dataclass(frozen=True)
class TaskTopologyArguments:
    """Arguments of task-topology."""

    weight: int = argument("task-topology.weight", 1, "Weight of the score.", minimum=0)


class Place(NamedTuple):
    """The bucket of a task: the trait by which the plugin distinguishes tasks."""

    group: str
    bucket: int
    role: str


class TaskTopology(Plugin):
    """See the module."""

    name = "task-topology"
    depends_on_time = False
    Arguments = TaskTopologyArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[str, Buckets] = {}
        self._background = Background(session.nodes.row_of, Room(session.nodes), Requests(session.axis))
        table, size = session.table, len(session.table)
        for job in session.jobs_where(
            (table.wishes[:size] & TASK_TOPOLOGY_BIT != 0) & (table.counts[PENDING, :size] > 0)
        ):
            self._read(job)
        session.add_task_order(self.name, self._key)
        session.add_batch_node_score(self.name, self._score, applies=lambda shape: self.name in shape.traits)
        if self._jobs:
            session.add_task_trait(self.name, self._trait)
            session.add_event_handler(self.name, self._arrived, self._departed)

    def _read(self, job: Job) -> None:
        """Create the buckets of a job, or report invalid annotations."""
        if not any(job.task_topology):
            return
        tasks = sorted(job.tasks.values(), key=lambda task: task.order)
        known = {task.role for task in tasks if task.role} | set(job.role_minimum)
        try:
            relations = relations_of(job.task_topology, known)
        except ValueError as error:
            message = f"its annotations for task topology are ignored: {error}"
            self._session.findings.append(Finding(f"pod group {job.key}", message, code="InvalidTaskTopology"))
            return
        self._jobs[job.key] = Buckets(tasks, relations, self._background)

    # --- tasks

    def _key(self, task: Task) -> tuple[int, int, int, int, int]:
        buckets = self._jobs.get(task.group)
        return ELSEWHERE if buckets is None else buckets.key(task)

    def _trait(self, task: Task) -> Place | None:
        buckets = self._jobs.get(task.group)
        bucket = buckets.of_task.get(task.key) if buckets is not None else None
        return None if bucket is None else Place(task.group, bucket.index, task.role)

    def _arrived(self, task: Task, row: int) -> None:
        buckets = self._jobs.get(task.group)
        if buckets is not None and task.key in buckets.of_task:
            buckets.arrived(task, row)

    def _departed(self, task: Task, row: int) -> None:
        buckets = self._jobs.get(task.group)
        if buckets is not None and task.key in buckets.of_task:
            buckets.departed(task, row)

    # --- nodes

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        place = shape.traits[self.name]
        assert isinstance(place, Place)
        buckets = self._jobs[place.group]
        return buckets.score(place.bucket, place.role, shape, nodes) * float(100 * self.arguments.weight)
