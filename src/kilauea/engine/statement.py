"""A statement: operations on tasks that are committed or undone together.

Operations take effect in the session at once. `commit` puts them into the plan; `discard` undoes them in reverse;
`checkpoint` and `roll_back` undo a part. A statement that is neither committed nor discarded keeps its hold on the
session until the session closes, and never reaches the plan: that is how a gang waits for room that is being freed.

What cannot be is refused with a `StatementError` (`kilauea.engine.statement`), and nothing is changed then: there is no
room, the task is placed already, it is evicted already, or it or the node does not belong to the session. Filters of
plugins are not asked, so an action may place a task where a filter would not; but a plugin that books something for the
task, such as parts of cards, may refuse. An action that does not catch the error is left out of the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kilauea.engine.evaluation import kernels
from kilauea.engine.ledger import Ledger
from kilauea.engine.model import status
from kilauea.engine.model.tasks import Task

ALLOCATE, PIPELINE, EVICT = "allocate", "pipeline", "evict"


LATER = "even after the pods that are terminating"
EVICTABLE = frozenset({status.RUNNING, status.BOUND, status.BINDING})
"""States of tasks that hold room on a node, as far as a plan can take it back."""


class StatementError(ValueError):
    """An operation that cannot be; the message names the task, the node and what is missing."""


class Operation(NamedTuple):
    """One operation, with what the task was before it."""

    kind: str
    task: Task
    row: int
    before: int
    action: str = ""
    preemptor: str = ""


class Statement:
    """A list of operations in the ledger of one session."""

    __slots__ = ("_ledger", "operations")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.operations: list[Operation] = []

    def allocate(self, task: Task, row: int) -> None:
        """Give a waiting task room that is free on a node.

        Raises:
            StatementError: the task does not wait, the node lacks room now, or a plugin has nothing left for the task.
        """
        self._place(task, row, now=True)

    def pipeline(self, task: Task, row: int) -> None:
        """Promise a waiting task room that is being freed on a node.

        Raises:
            StatementError: the task does not wait, the node will lack room, or a plugin will have nothing left for the
                task.
        """
        self._place(task, row, now=False)

    def _place(self, task: Task, row: int, *, now: bool) -> None:
        check_placing(self._ledger, task, row, now=now)
        checkpoint = self.checkpoint()
        self.take(task, row, now=now)
        objection = self._ledger.objection(task)
        if objection is not None:
            self.roll_back(checkpoint)
            raise StatementError(f"task {task.key} cannot be placed: {objection.message}")

    def take(self, task: Task, row: int, *, now: bool) -> None:
        """As `allocate` (now) or `pipeline`, for a task and a node that an evaluation of this moment has matched."""
        before = task.status
        self._ledger.place(task, row, status.ALLOCATED if now else status.PIPELINED)
        self.operations.append(Operation(ALLOCATE if now else PIPELINE, task, row, before))

    def evict(self, task: Task, action: str, preemptor: str = "") -> None:
        """Free what a task on a node holds, as an action wants it for a job (`preemptor`), or for no job.

        Raises:
            StatementError: another scheduler has placed the task, it neither runs nor starts in this cycle, or it is
                evicted already.
        """
        check_evicting(self._ledger, task)
        self.release(task, action, preemptor)

    def release(self, task: Task, action: str, preemptor: str) -> None:
        """As `evict`, for a task that is known to run, or to start in this cycle."""
        before, row = task.status, self._ledger.nodes.row_of[task.node]
        self._ledger.release(task, row)
        self.operations.append(Operation(EVICT, task, row, before, action, preemptor))

    def checkpoint(self) -> int:
        """A point to roll back to."""
        return len(self.operations)

    def roll_back(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, last first."""
        # Last first: an operation may stand on what the ones before it did, as a task that took an evicted one's room.
        while len(self.operations) > checkpoint:
            operation = self.operations.pop()
            if operation.kind == EVICT:
                self._ledger.restore(operation.task, operation.row, operation.before)
            else:
                self._ledger.displace(operation.task, operation.row)

    def discard(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint; tasks that had found room are remembered, for the plan's reasons."""
        self._ledger.report.had_room.update(op.task.key for op in self.operations[checkpoint:] if op.kind == ALLOCATE)
        self.roll_back(checkpoint)

    def rearrange(self, places: Sequence[tuple[Task, int]]) -> bool:
        """Give the placed tasks these places, in this order: each to a task of the gang and shape of the one there.

        Returns:
            False, with nothing changed, if a plugin keeps track of single tasks or pods look at their neighbours:
            then the tasks of a gang cannot change places.
        """
        if not self._ledger.swaps():
            return False
        self._ledger.report.had_room.update(op.task.key for op in self.operations if op.kind == ALLOCATE)
        for index, (task, row) in enumerate(places):
            if self._ledger.nodes.names[row] != task.node:
                self._ledger.relocate(task, row)
            self.operations[index] = self.operations[index]._replace(task=task, row=row)
        return True

    def commit(self) -> None:
        """Put everything into the plan."""
        for operation in self.operations:
            if operation.kind == ALLOCATE:
                self._ledger.bind(operation.task)
            elif operation.kind == EVICT and operation.before == status.BINDING:
                # It was to start in this very cycle: no pod is evicted, only its bind leaves the plan.
                self._ledger.withdraw(operation.task, operation.row, operation.preemptor)
            elif operation.kind == EVICT:
                self._ledger.note_eviction(operation.task, operation.action, operation.preemptor)
        self.operations.clear()


def check_placing(ledger: Ledger, task: Task, row: int, *, now: bool) -> None:
    """Refuse to place a task that does not wait, or on a node without the room (now, or once all is freed).

    Raises:
        StatementError: as said.
    """
    _check_known(ledger, task)
    if task.status != status.PENDING:
        where = f" on node {task.node}" if task.node else ""
        raise StatementError(f"task {task.key} cannot be placed: it is {status.NAMES[task.status]}{where}")
    if not 0 <= row < len(ledger.nodes):
        raise StatementError(f"task {task.key} cannot be placed: row {row} is not one of {len(ledger.nodes)} nodes")
    need = ledger.shape_of(task).need
    node = ledger.nodes.select(np.array([row], dtype=np.intp))
    later = node.used - node.releasing + node.pipelined
    # Room that is free now may be promised: a task that starts in it would break the promise, so it must fit both.
    for used, when in ((node.used, "now"), (later, "beside what is promised to others")) if now else ((later, LATER),):
        if not kernels.fits(used, need, node.allocatable)[0]:
            lacking = (used + need > node.allocatable)[:, 0]
            names = ", ".join(name for name, lacks in zip(ledger.nodes.axis.names, lacking, strict=True) if lacks)
            raise StatementError(
                f"task {task.key} cannot be placed: node {ledger.nodes.names[row]} lacks {names} {when}"
            )


def check_evicting(ledger: Ledger, task: Task) -> None:
    """Refuse to evict a task that holds nothing which a plan can take back.

    Raises:
        StatementError: as said.
    """
    if task.foreign:
        raise StatementError(f"task {task.key} cannot be evicted: another scheduler has placed it")
    _check_known(ledger, task)
    if task.status not in EVICTABLE:
        raise StatementError(f"task {task.key} cannot be evicted: it is {status.NAMES[task.status]}")
    if task.node not in ledger.nodes.row_of:
        raise StatementError(f"task {task.key} cannot be evicted: its node {task.node} is unknown")


def _check_known(ledger: Ledger, task: Task) -> None:
    job = ledger.state.jobs.get(task.group)
    if ledger.state.tasks.get(task.key) is not task:
        raise StatementError(f"task {task.key} is not a task of this session")
    if job is None or job.queue not in ledger.queues:
        raise StatementError(f"task {task.key} has no pod group in a queue")
