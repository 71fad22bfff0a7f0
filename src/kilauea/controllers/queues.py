"""Queues of Volcano: creates root and default, opens and closes queues with their trees, and counts their groups.

A queue is closed and opened by a Command that names it. Closing a queue first closes its descendants. Opening opens one
queue; if the Command has the annotation `kilauea.dev/cascade: "true"`, also those that were closed with it, but not
queues that were closed individually. A closed queue that still has pod groups, or children that are not closed yet, is
`Closing` meanwhile. A queue below a closed one is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kilauea.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from kilauea.api.ports import Create, Delete, Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of
from kilauea.api.wellknown import CASCADE, DEFAULT_QUEUE, ROOT_QUEUE
from kilauea.controllers.objects import (
    NOTHING,
    annotations_of,
    is_going,
    name_of,
    own_key,
    retry_delay,
    spec_of,
    status_of,
    uid_of,
)

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
OPEN, CLOSE = "OpenQueue", "CloseQueue"
SHUT = frozenset({"Closed", "Closing"})
STATES = SHUT | {"Open", "Unknown"}
PHASES = ("Pending", "Running", "Inqueue", "Unknown", "Completed")
QUEUE_AND_PHASE = "queue and phase"
COUNTING_SECONDS = 0.2
"""Seconds for which changes of groups are collected before their queue counts them."""
PARENT_SECONDS = 5.0
"""Seconds until a new queue checks again for its parent."""
FIRST = {ROOT_QUEUE: {"reclaimable": False, "weight": 1}, DEFAULT_QUEUE: {"reclaimable": True, "weight": 1}}
"""Queues that exist in every cluster."""


def queue_of(group: Obj) -> str:
    """The queue of a pod group."""
    return str(spec_of(group).get("queue") or DEFAULT_QUEUE)


def _queue_and_phase(group: Obj) -> str:
    """An index: the queue of a group, and its phase; a group without a phase is pending."""
    phase = status_of(group).get("phase") or "Pending"
    return _place(queue_of(group), phase if phase in PHASES else "Unknown")


def _place(queue: str, phase: str) -> str:
    return f"{queue}/{phase}"


def parent_of(queue: Obj) -> str:
    """Return the parent of a queue; empty for root."""
    return "" if name_of(queue) == ROOT_QUEUE else str(spec_of(queue).get("parent") or ROOT_QUEUE)


def state_of(queue: Obj) -> str:
    """Return the state; a queue without one is open."""
    return str(status_of(queue).get("state") or "Open")


def commanded_queue(command: Obj) -> str:
    """The target queue of a command; empty if it has another target."""
    target = command.get("target") or {}
    return str(target.get("name", "")) if target.get("kind") == "Queue" else ""


def _keys_of_command(command: Obj) -> Iterable[Key]:
    name = commanded_queue(command)
    return (Key("", name),) if name else ()


def _keys_of_closing(queue: Obj) -> Iterable[Key]:
    """Yield the parent of a queue that is closing, which is closed after it; root never closes."""
    parent = parent_of(queue)
    return (Key("", parent),) if state_of(queue) in SHUT and parent != ROOT_QUEUE else ()


class QueueController:
    """Updates the states and counts of queues."""

    name = "queue-controller"
    interests = (
        Interest(QUEUES, own_key, indexes={"parent": parent_of}, always=tuple(Key("", name) for name in FIRST)),
        Interest(QUEUES, _keys_of_closing, delay=COUNTING_SECONDS),
        Interest(
            POD_GROUPS,
            lambda group: (Key("", queue_of(group)),),
            indexes={"queue": queue_of, QUEUE_AND_PHASE: _queue_and_phase},
            delay=COUNTING_SECONDS,
        ),
        Interest(COMMANDS, _keys_of_command, indexes={"queue": commanded_queue}),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Execute commands on a queue, and correct its state and counts."""
        commands = [each for each in view.indexed(COMMANDS, "queue", key.name) if not is_going(each)]
        queue = view.get(QUEUES, key)
        if queue is None:
            first = [Create(QUEUES, first_queue(key.name))] if key.name in FIRST else []
            return Outcome([*first, *map(_done, commands)])
        if is_going(queue):
            return NOTHING
        if state_of(queue) not in STATES:
            message = f'state "{state_of(queue)}" is not one of {", ".join(sorted(STATES))}: {key.name} is not changed'
            return Outcome([Record(queue, "Warning", "SyncQueue", message)])
        tree = Tree(view)
        operations: list[Operation] = []
        for command in commands:
            operations += tree.execute_command(queue, command)
            operations.append(_done(command))
        operations += tree.repair(queue)
        operations += tree.count(queue)
        lost = parent_of(queue) and tree.parent(queue) is None
        return Outcome(operations, retry_delay(queue, now, PARENT_SECONDS) if lost else None)


def first_queue(name: str) -> dict[str, Any]:
    """Build root or default."""
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": FIRST[name]}


def _done(command: Obj) -> Delete:
    return Delete(COMMANDS, key_of(command), uid_of(command))


class Tree:
    """Queues from a view, with the state changes decided during one reconciliation."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._states: dict[str, str] = {}
        self._by_parent: dict[str, bool] = {}

    def parent(self, queue: Obj) -> Obj | None:
        """The parent, if it exists."""
        return self._view.get(QUEUES, Key("", parent_of(queue)))

    def state(self, queue: Obj) -> str:
        """The current or decided state of a queue."""
        return self._states.get(name_of(queue)) or state_of(queue)

    def execute_command(self, queue: Obj, command: Obj) -> Iterator[Operation]:
        """Execute a command."""
        action = command.get("action")
        if action == CLOSE and name_of(queue) == ROOT_QUEUE:
            yield Record(queue, "Warning", CLOSE, "root cannot be closed: close the queues below it")
        elif action == CLOSE:
            yield from self._close(queue, by_parent=False)
        elif action == OPEN:
            yield from self._open(queue, cascade=annotations_of(command).get(CASCADE) == "true")
        else:
            message = f'invalid action "{action or ""}" for a queue: use {OPEN} or {CLOSE}'
            yield Record(queue, "Warning", "CommandIssued", message)

    def _close(self, queue: Obj, *, by_parent: bool) -> Iterator[Operation]:
        """Close a queue, after its descendants."""
        if self.state(queue) in SHUT:
            return
        self._states[name_of(queue)] = "Closing"  # set first, as a queue in a cycle is below itself
        for child in self._children(queue):
            yield from self._close(child, by_parent=True)
        yield from self._decide(queue, self._shut_state(queue), by_parent=by_parent)
        yield Record(queue, "Normal", CLOSE, "Close queue succeed")

    def _open(self, queue: Obj, *, cascade: bool) -> Iterator[Operation]:
        """Open a queue, with `cascade` also those below it that were closed with it."""
        parent = self.parent(queue)
        if parent is not None and self.state(parent) in SHUT:
            message = f"Failed to open queue {name_of(queue)} because its parent queue {name_of(parent)} is closing or"
            yield Record(queue, "Warning", OPEN, f"{message} closed. Open the parent queue first.")
            return
        if self.state(queue) != "Open":
            yield from self._decide(queue, "Open", by_parent=False)
        for child in self._children(queue) if cascade else ():
            if self._was_closed_by_parent(child) and self.state(child) in SHUT:
                yield from self._open(child, cascade=True)

    def _was_closed_by_parent(self, queue: Obj) -> bool:
        known = self._by_parent.get(name_of(queue))
        return annotations_of(queue).get(CLOSED_BY_PARENT) == "true" if known is None else known

    def _children(self, queue: Obj) -> Sequence[Obj]:
        """The children of a queue."""
        return self._view.indexed(QUEUES, "parent", name_of(queue))

    def _shut_state(self, queue: Obj) -> str:
        """The state of a queue that is not open: closed once its groups are gone and its children are closed."""
        has_groups = self._view.count_indexed(POD_GROUPS, "queue", name_of(queue))
        return "Closing" if has_groups or self._has_children_to_close(queue) else "Closed"

    def _has_children_to_close(self, queue: Obj) -> bool:
        """Return True if a child is not closed yet; queues in a cycle do not wait for each other."""
        waiting = [child for child in self._children(queue) if self.state(child) != "Closed"]
        return bool(waiting) and bool({*map(name_of, waiting)} - self._lineage(queue))

    def _lineage(self, queue: Obj) -> set[str]:
        """The names of a queue and its ancestors."""
        names: set[str] = set()
        at: Obj | None = queue
        while at is not None and name_of(at) not in names:
            names.add(name_of(at))
            at = self.parent(at)
        return names

    def _decide(self, queue: Obj, state: str, *, by_parent: bool) -> list[Operation]:
        """Set the state of a queue, and record if its parent closed it."""
        key, mark = key_of(queue), str(by_parent).lower()
        marked = annotations_of(queue).get(CLOSED_BY_PARENT)
        self._states[key.name], self._by_parent[key.name] = state, by_parent
        operations: list[Operation] = []
        if marked != mark and (marked or by_parent or state == "Open"):  # without a mark, its parent never closed it
            operations.append(Patch(QUEUES, key, {"metadata": {"annotations": {CLOSED_BY_PARENT: mark}}}))
        return [*operations, Patch(QUEUES, key, {"status": {"state": state}}, subresource="status")]

    def repair(self, queue: Obj) -> Iterator[Operation]:
        """Operations that correct the state of a queue by that of its parent, and those of its descendants."""
        if parent_of(queue):
            if not spec_of(queue).get("parent"):
                yield Patch(QUEUES, key_of(queue), {"spec": {"parent": ROOT_QUEUE}})
            if self.parent(queue) is None:
                message = (
                    f"the parent queue {parent_of(queue)} does not exist: create it or name another in spec.parent"
                )
                yield Record(queue, "Warning", "SyncQueue", message)
        elif spec_of(queue).get("parent"):
            message = f"root has no parent: spec.parent {spec_of(queue)['parent']} is removed"
            yield Patch(QUEUES, key_of(queue), {"spec": {"parent": None}})
            yield Record(queue, "Warning", "SyncQueue", message)
        for each in (queue, *self._children(queue)):
            parent = self.parent(each)
            if parent is not None and self.state(parent) in SHUT:
                yield from self._close(each, by_parent=True)

    def count(self, queue: Obj) -> list[Patch]:
        """Update the state and the number of groups by phase in the status."""
        state = self.state(queue)
        if state == "Closing":
            state = self._shut_state(queue)
        elif state == "Closed" and self._has_children_to_close(queue):
            state = "Closing"
        status = status_of(queue)
        wanted = {**self._tally(name_of(queue)), "state": state}
        if self._states.get(name_of(queue)) == state:
            del wanted["state"]  # it is already being written
        changed = {field: value for field, value in wanted.items() if status.get(field) != value}
        return [Patch(QUEUES, key_of(queue), {"status": changed}, subresource="status")] if changed else []

    def _tally(self, queue: str) -> dict[str, int]:
        """Number of a queue's groups by phase, in lower case; there can be many, so none of them is read."""
        return {
            phase.lower(): self._view.count_indexed(POD_GROUPS, QUEUE_AND_PHASE, _place(queue, phase))
            for phase in PHASES
        }
