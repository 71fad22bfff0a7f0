"""Give pods parts of cards: memory, cores, or entire cards; each card is tracked separately.

What:
    The cards of a node are those that its device plugin registers in an annotation (`volcano.sh/node-vgpu-register`,
    `hami.io/node-register-NAME`), or those that the node offers as `volcano.sh/gpu-number`. A pod that requests parts
    of cards runs on a node where each container gets its cards: for each card that it requests, one card with enough
    memory, cores and slots, of a model and with an ID that the pod's annotations allow. The scheduler writes the
    assigned cards to the pod's annotations in the request that binds the pod. Device plugins read them there, and so
    does the scheduler after a restart.

    Cards in mode mig are split into instances: a pod gets the smallest free instance that is large enough, and the
    first pod on a card determines how it is split.

    The devices are configured in a ConfigMap (key `device-config.yaml`): how the cards of a model can be split, the
    defaults of containers that omit an amount or a count, other names of the resources for vGPUs and NPUs, and the
    templates of NPUs, to which memory is rounded up.

Why:
    The sum over a node does not show if a share fits: a whole card does not fit on two cards that are half used.

Arguments:
    deviceshare.GPUSharingEnable (true or false, false): a share of one card by memory, `volcano.sh/gpu-memory`.
    deviceshare.GPUNumberEnable (true or false, false): whole cards, `volcano.sh/gpu-number`.
    deviceshare.VGPUEnable (true or false, false): virtual GPUs, `volcano.sh/vgpu-number`, `volcano.sh/vgpu-memory` (MiB
    of each card), `volcano.sh/vgpu-memory-percentage`, `volcano.sh/vgpu-cores` (hundredths of each card).
    deviceshare.AscendHAMiVNPUEnable (true or false, false): virtual NPUs of HAMi, such as `huawei.com/Ascend910B` and
    `huawei.com/Ascend910B-memory`.
    deviceshare.AscendMindClusterVNPUEnable (true or false, false): cores of Ascend 310P chips, `huawei.com/npu-core`,
    which MindCluster's device plugin splits on demand: 1, 2 or 4 cores, or whole chips. The pod's labels `vnpu-level`
    (`high` for more processors) and `vnpu-dvpp` (`yes` for all image units, `no` for none) select the template.
    deviceshare.NodeLockEnable (true or false, false): lock a node with an annotation (`hamivgpu`, `gpu`,
    `hami.io/mutex.lock`) from binding a pod with cards until its device plugin has assigned them. Other binds wait, and
    a lock that is older than five minutes is replaced.
    deviceshare.KnownGeometriesCMName (text, "volcano-vgpu-device-config"): name of the ConfigMap of the devices.
    deviceshare.KnownGeometriesCMNamespace (text, "kube-system"): namespace of this ConfigMap.
    deviceshare.GPUExclusiveRules (list of maps, none): maps of labels. Pods that have all labels of a rule do not share
    a vGPU with each other; other pods can share it with them. Does not apply to cards in mode mig.
    deviceshare.SchedulePolicy (text, ""): `binpack` uses the fullest card first, `spread` the card with the fewest
    pods.
    deviceshare.ScheduleWeight (integer, 0): weight of the same policy among nodes. `binpack` scores how full the cards
    are in hundredths, GPUs with the pod and NPUs without it. It is also the weight of networks: a node whose Ascend910
    chips for a pod are all in one network gets 10, a node with fewer a proportional score. 0 disables both.

Example:
    tiers:
    - plugins:
      - name: deviceshare
        arguments:
          deviceshare.VGPUEnable: true
          deviceshare.SchedulePolicy: binpack
          deviceshare.ScheduleWeight: 10
          deviceshare.NodeLockEnable: true
          deviceshare.GPUExclusiveRules:
          - app: training

Difference from the original:
    You can enable GPUSharingEnable and GPUNumberEnable together: cards are tracked separately, so a shared card is not
    assigned as a whole. A node whose annotation cannot be read is skipped with a reason, and so is a node that offers
    the resource but does not register a card. Cards that are registered as unhealthy are not used. The assigned cards
    are written with the bind, not before it. When they are read again, all containers of a pod count. `spread` scores a
    node by its free cards; in Volcano, the score is always 0. Cards of terminating pods become free only when the pods
    are gone. NVIDIA's own geometries are known without a ConfigMap; a node in mode mig whose geometry is unknown is
    skipped instead of shared. If the smallest instances are taken, a pod gets a larger one. Rules and locks apply
    across cycles. The ConfigMap is read again when it changes; the usual names of vGPU resources remain valid in
    addition to the configured ones. Pods that request `huawei.com/npu-core` can preempt others, and several can be
    bound to a node at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kilauea.api.device_config import DEFAULT, DeviceConfig
from kilauea.api.devices import CONFIG_NAME, CONFIG_NAMESPACE, LOCK_TIME
from kilauea.api.numbers import plural
from kilauea.engine.conf import Finding, argument
from kilauea.engine.devices.adapting import Adapter
from kilauea.engine.devices.classes import Amounts, CardState, Figure, Followed
from kilauea.engine.devices.ledger import NETWORKED, DeviceLedger, kinds_in
from kilauea.engine.devices.networks import network_score
from kilauea.engine.devices.order import CardChoice, CardOrder
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.devices.table import MEMORY, SLOTS, CardTable
from kilauea.engine.extension import Refusal, Rejection
from kilauea.engine.model.devices import ASCEND, SHARE, VGPU, CardRequest
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.deviceshare.dynamic import DynamicNpus
from kilauea.engine.plugins.deviceshare.records import Records, lock_of
from kilauea.engine.session import Session

BINPACK, SPREAD = "binpack", "spread"
UNREADABLE = Rejection("DeviceAnnotations", "node(s) had device annotations that cannot be used", hopeless=True)
WITHOUT = Rejection("NoDevices", "node(s) had no registered devices of the requested kind", hopeless=True)
NO_ROOM = Rejection("InsufficientDevices", "node(s) had no cards with enough free memory, cores and slots")
PARTIAL = Rejection(
    "DeviceRequest",
    "vNPU does not support partial memory allocation when requesting multiple devices",
    hopeless=True,
)
TOO_LARGE = Rejection("DeviceRequest", "no NPU of the requested kind has so much memory", hopeless=True)
REJECTIONS = [UNREADABLE, WITHOUT, NO_ROOM, PARTIAL, TOO_LARGE]
"""By the ledger's codes, which start at 1."""
LOCKED = Rejection("NodeLocked", "node(s) had been locked within 5 minutes")
MOST_NAMED = 5
"""Nodes with unreadable annotations that are named individually."""

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


@dataclass(frozen=True)
class DeviceShareArguments:
    """Arguments of deviceshare."""

    sharing: bool = argument("deviceshare.GPUSharingEnable", False, "Shares of one card by memory.")
    number: bool = argument("deviceshare.GPUNumberEnable", False, "Whole cards.")
    vgpu: bool = argument("deviceshare.VGPUEnable", False, "Virtual GPUs.")
    ascend: bool = argument("deviceshare.AscendHAMiVNPUEnable", False, "Virtual NPUs of HAMi.")
    dynamic: bool = argument("deviceshare.AscendMindClusterVNPUEnable", False, "NPUs that are split on demand.")
    policy: str = argument("deviceshare.SchedulePolicy", "", "Cards to use first.", choices=("", BINPACK, SPREAD))
    weight: int = argument("deviceshare.ScheduleWeight", 0, "Weight of the policy among nodes.", minimum=0)
    lock: bool = argument("deviceshare.NodeLockEnable", False, "One bind at a time for each node.")
    config_name: str = argument("deviceshare.KnownGeometriesCMName", CONFIG_NAME, "ConfigMap of the devices.")
    config_namespace: str = argument("deviceshare.KnownGeometriesCMNamespace", CONFIG_NAMESPACE, "Its namespace.")
    rules: tuple[object, ...] = argument("deviceshare.GPUExclusiveRules", (), "Labels of pods.", values=object)


class DeviceShare(Plugin):
    """See the module."""

    name = "deviceshare"
    depends_on_time = False
    Arguments = DeviceShareArguments

    def on_session_open(self, session: Session) -> None:
        given: DeviceShareArguments = self.arguments
        if not session.state.with_shares:
            return
        wanted = {SHARE} if given.sharing or given.number else set()
        kinds = kinds_in(wanted | ({VGPU} if given.vgpu else set()), (ASCEND,) if given.ascend else ())
        self._session = session
        self._rules = self._readable_rules()
        config = self._config()
        if self._rules:
            session.add_task_trait(self.name, lambda task: self._matched(task) or None)
        order = CardOrder(self._order, self._order_at, self._order_state)
        ledger = DeviceLedger(session.state, kinds, order, config, self._matched)
        self._ledger = session.card_ledger = ledger
        self._records = Records(Adapter(config))
        self._scores: dict[PlainRequest, Followed] = {}
        ledger.take_in(session.shape_of)
        session.add_predicate(self.name, self._fits, REJECTIONS, applies=self._applies, room=self._has_room)
        session.add_event_handler(self.name, self._placed, self._gone)
        session.add_bind_annotations(self.name, self._annotations)
        if given.lock:
            # Otherwise, plugins would compute the room free now even in clusters where nothing is being freed.
            session.nodes.future |= any(bool(table.cards.locked.any()) for table in ledger.tables.values())
            session.add_predicate(self.name, self._may_go, [LOCKED], applies=self._applies, room=self._unlocked)
            session.add_bind_locks(self.name, self._locks)
        if given.weight and (given.policy or given.ascend):
            session.add_node_score(self.name, self._score, applies=self._applies)
        if given.dynamic:
            DynamicNpus(self.name, session, given.weight)
        self._name_faults(session)

    # --- what the configuration says

    def _config(self) -> DeviceConfig:
        """The configuration of the devices in the cluster, or the built-in one; reports its faults."""
        key = f"{self.arguments.config_namespace}/{self.arguments.config_name}"
        config = self._session.state.device_configs.get(key, DEFAULT)
        for fault in config.faults:
            self._session.findings.append(Finding(f"configmap {key}", fault, code="DeviceConfig"))
        return config

    def _readable_rules(self) -> list[frozenset[tuple[str, str]]]:
        """Labels of the rules; a rule that is empty or not a map of texts is reported and skipped."""
        out = []
        for number, rule in enumerate(self.arguments.rules):
            if isinstance(rule, Mapping) and rule and all(isinstance(value, str) for value in rule.values()):
                out.append(frozenset((str(key), value) for key, value in rule.items()))
            else:
                message = "it is left out: write a map of labels and their values, as text"
                where = f"plugin {self.name}: deviceshare.GPUExclusiveRules[{number}]"
                self._session.findings.append(Finding(where, message, code="wrong-value"))
        return out

    def _matched(self, task: Task) -> tuple[int, ...]:
        """The numbers of the rules that a pod matches."""
        if not self._rules or task.spec.devices is None:
            return ()
        labels = self._session.state.classes.get(task.label_class).labels.items()
        return tuple(number for number, rule in enumerate(self._rules) if rule <= labels)

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
                message = f"the annotations of {plural(len(rows) - MOST_NAMED, 'more node')} cannot be read either"
                session.findings.append(Finding(f"devices {kind}", message, code="DeviceAnnotations"))

    # --- nodes

    def _applies(self, shape: TaskShape) -> bool:
        return self._ledger.serves_shape(shape)

    def _fits(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int8] | None:
        return self._ledger.refusals(shape, nodes, now=False)

    def _has_room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        codes = self._ledger.refusals(shape, nodes, now=True)
        free: NDArray[np.bool_] = np.ones(len(nodes), dtype=bool) if codes is None else codes == 0
        return free

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        many = partial(self._score_of, shape)
        if self._session.card_order is not None:
            return many(nodes)  # the cards that a pod gets depend on more than the cards of the node
        plain = self._ledger.plain(shape)
        if plain is not None and not plain.request.kind.startswith(NETWORKED):
            return self._plain_score(plain, nodes)
        return self._ledger.by_state("score", shape, nodes, lambda row: float(many(self._only(row))[0]), many)

    def _only(self, row: int) -> NodeRows:
        return self._session.nodes.select(np.array([row], dtype=np.intp))

    def _plain_score(self, plain: PlainRequest, nodes: NodeRows) -> NDArray[np.float64]:
        """As `_score`, by the classes of the cards."""
        if not self.arguments.policy:
            return np.zeros(len(nodes))
        known = self._scores.get(plain)
        if known is None:
            place, points = self._read_figures(plain)
            known = self._scores[plain] = Followed(
                plain.table.classes,
                lambda: np.floor(plain.points(None, place, points) + 0.5) * self.arguments.weight,
                lambda row: math.floor(plain.points_at(row, place, points) + 0.5) * float(self.arguments.weight),
            )
        return known.of(nodes.rows)

    def _read_figures(self, plain: PlainRequest) -> tuple[Figure[float], Figure[float]]:
        """By class of cards: the sort key, and the score of a card that a pod gets."""
        states, request, room = plain.table.classes.states, plain.request, plain.has_room

        def place(state: CardState) -> float:
            return self._place(state.later) if room(state) else np.inf

        def points(state: CardState) -> float:
            capacity = state.offered[MEMORY]
            given = _counted(request.kind, request.memory or capacity * request.percent // 100)
            filled = (state.later[MEMORY] + given) / max(capacity, 1)
            return self._card_score(float(state.later[SLOTS] == 0), filled) if room(state) else 0.0

        return Figure(states, place, float), Figure(states, points, float)

    def _score_of(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """As `_score`, without cached results."""
        wish, total = self._ledger.wish_of(shape), np.zeros(len(nodes))
        found = self._ledger.survey(shape, nodes, now=False)
        for request, columns in zip(wish.requests, found.chosen, strict=True):
            table = self._ledger.tables.get(request.kind)
            if table is not None and self.arguments.policy:
                total += self._by_policy(table, request, columns, nodes)
        for kind in sorted(wish.kinds & self._ledger.tables.keys()):
            total += network_score(self._ledger.tables[kind], wish, found, nodes)
        total[found.codes != 0] = 0.0
        score: NDArray[np.float64] = np.floor(total + 0.5) * self.arguments.weight
        return score

    def _by_policy(
        self, table: CardTable, request: CardRequest, columns: NDArray[np.intp], nodes: NodeRows
    ) -> NDArray[np.float64]:
        """(n,) sums over the chosen cards (n, k): how full GPUs get, how full NPUs are, or how many cards are empty."""
        rows = (np.arange(len(nodes)) if nodes.rows is None else nodes.rows)[:, None]
        capacity, used = table.cards.capacity[MEMORY, rows, columns], table.later[:, rows, columns]
        given = _counted(request.kind, request.memory or capacity * request.percent // 100)
        filled = (used[MEMORY] + given) / np.maximum(capacity, 1)
        total: NDArray[np.float64] = self._card_score((used[SLOTS] == 0).astype(np.float64), filled).sum(axis=1)
        return total

    def _card_score(self, empty: Numbers, filled: Numbers) -> Numbers:
        """The score of a card that a pod gets, by whether it is empty (1 or 0) and how full it counts."""
        return 100.0 * (empty if self.arguments.policy == SPREAD else filled)

    # --- cards

    def _order(self, choice: CardChoice) -> NDArray[np.float64]:
        other, used = self._session.card_order, choice.used
        if other is not None:
            return other.order(choice)
        if self.arguments.policy == BINPACK:
            fullest: NDArray[np.float64] = -used[MEMORY].astype(np.float64)
            return fullest
        if self.arguments.policy == SPREAD:
            fewest: NDArray[np.float64] = used[SLOTS].astype(np.float64)
            return fewest
        # Without a policy, vGPUs are taken from the last card backwards, as in Volcano, others from the first card
        # onwards.
        index = np.arange(used.shape[2], dtype=np.float64)
        return -index if choice.request.kind == VGPU else index

    def _order_at(self, table: CardTable, request: CardRequest, row: int) -> Sequence[float]:
        """As `_order`, for one node."""
        other = self._session.card_order
        if other is not None:
            return other.at(table, request, row)
        if self.arguments.policy:
            states = table.classes.states
            return [self._place(states[number].later) for number in table.classes.numbers[row].tolist()]
        count = table.cards.there.shape[1]
        return range(0, -count, -1) if request.kind == VGPU else range(count)

    def _place(self, used: Amounts) -> float:
        """The sort key of a card with this usage, by the policy."""
        return float(-used[MEMORY] if self.arguments.policy == BINPACK else used[SLOTS])

    def _order_state(self, row: int) -> Hashable:
        other = self._session.card_order
        return None if other is None else other.state(row)

    def _placed(self, task: Task, row: int) -> Refusal | None:
        if task.spec.devices is None:
            return None
        shape = self._session.shape_of(task)
        if not self._ledger.serves_shape(shape) or self._ledger.placed(task, shape, row):
            return None
        node = self._session.nodes.names[row]
        return Refusal(
            "InsufficientDevices", f"node {node} has no cards with enough free memory, cores and slots for it"
        )

    def _gone(self, task: Task, row: int) -> None:
        self._ledger.gone(task)

    def _annotations(self, task: Task) -> dict[str, str]:
        soft = task.spec.devices is not None and task.spec.devices.soft
        return self._records.annotations(self._ledger.slices(task), task.node, self._session.now, soft=soft)

    # --- locks of nodes

    def _may_go(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        """All nodes: locks are brief, so a pod may wait for a node."""
        return np.ones(len(nodes), dtype=bool)

    def _unlocked(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        """Nodes without a valid lock, if the pod requests their cards."""
        wish, now = self._ledger.wish_of(shape), self._session.now
        out = np.ones(len(nodes), dtype=bool)
        for kind in sorted(wish.kinds & self._ledger.tables.keys()):
            locked = nodes.take(self._ledger.tables[kind].cards.locked)
            out &= (locked == 0) | (now - locked >= LOCK_TIME)
        return out

    def _locks(self, task: Task) -> tuple[str, ...]:
        return tuple(lock_of(kind) for kind in sorted(self._ledger.slices(task)))


def _counted(kind: str, memory: Numbers) -> Numbers:
    """The part of a pod's memory that counts towards the usage of a card: all of it on GPUs, none on NPUs."""
    return memory * 0 if kind.startswith(ASCEND) else memory
