"""The ledger: the changes of this cycle to tasks, with their previous state.

A cycle works on the state itself, not on a copy: copying all tasks and jobs would cost more than most cycles do. So the
ledger records the state of every task before it changes, and restores everything when it closes. The exception is the
data of all nodes, which is one block and is copied when the ledger opens: this is faster and safer than undoing
thousands of small changes in reverse.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import ExtensionPoints, Refusal
from kilauea.engine.model import status
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.neighbours import Neighbours
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shape_table import ShapeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.topology import Domains
from kilauea.engine.plan import Bind, Eviction
from kilauea.engine.report import Report
from kilauea.engine.state import ClusterState


class Ledger:
    """The changes of one cycle to tasks and jobs, in the state, in the sums of nodes and queues, and in the report.

    Statements and the engine's actions write to it; plugins do not.
    """

    def __init__(
        self,
        state: ClusterState,
        queues: Mapping[str, Queue],
        points: ExtensionPoints,
        report: Report,
        domains: Domains,
        neighbours: Neighbours,
        shapes: ShapeTable,
    ) -> None:
        self.report = report
        self.nodes = state.nodes
        self.touched: dict[str, Job] = {}
        """Jobs that this cycle changed."""
        self.served: set[str] = set()
        """Jobs that pods are evicted for in this cycle."""
        self.state = state
        self.queues = queues
        """The queues of the session."""
        self.moves = 0
        """Number of moves of tasks: while it is the same, nodes and queues hold the same."""
        self._points = points
        self._domains = domains
        self._neighbours = neighbours
        self._shapes = shapes
        self._journal: dict[str, tuple[Task, int, str]] = {}
        """Status and node of each task before its first change."""
        self._phases: dict[str, str] = {}
        """Phase of each job before it was admitted."""
        self._decided = dict(state.resource_claims.decided)
        self._volumes = dict(state.storage.decided)
        self._saved = self.nodes.block.copy()
        self.nodes.changed.clear()
        self.nodes.future = bool(self.nodes.releasing.any())

    # --- recording

    def _note(self, task: Task) -> Job:
        """Record the state of a task before its first change."""
        if task.key not in self._journal:
            self._journal[task.key] = (task, task.status, task.node)
        job = self.state.jobs[task.group]
        self.touched[job.key] = job
        return job

    def shape_of(self, task: Task) -> TaskShape:
        """Return the task's shape in this cycle.

        The shape is stored on the task, so the task is recorded: shapes depend on the rest of the cluster, and the next
        cycle must not find one from this cycle.
        """
        shape = task.shape
        if shape is None:
            self._journal.setdefault(task.key, (task, task.status, task.node))
            job = self.state.jobs.get(task.group)
            close = job is not None and self._domains.wishes(job)
            owner = (task.sub_job or task.group) if close else ""
            queue = job.queue if job is not None and task.spec.cards is not None else ""
            claims = self.state.resource_claims.wishes(task.claims, task.uid) if task.claims else ()
            traits = self._points.traits_of(task)
            shape = task.shape = self._shapes.shape_of(task, owner, queue, claims, traits)
        return shape

    # --- adding and removing tasks

    def place(self, task: Task, row: int, to: int) -> None:
        """Place a pending task on a node, ALLOCATED or PIPELINED."""
        shape = self.shape_of(task)
        self._note(task).move(task, to)
        task.node = self.nodes.names[row]
        if to == status.PIPELINED:
            self.nodes.future = True
        self._move(task, row, shape.promised if to == status.PIPELINED else shape.held, 1)

    def swaps(self) -> bool:
        """Return True if tasks of one gang and shape can swap places without any other effect."""
        return not (self._points.tells_tasks_apart or self._neighbours.needed)

    def relocate(self, task: Task, row: int) -> None:
        """Move a placed task to the place of an equal one (`swaps`), which is relocated too."""
        self._note(task)
        task.node = self.nodes.names[row]
        self.state.placements.node[task.row] = row

    def objection(self, task: Task) -> Refusal | None:
        """Return a plugin's refusal of a task on the node where it was placed; None without one."""
        return self._points.objections.get(task.key)

    def displace(self, task: Task, row: int) -> None:
        """Undo `place`."""
        shape, promised = self.shape_of(task), task.status == status.PIPELINED
        self._note(task).move(task, status.PENDING)
        task.node = ""
        self._move(task, row, -shape.promised if promised else -shape.held, -1)

    def release(self, task: Task, row: int) -> None:
        """Evict a task from its node, so that its resources are being released."""
        self._note(task).move(task, status.RELEASING)
        self.nodes.future = True
        self._move(task, row, self.shape_of(task).freed, -1)

    def restore(self, task: Task, row: int, to: int) -> None:
        """Undo `release`."""
        self._note(task).move(task, to)
        self._move(task, row, -self.shape_of(task).freed, 1)

    def _move(self, task: Task, row: int, change: NDArray[np.int64], by: int) -> None:
        """Add (1) or remove (-1) a task in the view and the sums of a node and its queue, and notify the plugins."""
        self.moves += 1
        nodes = self.nodes
        # A view: one addition changes all figures of the node.
        figures = nodes.block[:, row]
        figures += change
        nodes.changed.append(row)
        self.state.placements.node[task.row] = row if by > 0 else -1
        if self._neighbours.needed:
            self._neighbours.placed(task, row, by)
        queue = self.queues.get(self.state.jobs[task.group].queue)
        if queue is None:
            return  # a service, in a session about the others
        charged = queue.allocated
        for name, amount in task.spec.requests.items():
            charged[name] = charged.get(name, 0) + by * amount
        # Plugins are notified last, when all data that they can read is up to date.
        if by > 0:
            self._points.arrived(task, row)
        else:
            self._points.departed(task, row)

    # --- decisions

    def bind(self, task: Task) -> None:
        """Start a placed task: add it to the plan."""
        self.state.jobs[task.group].move(task, status.BINDING)
        claims = self.state.resource_claims.allocations(task.claims) if task.claims else ()
        volumes = self.state.storage.decisions(task.spec.claims) if task.spec.claims else ()
        annotations, locks = self._points.bind_annotations(task), self._points.bind_locks(task)
        self.report.binds.append(Bind(task.key, task.node, annotations, claims, volumes, locks))

    def withdraw(self, task: Task, row: int, preemptor: str) -> None:
        """Remove a start from the plan, for a task that was released for another job."""
        # On its node again, as `displace` takes off what a placed task holds there.
        self.restore(task, row, status.BINDING)
        message = f"room on node {task.node} goes to pod group {preemptor}, which would take it back at once"
        self.displace(task, row)
        self.report.withdraw(task)
        self.report.refuse(task, Refusal("RoomKept", message, self.state.jobs[task.group].queue))

    def note_eviction(self, task: Task, action: str, preemptor: str) -> None:
        """Add an eviction to the plan."""
        self.served.add(preemptor)
        self.report.evictions.append(Eviction(task.key, task.node, preemptor, action))

    def admit(self, job: Job) -> None:
        """Admit a pending job, so that its tasks can be placed."""
        self._phases.setdefault(job.key, job.phase)
        job.phase = INQUEUE
        self.touched[job.key] = job

    # --- closing

    def close(self) -> None:
        """Restore everything to the state when the ledger opened, and clear the journal."""
        self._put_back()
        self._journal.clear()
        self._phases.clear()
        self.touched.clear()

    def _put_back(self) -> None:
        self.state.resource_claims.decided = self._decided
        self.state.storage.decided = self._volumes
        self.nodes.restore(self._saved)
        self.nodes.changed.clear()
        row_of, placements = self.nodes.row_of, self.state.placements
        for task, before, node in self._journal.values():
            job = self.state.jobs.get(task.group)
            if task.status != before and job is not None:
                job.move(task, before)
            task.node, task.shape = node, None
            # Pods that have ended keep the name of their node, but hold no resources there.
            held = bool(node) and before not in status.ENDED
            placements.node[task.row] = row_of.get(node, -1) if held else -1
        for key, phase in self._phases.items():
            self.state.jobs[key].phase = phase
