"""A statement: operations on tasks that are committed or undone together.

Operations take effect in the session immediately. `commit` adds them to the plan; `discard` undoes them in reverse
order; `checkpoint` and `roll_back` undo a part. A statement that is neither committed nor discarded stays in effect
until the session closes, but is not added to the plan: this is how a gang waits for resources that are being released.

An impossible operation raises a `StatementError` (`kilauea.engine.statement`) and changes nothing: the resources are
not free, the task is already placed or evicted, or the task or node does not belong to the session. Predicates of
plugins are not called, so an action can place a task on a node that they reject; but a plugin that assigns something to
the task, such as parts of cards, can refuse. An action that does not catch the error is excluded from the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kilauea.api.numbers import plural
from kilauea.engine.evaluation import kernels
from kilauea.engine.ledger import Ledger
from kilauea.engine.model import status
from kilauea.engine.model.tasks import Task

ALLOCATE, PIPELINE, EVICT = "allocate", "pipeline", "evict"


LATER = "even after the pods that are terminating"
EVICTABLE = frozenset({status.RUNNING, status.BOUND, status.BINDING})
"""States of tasks that hold resources on a node and can be evicted."""


class StatementError(ValueError):
    """An impossible operation; the message names the task, the node and the problem."""


class Operation(NamedTuple):
    """One operation, with the previous state of the task."""

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
        """Place a pending task on a node with enough free resources.

        Raises:
            StatementError: the task is not pending, the node does not have enough free resources, or a plugin refuses.
        """
        self._place(task, row, now=True)

    def pipeline(self, task: Task, row: int) -> None:
        """Nominate a pending task to a node where resources are being released.

        Raises:
            StatementError: the task is not pending, the node will not have enough resources, or a plugin refuses.
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
        """Allocate (`now`) or pipeline a task on a node that an evaluation has just matched."""
        before = task.status
        self._ledger.place(task, row, status.ALLOCATED if now else status.PIPELINED)
        self.operations.append(Operation(ALLOCATE if now else PIPELINE, task, row, before))

    def evict(self, task: Task, action: str, preemptor: str = "") -> None:
        """Evict a task from its node, for an action and a job (`preemptor`), or for no job.

        Raises:
            StatementError: another scheduler placed the task, it neither runs nor starts in this cycle, or it is
                already evicted.
        """
        check_evicting(self._ledger, task)
        self.release(task, action, preemptor)

    def release(self, task: Task, action: str, preemptor: str) -> None:
        """Evict a task that is known to run, or to start in this cycle."""
        before, row = task.status, self._ledger.nodes.row_of[task.node]
        self._ledger.release(task, row)
        self.operations.append(Operation(EVICT, task, row, before, action, preemptor))

    def checkpoint(self) -> int:
        """Return a point to roll back to."""
        return len(self.operations)

    def roll_back(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, in reverse order."""
        # In reverse order: an operation can depend on earlier ones, such as a placement on an eviction.
        while len(self.operations) > checkpoint:
            operation = self.operations.pop()
            if operation.kind == EVICT:
                self._ledger.restore(operation.task, operation.row, operation.before)
            else:
                self._ledger.displace(operation.task, operation.row)

    def discard(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint; remember the tasks that had fit, for the plan's reasons."""
        self._ledger.report.had_room.update(op.task.key for op in self.operations[checkpoint:] if op.kind == ALLOCATE)
        self.roll_back(checkpoint)

    def rearrange(self, places: Sequence[tuple[Task, int]]) -> bool:
        """Move the placed tasks to these places, in this order; each swaps with a task of the same gang and shape.

        Returns:
            False, without changes, if the tasks of a gang cannot swap places because a plugin tracks individual tasks
                or pods depend on their neighbours.
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
        """Add everything to the plan."""
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
    """Check that a task is pending and fits on a node (now, or once resources are released).

    Raises:
        StatementError: the check fails.
    """
    _check_known(ledger, task)
    if task.status != status.PENDING:
        where = f" on node {task.node}" if task.node else ""
        raise StatementError(f"task {task.key} cannot be placed: it is {status.NAMES[task.status]}{where}")
    if not 0 <= row < len(ledger.nodes):
        raise StatementError(
            f"task {task.key} cannot be placed: row {row} is not one of {plural(len(ledger.nodes), 'node')}"
        )
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
    """Check that a task can be evicted.

    Raises:
        StatementError: the check fails.
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
