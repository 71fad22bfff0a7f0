"""Changes of this cycle: tasks that are added and removed, with their previous state.

A cycle works on the state itself, not on a copy: copying all tasks and jobs would cost more than most cycles do. So the
ledger notes what every task was before it is touched, and puts everything back when it closes, so that the state is
again what events made of it. The figures of all nodes are the exception. They lie in one block, which is copied whole
when the ledger opens: that is quicker, and surer, than undoing thousands of small changes in reverse.
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
    """The changes of one cycle to tasks and jobs, in the state, in the figures of nodes and queues, and in the report.

    Statements and actions of the engine write here; plugins do not.
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
        """Those of the session."""
        self.moves = 0
        """Number of moves of tasks: as long as this is the same, so is what nodes and queues hold."""
        self._points = points
        self._domains = domains
        self._neighbours = neighbours
        self._shapes = shapes
        self._journal: dict[str, tuple[Task, int, str]] = {}
        """By task: its status and node when it was first touched."""
        self._phases: dict[str, str] = {}
        """By job: its phase before it was admitted."""
        self._decided = dict(state.resource_claims.decided)
        self._volumes = dict(state.storage.decided)
        self._saved = self.nodes.block.copy()
        self.nodes.changed.clear()
        self.nodes.future = bool(self.nodes.releasing.any())

    # --- noting

    def _note(self, task: Task) -> Job:
        """Remember what a task is, unless it was changed before: only its very first state is put back."""
        if task.key not in self._journal:
            self._journal[task.key] = (task, task.status, task.node)
        job = self.state.jobs[task.group]
        self.touched[job.key] = job
        return job

    def shape_of(self, task: Task) -> TaskShape:
        """The task's shape in this cycle.

        It is kept on the task, so the task is noted: shapes depend on what else is in the cluster, and the next cycle
        must not find one of this.
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

    # --- tasks come and go

    def place(self, task: Task, row: int, to: int) -> None:
        """Put a waiting task on a node, ALLOCATED or PIPELINED."""
        shape = self.shape_of(task)
        self._note(task).move(task, to)
        task.node = self.nodes.names[row]
        if to == status.PIPELINED:
            self.nodes.future = True
        self._move(task, row, shape.promised if to == status.PIPELINED else shape.held, 1)

    def swaps(self) -> bool:
        """Return True if tasks of one gang and one shape may change places without anything else changing."""
        return not (self._points.tells_tasks_apart or self._neighbours.needed)

    def relocate(self, task: Task, row: int) -> None:
        """A placed task changes places with another one that is like it (`swaps`), which is relocated too."""
        self._note(task)
        task.node = self.nodes.names[row]
        self.state.placements.node[task.row] = row

    def objection(self, task: Task) -> Refusal | None:
        """The refusal of a plugin that has nothing for a task on the node where it was placed; None if none objects."""
        return self._points.objections.get(task.key)

    def displace(self, task: Task, row: int) -> None:
        """Undo `place`."""
        shape, promised = self.shape_of(task), task.status == status.PIPELINED
        self._note(task).move(task, status.PENDING)
        task.node = ""
        self._move(task, row, -shape.promised if promised else -shape.held, -1)

    def release(self, task: Task, row: int) -> None:
        """Evict a task from its node: what it holds becomes room that is being freed."""
        self._note(task).move(task, status.RELEASING)
        self.nodes.future = True
        self._move(task, row, self.shape_of(task).freed, -1)

    def restore(self, task: Task, row: int, to: int) -> None:
        """Undo `release`; the task is again what it was."""
        self._note(task).move(task, to)
        self._move(task, row, -self.shape_of(task).freed, 1)

    def _move(self, task: Task, row: int, change: NDArray[np.int64], by: int) -> None:
        """A task enters (1) or leaves (-1) the view of a node, whose figures change; queue and plugins hear of it."""
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
        # Plugins are told last, when everything that they may look at is true again.
        if by > 0:
            self._points.arrived(task, row)
        else:
            self._points.departed(task, row)

    # --- decisions

    def bind(self, task: Task) -> None:
        """A placed task starts: into the plan with it."""
        self.state.jobs[task.group].move(task, status.BINDING)
        claims = self.state.resource_claims.allocations(task.claims) if task.claims else ()
        volumes = self.state.storage.decisions(task.spec.claims) if task.spec.claims else ()
        annotations, locks = self._points.bind_annotations(task), self._points.bind_locks(task)
        self.report.binds.append(Bind(task.key, task.node, annotations, claims, volumes, locks))

    def withdraw(self, task: Task, row: int, preemptor: str) -> None:
        """A task that was to start in this cycle, and has been released for another job, does not start after all."""
        # On its node again, as `displace` takes off what a placed task holds there.
        self.restore(task, row, status.BINDING)
        message = f"room on node {task.node} goes to pod group {preemptor}, which would take it back at once"
        self.displace(task, row)
        self.report.withdraw(task)
        self.report.refuse(task, Refusal("RoomKept", message, self.state.jobs[task.group].queue))

    def note_eviction(self, task: Task, action: str, preemptor: str) -> None:
        """An eviction is decided: into the plan with it."""
        self.served.add(preemptor)
        self.report.evictions.append(Eviction(task.key, task.node, preemptor, action))

    def admit(self, job: Job) -> None:
        """A pending job is admitted: it may be given room from now on."""
        self._phases.setdefault(job.key, job.phase)
        job.phase = INQUEUE
        self.touched[job.key] = job

    # --- closing

    def close(self) -> None:
        """Put everything back as it was when the ledger opened, and forget the journal."""
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
            # Pods that have ended keep the name of their node, but hold nothing there.
            held = bool(node) and before not in status.ENDED
            placements.node[task.row] = row_of.get(node, -1) if held else -1
        for key, phase in self._phases.items():
            self.state.jobs[key].phase = phase
