"""Chips that are split on demand (MindCluster): what deviceshare registers for pods that request their cores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.api.devices import NPU_CORES
from kilauea.engine.devices.dynamic import ChipLedger
from kilauea.engine.extension import Refusal, Rejection
from kilauea.engine.model.devices import DYNAMIC
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

REJECTIONS = [
    Rejection("NoDevices", "node(s) had no Ascend 310P chips that can be split", hopeless=True),
    Rejection("DeviceRequest", f"{NPU_CORES} is neither 1, 2, 4 nor the cores of whole chips", hopeless=True),
    Rejection("InsufficientDevices", "node(s) had no chip with enough free cores and processors"),
]
"""By the ledger's codes, which start at 1."""
DOWNGRADED, FIRST, PLAIN = 8.0, 8.0, 16.0
"""Scores of the nodes with the fewest idle cores, for pods that get fewer processors on some nodes."""


class DynamicNpus:
    """Assigns chips to the pods of a session."""

    def __init__(self, plugin: str, session: Session, weight: int) -> None:
        """Account for the chips of pods, and register with the session if a pod requests chips."""
        asking = [task for _, task in sorted(session.state.with_shares.items()) if _asks(task)]
        if not asking:
            return
        self._session, self._weight = session, weight
        self._ledger = ChipLedger(session.nodes)
        placed = [(task, int(session.state.placements.node[task.row])) for task in asking]
        there = [(task, row) for task, row in placed if row >= 0 and self._ledger.count[row]]
        for task, row in [(task, row) for task, row in there if not self._ledger.take_in(task, row)]:
            self._ledger.guess(task, row)
        session.add_predicate(plugin, self._fits, REJECTIONS, applies=_applies, room=self._has_room)
        session.add_event_handler(plugin, self._placed, self._gone)
        session.add_bind_annotations(plugin, self._annotations)
        if weight:
            session.add_batch_node_score(plugin, self._score, applies=_applies)

    def _fits(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int8]:
        assert shape.spec.devices is not None
        return self._ledger.fits(shape.spec.devices, nodes, now=False)

    def _has_room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        assert shape.spec.devices is not None
        free: NDArray[np.bool_] = self._ledger.fits(shape.spec.devices, nodes, now=True) == 0
        return free

    def _placed(self, task: Task, row: int) -> Refusal | None:
        if not _asks(task) or self._ledger.placed(task, row):
            return None
        node = self._session.nodes.names[row]
        return Refusal("InsufficientDevices", f"node {node} has no chip with enough free cores and processors for it")

    def _gone(self, task: Task, row: int) -> None:
        self._ledger.gone(task)

    def _annotations(self, task: Task) -> dict[str, str]:
        chips = self._ledger.bookings.get(task.key)
        if chips is None:
            return {}
        return {"predicate-time": str(self._session.now * 1000), NPU_CORES: chips.text}

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """Prefer the fullest node; if the pod would get fewer processors there, the fullest that gives all."""
        assert shape.spec.devices is not None
        lower = self._ledger.downgraded(shape.spec.devices, nodes)
        order = np.argsort(self._ledger.idle_cores(nodes), kind="stable")
        out = np.zeros(len(nodes))
        if not lower.any():
            out[order[:1]] = FIRST
            return out * self._weight
        better = np.flatnonzero(~lower[order])
        end = int(better[0]) if len(better) else len(order)
        out[order[:end]] = DOWNGRADED
        out[order[end : end + 1]] = PLAIN
        return out * self._weight


def _asks(of: Task) -> bool:
    return of.spec.devices is not None and DYNAMIC in of.spec.devices.kinds


def _applies(shape: TaskShape) -> bool:
    return shape.spec.devices is not None and DYNAMIC in shape.spec.devices.kinds
