"""Host ports: two pods cannot use the same port of a node.

The address `0.0.0.0` means all addresses of the node, and conflicts with every other address on that port. The port of
a terminating pod is free for nominations, and free for starting a pod once the terminating one is gone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection
from kilauea.engine.model import status
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

TAKEN = Rejection("NodePorts", "node(s) didn't have free ports for the requested pod ports")
ANY_ADDRESS = "0.0.0.0"


Taken = dict[tuple[str, int], dict[str, NDArray[np.int64]]]
"""By protocol and port, by address: number of pods on each node that use it."""


class PortFilter:
    """Counts the host ports in use on each node."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._size = len(session.nodes)
        self._taken: Taken = {}
        """Ports of pods that stay, and of those placed in this cycle."""
        self._ending: Taken = {}
        """Ports of terminating pods, and of those evicted in this cycle."""
        placements = session.state.placements
        for task in session.state.with_ports.values():
            row = int(placements.node[task.row])
            if row >= 0:
                self._change(self._ending if task.status == status.RELEASING else self._taken, task, row, 1)

    def register(self, plugin: str) -> None:
        """Register with the session, if any pod has host ports."""
        if self._session.state.with_ports:
            self._session.add_predicate(
                plugin, self._free, [TAKEN], applies=lambda shape: bool(shape.spec.ports), room=self._free_now
            )
            self._session.add_event_handler(plugin, self._placed, self._gone)

    def _placed(self, task: Task, row: int) -> None:
        self._change(self._taken, task, row, 1)
        if task.status not in (status.ALLOCATED, status.PIPELINED):
            self._change(self._ending, task, row, -1)  # its eviction is undone

    def _gone(self, task: Task, row: int) -> None:
        self._change(self._taken, task, row, -1)
        if task.status == status.RELEASING:
            self._change(self._ending, task, row, 1)

    def _change(self, counts: Taken, task: Task, row: int, by: int) -> None:
        for protocol, ip, port in task.spec.ports:
            addresses = counts.setdefault((protocol, port), {})
            if ip not in addresses:
                addresses[ip] = np.zeros(self._size, dtype=np.int64)
            addresses[ip][row] += by

    def _free(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return _without(self._taken, shape, nodes)

    def _free_now(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return _without(self._ending, shape, nodes)


def _without(taken: Taken, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
    """(n,) nodes on which none of these pods uses a port that the shape requests."""
    free = np.ones(len(nodes), dtype=bool)
    for protocol, ip, port in shape.spec.ports:
        for address, counts in taken.get((protocol, port), {}).items():
            if ANY_ADDRESS in (ip, address) or ip == address:
                free &= nodes.take(counts) == 0
    return free
