"""Limits on the volumes of a CSI driver on a node.

A volume counts once on a node, however many pods there use it, and also if it is attached without a pod. An unbound
claim counts for the driver of its storage class. In-tree volumes count for the CSI drivers that serve them, with or
without a claim.

A volume is detached some time after its last pod is gone. A pod that was nominated in the meantime keeps its node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection
from kilauea.engine.model import status
from kilauea.engine.model.in_tree import driver_of
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import ClaimUse, TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

FULL = Rejection("NodeVolumeLimits", "node(s) exceed max volume count")

NO_LIMIT = np.iinfo(np.int64).max // 2

Handle = tuple[str, str]
"""A driver, and its name for the volume."""


class VolumeLimitsFilter:
    """Counts the volumes of each driver on each node, for drivers with a limit on any node."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storage = session.state.storage
        self._size = len(session.nodes)
        self._limits: dict[str, NDArray[np.int64]] = {}
        """By driver: (N,) maximum number of volumes on a node."""
        for name, of in self._storage.drivers.items():
            row = session.nodes.row_of.get(name, -1)
            for driver, count in of.limits.items() if row >= 0 else ():
                self._limits.setdefault(driver, np.full(self._size, NO_LIMIT))[row] = count
        self._now = Uses(self._limits, self._size)
        """Volumes on nodes, including those of terminating pods."""
        self._later = Uses(self._limits, self._size)
        """Volumes on nodes once terminating pods are gone."""
        self._handles: dict[tuple[object, ...], tuple[Handle, ...]] = {}

    def register(self, plugin: str) -> None:
        """Register with the session, if any node has a limit."""
        if not self._limits:
            return
        placements = self._session.state.placements
        state = self._session.state
        for task in (
            *state.with_claims.values(),
            *(t for k, t in state.with_disks.items() if k not in state.with_claims),
        ):
            row = int(placements.node[task.row])
            if row >= 0:
                self._change(task, row, 1, self._now, *([] if task.status == status.RELEASING else [self._later]))
        self._count_attachments()
        self._session.add_predicate(plugin, self._room, [FULL], applies=self._applies, room=self._room_now)
        self._session.add_event_handler(plugin, self._placed, self._gone)

    def _count_attachments(self) -> None:
        """Count attachments: those with pods end with the pods; those without yield to pods nominated to the node."""
        rows = self._session.nodes.row_of
        promised = {rows.get(task.nominated, -1) for task in self._session.state.nominated.values()}
        for attachment in self._storage.attachments.values():
            volume = self._storage.volumes.get(attachment.volume)
            row = rows.get(attachment.node, -1)
            if volume is not None and volume.handle and attachment.driver in self._limits and row >= 0:
                handle = (attachment.driver, volume.handle)
                goes = self._now.has(handle, row) or row in promised
                for uses in [self._now] if goes else [self._now, self._later]:
                    uses.change(handle, row, 1)

    def _applies(self, shape: TaskShape) -> bool:
        return bool(self._of(shape.spec))

    def _of(self, spec: TaskSpec) -> tuple[Handle, ...]:
        """The volumes of a pod that count, without repeats."""
        if not spec.claims and not spec.inline:
            return ()
        key = (spec.claims, spec.inline)
        known = self._handles.get(key)
        if known is None:
            found = (*(self._handle(use) for use in spec.claims), *spec.inline)
            known = self._handles[key] = tuple(dict.fromkeys(h for h in found if h and h[0] in self._limits))
        return known

    def _handle(self, use: ClaimUse) -> Handle | None:
        """The volume behind a claim; a volume that does not exist yet is identified by the claim."""
        claim = self._storage.claims.get(use.key)
        if claim is None:
            return None
        volume = self._storage.volumes.get(claim.volume)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.handle else None
        of = self._storage.classes.get(claim.class_name)
        return (driver_of(of.provisioner), f"claim {use.key}") if of else None

    def _placed(self, task: Task, row: int) -> None:
        self._change(task, row, 1, self._later)
        if task.status in (status.ALLOCATED, status.PIPELINED):  # else its eviction is undone
            self._change(task, row, 1, self._now)

    def _gone(self, task: Task, row: int) -> None:
        self._change(task, row, -1, self._later)
        if task.status != status.RELEASING:
            self._change(task, row, -1, self._now)

    def _change(self, task: Task, row: int, by: int, *several: Uses) -> None:
        for handle in self._of(task.spec):
            for uses in several:
                uses.change(handle, row, by)

    def _room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(self._later.room(self._of(shape.spec)))

    def _room_now(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(self._now.room(self._of(shape.spec)))


class Uses:
    """Volumes on nodes, by their users, and their number.

    Args:
        limits: by driver: (N,) maximum number of volumes on a node.
        size: number of nodes.
    """

    def __init__(self, limits: Mapping[str, NDArray[np.int64]], size: int) -> None:
        self._limits = limits
        self._size = size
        self._count: dict[str, NDArray[np.int64]] = {}
        """By driver: (N,) number of volumes on a node."""
        self._users: dict[Handle, Counter[int]] = {}
        """By volume: number of pods and attachments that use it, by row."""

    def has(self, handle: Handle, row: int) -> bool:
        """Return True if a node has a volume."""
        return self._users.get(handle, Counter())[row] > 0

    def change(self, handle: Handle, row: int, by: int) -> None:
        """Record that a pod or an attachment starts to use a volume on a node (1), or stops (-1)."""
        rows = self._users.setdefault(handle, Counter())
        before = rows[row]
        rows[row] = before + by
        count = self._count.setdefault(handle[0], np.zeros(self._size, dtype=np.int64))
        count[row] += (rows[row] > 0) - (before > 0)
        if not rows[row]:
            del rows[row]

    def room(self, handles: Iterable[Handle]) -> NDArray[np.bool_]:
        """(N,) nodes with room for these volumes in addition to their own."""
        listed, out = list(handles), np.ones(self._size, dtype=bool)
        for driver in dict.fromkeys(driver for driver, _ in listed):
            new = self._new([handle for handle in listed if handle[0] == driver])
            full = self._count.get(driver, 0) + new > self._limits[driver]
            out &= ~full | (new == 0)
        return out

    def _new(self, handles: Iterable[Handle]) -> NDArray[np.int64]:
        """(N,) number of these volumes that a node does not have yet."""
        new = np.zeros(self._size, dtype=np.int64)
        for handle in handles:
            new += 1
            new[list(self._users.get(handle, ()))] -= 1
        return new
