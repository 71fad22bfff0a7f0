"""A statement: operations on tasks that are kept or undone together.

Operations take effect in the session at once. `commit` puts them into the plan; `discard` undoes them in reverse;
`checkpoint` and `roll_back` undo a part. A statement that is neither committed nor discarded keeps its hold on the
session until the session closes, and never reaches the plan: that is how a gang waits for room that is being freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kilauea.engine.model import status
from kilauea.engine.model.tasks import Task

if TYPE_CHECKING:
    from kilauea.engine.session import Session

ALLOCATE, PIPELINE, EVICT = "allocate", "pipeline", "evict"


class Operation(NamedTuple):
    """One operation, with what the task was before it."""

    kind: str
    task: Task
    row: int
    before: int
    action: str = ""
    claimer: str = ""


class Statement:
    """A list of operations over one session."""

    __slots__ = ("_session", "operations")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.operations: list[Operation] = []

    def allocate(self, task: Task, row: int) -> None:
        """Give a waiting task room that is free on a node."""
        before = task.status
        self._session.place(task, row, status.ALLOCATED)
        self.operations.append(Operation(ALLOCATE, task, row, before))

    def pipeline(self, task: Task, row: int) -> None:
        """Promise a waiting task room that is being freed on a node."""
        before = task.status
        self._session.place(task, row, status.PIPELINED)
        self.operations.append(Operation(PIPELINE, task, row, before))

    def evict(self, task: Task, action: str, claimer: str = "") -> None:
        """Free what a task on a node holds, as an action wants it for a job (`claimer`), or for no job."""
        before, row = task.status, self._session.nodes.row_of[task.node]
        self._session.release(task, row)
        self.operations.append(Operation(EVICT, task, row, before, action, claimer))

    def checkpoint(self) -> int:
        """A point to roll back to."""
        return len(self.operations)

    def roll_back(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, last first."""
        while len(self.operations) > checkpoint:
            operation = self.operations.pop()
            if operation.kind == EVICT:
                self._session.restore(operation.task, operation.row, operation.before)
            else:
                self._session.displace(operation.task, operation.row)

    def discard(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint; tasks that had found room are remembered, for the plan's reasons."""
        self._session.had_room.update(op.task.key for op in self.operations[checkpoint:] if op.kind == ALLOCATE)
        self.roll_back(checkpoint)

    def commit(self) -> None:
        """Put everything into the plan."""
        for operation in self.operations:
            if operation.kind == ALLOCATE:
                self._session.bind(operation.task)
            elif operation.kind == EVICT and operation.before == status.BINDING:
                self._session.withdraw(operation.task, operation.row, operation.claimer)
            elif operation.kind == EVICT:
                self._session.note_eviction(operation.task, operation.action, operation.claimer)
        self.operations.clear()
