"""Give pods parts of cards: memory, cores, or whole cards, each card accounted for by itself.

What:
    The cards of a node are those that its device plugin registers in an annotation (`volcano.sh/node-vgpu-register`,
    `hami.io/node-register-NAME`), or those that it offers as `volcano.sh/gpu-number`. A pod that asks for parts of
    cards goes to a node where each container finds its cards: enough memory, cores and slots on one card for each card
    that it asks for, of a model and with an id that the pod's annotations allow. The cards that it gets are written to
    its annotations in the request that binds it; device plugins read them there, and so does a restarted scheduler.

Why:
    The sum over a node does not tell if a share fits: two cards that are half used have room for no whole card.

Arguments:
    deviceshare.GPUSharingEnable (true or false, false): a share of one card by memory, `volcano.sh/gpu-memory`.
    deviceshare.GPUNumberEnable (false): whole cards, `volcano.sh/gpu-number`.
    deviceshare.VGPUEnable (false): virtual GPUs, `volcano.sh/vgpu-number`, `volcano.sh/vgpu-memory` (MiB of each card),
    `volcano.sh/vgpu-memory-percentage`, `volcano.sh/vgpu-cores` (hundredths of each card).
    deviceshare.AscendHAMiVNPUEnable (false): virtual NPUs of HAMi, such as `huawei.com/Ascend910B` and
    `huawei.com/Ascend910B-memory`.
    deviceshare.SchedulePolicy (text, ""): `binpack` takes the fullest card first, `spread` the one with the fewest
    pods.
    deviceshare.ScheduleWeight (integer, 0): weight of the same policy among nodes; 0 switches that off.

Example:
    tiers:
    - plugins:
      - name: deviceshare
        arguments:
          deviceshare.VGPUEnable: true
          deviceshare.SchedulePolicy: binpack
          deviceshare.ScheduleWeight: 10

Difference from the original:
    GPUSharingEnable and GPUNumberEnable can be on together: cards are accounted for one by one, so a card that is
    shared is not given out whole. A node whose annotation cannot be read is passed over with a reason, and so is a node
    that offers the resource but registers no card. Cards that are registered as unhealthy are not given out. The record
    is written with the bind, not before it. All containers of a pod count when the record is read again. `spread`
    scores a node by its free cards; in the original the score is always 0. Cards of terminating pods are given out
    again only when the pods are gone. MIG geometries, the dynamic vNPUs of MindCluster, the device ConfigMap, node
    locks and GPUExclusiveRules are not part of this version.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import Finding, argument
from kilauea.engine.devices.ledger import DeviceLedger, kinds_in
from kilauea.engine.devices.order import CardChoice, nodes_of
from kilauea.engine.devices.table import MEMORY, SLOTS
from kilauea.engine.extension import Rejection
from kilauea.engine.model.devices import ASCEND, SHARE, VGPU
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.deviceshare.records import annotations_for
from kilauea.engine.session import Session

BINPACK, SPREAD = "binpack", "spread"
UNREADABLE = Rejection("DeviceAnnotations", "node(s) had device annotations that cannot be used", hopeless=True)
WITHOUT = Rejection("NoDevices", "node(s) had no registered devices of the requested kind", hopeless=True)
NO_ROOM = Rejection("InsufficientDevices", "node(s) had no cards with enough free memory, cores and slots")
MOST_NAMED = 5
"""Nodes with unreadable annotations that are named one by one."""


@dataclass(frozen=True)
class DeviceShareArguments:
    """Arguments of deviceshare."""

    sharing: bool = argument("deviceshare.GPUSharingEnable", False, "Shares of one card by memory.")
    number: bool = argument("deviceshare.GPUNumberEnable", False, "Whole cards.")
    vgpu: bool = argument("deviceshare.VGPUEnable", False, "Virtual GPUs.")
    ascend: bool = argument("deviceshare.AscendHAMiVNPUEnable", False, "Virtual NPUs of HAMi.")
    policy: str = argument("deviceshare.SchedulePolicy", "", "Cards to take first.", choices=("", BINPACK, SPREAD))
    weight: int = argument("deviceshare.ScheduleWeight", 0, "Weight of the policy among nodes.", minimum=0)


class DeviceShare(Plugin):
    """See the module."""

    name = "deviceshare"
    depends_on_time = False
    Arguments = DeviceShareArguments

    def on_session_open(self, session: Session) -> None:
        given: DeviceShareArguments = self.arguments
        if not session.state.with_devices:
            return
        wanted = {SHARE} if given.sharing or given.number else set()
        kinds = kinds_in(wanted | ({VGPU} if given.vgpu else set()), (ASCEND,) if given.ascend else ())
        self._session = session
        ledger = self._ledger = session.devices = DeviceLedger(session.state, kinds, self._order)
        ledger.take_in(session.shape_of)
        session.add_predicate(
            self.name, self._fits, [UNREADABLE, WITHOUT, NO_ROOM], applies=self._applies, room=self._has_room
        )
        session.add_event_handler(self.name, self._placed, self._gone)
        session.add_bind_annotations(self.name, self._annotations)
        if given.weight and given.policy:
            session.add_node_score(self.name, self._score, applies=self._applies)
        self._name_faults(session)

    def _name_faults(self, session: Session) -> None:
        """Warn of nodes with annotations that cannot be read."""
        for kind, table in sorted(self._ledger.tables.items()):
            rows = np.flatnonzero(table.cards.faulty)
            for row in rows[:MOST_NAMED]:
                found = table.cards.sets[row]
                if found is not None:
                    message = f"its devices are not used: annotation {found.fault}"
                    session.findings.append(
                        Finding(f"node {session.nodes.names[row]}", message, code="DeviceAnnotations")
                    )
            if len(rows) > MOST_NAMED:
                message = f"the annotations of {len(rows) - MOST_NAMED} more nodes cannot be read either"
                session.findings.append(Finding(f"devices {kind}", message, code="DeviceAnnotations"))

    # --- nodes

    def _applies(self, shape: TaskShape) -> bool:
        return self._ledger.serves(shape.spec.devices)

    def _fits(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int8]:
        return self._ledger.fits(shape, nodes, now=False)

    def _has_room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        free: NDArray[np.bool_] = self._ledger.fits(shape, nodes, now=True) == 0
        return free

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        wish, total = shape.spec.devices, np.zeros(len(nodes))
        assert wish is not None
        found = self._ledger.survey(shape, nodes, now=False)
        rows = np.arange(len(nodes))[:, None]
        for request, columns in zip(wish.requests, found.chosen, strict=True):
            table = self._ledger.tables.get(request.kind)
            if table is None:
                continue
            capacity, used = nodes_of(table.cards.capacity, nodes), nodes_of(table.later, nodes)
            if self.arguments.policy == SPREAD:
                part = 100.0 * (used[SLOTS] == 0)
            else:
                need = table.memory_of(request, capacity)
                part = 100.0 * (used[MEMORY] + need) / np.maximum(capacity[MEMORY], 1)
            total += part[rows, columns].sum(axis=1)
        total[found.codes != 0] = 0.0
        score: NDArray[np.float64] = np.floor(total + 0.5) * self.arguments.weight
        return score

    # --- cards

    def _order(self, choice: CardChoice) -> NDArray[np.float64]:
        other, used = self._session.card_order, choice.used
        if other is not None:
            return other(choice)
        if self.arguments.policy == BINPACK:
            fullest: NDArray[np.float64] = -used[MEMORY].astype(np.float64)
            return fullest
        if self.arguments.policy == SPREAD:
            fewest: NDArray[np.float64] = used[SLOTS].astype(np.float64)
            return fewest
        index = np.arange(used.shape[2], dtype=np.float64)
        # Without a policy vGPUs are taken from the last card on, as the original does, others from the first.
        return np.broadcast_to(-index if choice.request.kind == VGPU else index, used.shape[1:])

    def _placed(self, task: Task, row: int) -> None:
        if self._ledger.serves(task.spec.devices):
            self._ledger.placed(task, self._session.shape_of(task), row)

    def _gone(self, task: Task, row: int) -> None:
        self._ledger.gone(task)

    def _annotations(self, task: Task) -> dict[str, str]:
        return annotations_for(self._ledger.slices(task), task.node, self._session.now)
