"""Disks that pods name themselves: on a node, one pod at a time has a disk, unless all its pods only read it.

This is about disks of Google Compute Engine, iSCSI targets and images of Ceph RBD; volumes of Amazon Elastic Block
Store are for one pod on a node, even to read. Volumes behind claims have access modes instead.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

CONFLICT = Rejection("VolumeRestrictions", "node(s) had no available disk")


class DiskFilter:
    """Notes which disks the pods on each node have."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._size = len(session.nodes)
        self._users: dict[tuple[str, bool], Counter[int]] = {}
        """By name of a disk, and True for pods that only read it: the number of pods on each row."""

    def register(self, plugin: str) -> None:
        """Take part in the session."""
        placements = self._session.state.placements
        for task in self._session.state.with_disks.values():
            if (row := int(placements.node[task.row])) >= 0:
                self._placed(task, row)
        self._session.add_predicate(plugin, self._free, [CONFLICT], applies=lambda shape: bool(shape.spec.disks))
        self._session.add_event_handler(plugin, self._placed, self._gone)

    def _placed(self, task: Task, row: int) -> None:
        for disk in task.spec.disks:
            self._users.setdefault(disk, Counter())[row] += 1

    def _gone(self, task: Task, row: int) -> None:
        for disk in task.spec.disks:
            self._users[disk][row] -= 1

    def _free(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        free = np.ones(self._size, dtype=bool)
        for name, read_only in shape.spec.disks:
            for others in (False,) if read_only else (False, True):
                rows = [row for row, pods in self._users.get((name, others), {}).items() if pods > 0]
                free[rows] = False
        return nodes.take(free)
