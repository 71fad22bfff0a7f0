"""Disks that pods specify directly: only one pod on a node can use a disk, unless all mount it read-only.

This applies to disks of Google Compute Engine, iSCSI targets and images of Ceph RBD; a volume of Amazon Elastic Block
Store can be used by one pod on a node, even read-only. Volumes behind claims have access modes instead.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection
from kilauea.engine.model import status
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

CONFLICT = Rejection("VolumeRestrictions", "node(s) had no available disk")


class DiskFilter:
    """Tracks the disks that the pods on each node use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._size = len(session.nodes)
        self._users: dict[tuple[str, bool], Counter[int]] = {}
        """By name of a disk, and True for read-only use: the number of pods on each row that stay or are placed."""
        self._ending: dict[tuple[str, bool], Counter[int]] = {}
        """The same for terminating pods, and those evicted in this cycle."""

    def register(self, plugin: str) -> None:
        """Register with the session."""
        placements = self._session.state.placements
        for task in self._session.state.with_disks.values():
            if (row := int(placements.node[task.row])) >= 0:
                self._change(self._ending if task.status == status.RELEASING else self._users, task, row, 1)
        self._session.add_predicate(
            plugin, self._free, [CONFLICT], applies=lambda shape: bool(shape.spec.disks), room=self._free_now
        )
        self._session.add_event_handler(plugin, self._placed, self._gone)

    def _placed(self, task: Task, row: int) -> None:
        self._change(self._users, task, row, 1)
        if task.status not in (status.ALLOCATED, status.PIPELINED):
            self._change(self._ending, task, row, -1)  # its eviction is undone

    def _gone(self, task: Task, row: int) -> None:
        self._change(self._users, task, row, -1)
        if task.status == status.RELEASING:
            self._change(self._ending, task, row, 1)

    @staticmethod
    def _change(counts: dict[tuple[str, bool], Counter[int]], task: Task, row: int, by: int) -> None:
        for disk in task.spec.disks:
            counts.setdefault(disk, Counter())[row] += by

    def _free(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(self._without(self._users, shape))

    def _free_now(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(self._without(self._ending, shape))

    def _without(self, users: dict[tuple[str, bool], Counter[int]], shape: TaskShape) -> NDArray[np.bool_]:
        """(N,) nodes on which none of these pods uses a disk that the shape requests."""
        free = np.ones(self._size, dtype=bool)
        for name, read_only in shape.spec.disks:
            for others in (False,) if read_only else (False, True):
                rows = [row for row, pods in users.get((name, others), {}).items() if pods > 0]
                free[rows] = False
        return free
