"""Place pods by the actual load of nodes: not on overloaded ones, and preferably on idle ones.

What:
    A node whose measured cpu or memory is above its threshold does not accept new pods. The other nodes are scored by
    their unused cpu and memory as measured, minus the estimated usage of pods that were placed or started so recently
    that the measurement does not include them. The estimate is based on their requests and limits.

    Loads are averages over ten minutes from the monitoring system in the section `metrics` of the configuration:
    Prometheus, Elasticsearch, or any source behind the cluster's custom metrics API. The scheduler reads them in
    parallel with its cycles. In files, NodeMetrics objects are loads, as `kubectl get --raw
    /apis/metrics.k8s.io/v1beta1/nodes` prints them. If the load of a node is unknown or older than five minutes, the
    node is not rejected, its score is 0, and the plan names it.

Why:
    Requests are guesses. A node that is full by its requests can be idle, and a node with free resources can be
    overloaded.

Arguments:
    usage.weight (integer, 5): weight of the score.
    cpu.weight (integer, 1), memory.weight (integer, 1): weights of cpu and memory in the score; if both are 0, nodes
    get no score.
    thresholds.cpu (integer, 80), thresholds.mem (integer, 80): percentage above which a node does not accept new pods.
    thresholds (map): both as a map with `cpu` and `mem`; takes precedence.
    estimator.request_ratio (number, 0.7): the part of its request that a new pod is estimated to use.
    estimator.burst_ratio (number, 0): the part of the difference between its limit and its request that it is estimated
    to use.
    estimator.risk_threshold (number, 0.6): load of a node, from 0 to 1, at or above which estimates are increased.
    estimator.risk_factor (number, 1.2): factor by which they are increased.
    estimator.be_cpu (text, 250): cpu of a new pod without requests and limits: milli-cores, or a quantity.
    estimator.be_mem (text, 200): memory of such a pod: MiB, or a quantity.

    Flags: `enablePredicate: false` to accept all nodes, `enableNodeOrder: false` to disable scoring.

Example:
    tiers:
    - plugins:
      - name: usage
        arguments:
          usage.weight: 5
          thresholds:
            cpu: 80
            mem: 70
    metrics:
      type: prometheus
      address: http://prometheus.monitoring:9090
      interval: 30s

Difference from the original:
    A node for which Prometheus has no data is not rejected or scored; in Volcano it looks idle. The age of a load is
    that of its newest sample, not of the last response. NodeMetrics in files are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.api.quantity import QuantityError, amount
from kilauea.api.times import format_time
from kilauea.engine.conf import Finding, argument
from kilauea.engine.extension import Rejection
from kilauea.engine.model import status
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.service_classes import BEST_EFFORT
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

NO_THRESHOLDS: dict[str, int] = {}
MIB = 1 << 20
BE_CPU, BE_MEMORY = "250", "200"
"""Milli-cores and MiB of a new pod without requests and limits."""

HOT_CPU = Rejection("CpuLoadTooHigh", "the CPU load of the node exceeds the upper limit.", hopeless=True)
HOT_MEMORY = Rejection("MemoryLoadTooHigh", "the memory load of the node exceeds the upper limit.", hopeless=True)

JUST_PLACED = frozenset({status.ALLOCATED, status.PIPELINED, status.BINDING, status.BOUND})
"""States of tasks that measurements cannot contain yet."""


@dataclass(frozen=True)
class UsageArguments:
    """Arguments of usage."""

    weight: int = argument("usage.weight", 5, "Weight of the score.", minimum=0)
    cpu: int = argument("cpu.weight", 1, "Weight of cpu.", minimum=0)
    memory: int = argument("memory.weight", 1, "Weight of memory.", minimum=0)
    hot_cpu: int = argument("thresholds.cpu", 80, "Percent of cpu.", minimum=0, maximum=100)
    hot_memory: int = argument("thresholds.mem", 80, "Percent of memory.", minimum=0, maximum=100)
    thresholds: dict[str, int] = argument("thresholds", NO_THRESHOLDS, "Both as a map.", minimum=0, maximum=100)
    request_ratio: float = argument(
        "estimator.request_ratio", 0.7, "The part of a request that counts as used.", minimum=0, maximum=1
    )
    burst_ratio: float = argument(
        "estimator.burst_ratio", 0.0, "The part between request and limit.", minimum=0, maximum=1
    )
    risk_threshold: float = argument(
        "estimator.risk_threshold", 0.6, "Load at or above which estimates are increased.", minimum=0, maximum=1
    )
    risk_factor: float = argument("estimator.risk_factor", 1.2, "Factor by which they are increased.", minimum=1)
    be_cpu: str = argument("estimator.be_cpu", BE_CPU, "Cpu of a pod without requests.", numbers=True)
    be_memory: str = argument("estimator.be_mem", BE_MEMORY, "Memory of a pod without requests.", numbers=True)


class Usage(Plugin):
    """See the module."""

    name = "usage"
    depends_on_time = False
    Arguments = UsageArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        given: UsageArguments = self.arguments
        thresholds = self._thresholds(given)
        self._best_effort = (
            self._quantity("estimator.be_cpu", CPU, given.be_cpu, 1, BE_CPU),
            self._quantity("estimator.be_mem", MEMORY, given.be_memory, MIB, BE_MEMORY),
        )
        loads = session.state.loads
        self._fresh = loads.fresh(session.now)
        self._real = loads.percent / 100.0
        self._weights = (given.cpu, given.memory)
        self._tell_of_unknown(loads.at)
        self._codes = np.where(loads.percent[0] > thresholds[0], 1, np.where(loads.percent[1] > thresholds[1], 2, 0))
        self._codes[~self._fresh] = 0
        judges, hot = bool(self._fresh.any()), bool(self._codes.any())
        session.add_predicate(self.name, self._refused, (HOT_CPU, HOT_MEMORY), applies=lambda _: hot)
        scores = judges and bool(given.weight) and any(self._weights)
        session.add_node_score(self.name, self._score, applies=lambda _: scores)
        if scores:
            self._count_recent()
            session.add_event_handler(self.name, self._arrived, self._left)

    # --- arguments

    def _thresholds(self, given: UsageArguments) -> tuple[int, int]:
        names = {"cpu": 0, "mem": 1, "memory": 1}
        out = [given.hot_cpu, given.hot_memory]
        for name, percent in given.thresholds.items():
            if name in names:
                out[names[name]] = percent
            else:
                self._find("thresholds", f"takes cpu and mem, not {name!r}; it is ignored")
        return out[0], out[1]

    def _quantity(self, key: str, resource: str, text: str, unit: int, default: str) -> int:
        """Parse an amount that is a number of units or a quantity."""
        try:
            size = int(text) * unit if text.isascii() and text.isdigit() and len(text) < 16 else amount(resource, text)
        except QuantityError as error:
            self._find(key, f"{error}; {default} is kept")
            size = -1
        else:
            if size < 0:
                self._find(key, f"cannot be less than 0, but is {text!r}; {default} is kept")
        return size if size >= 0 else int(default) * unit

    def _find(self, key: str, message: str) -> None:
        self._session.findings.append(Finding("plugin usage", f"{key}: {message}", code="wrong-value", path=(key,)))

    # --- unknown loads

    def _tell_of_unknown(self, at: NDArray[np.int64]) -> None:
        """Report the nodes with unknown loads."""
        names = self._session.nodes.names
        unknown, stale = np.flatnonzero(at == 0), np.flatnonzero((at != 0) & ~self._fresh)
        if len(unknown):
            self._tell("unknown-load", f"the load of {_listed(names, unknown)} is unknown")
        if len(stale):
            newest = format_time(int(at[stale].max()))
            self._tell(
                "stale-load", f"the load of {_listed(names, stale)} is not of the last five minutes (newest: {newest})"
            )

    def _tell(self, code: str, message: str) -> None:
        advice = "usage does not judge by it; look at the section metrics of the configuration, and at that system"
        self._session.findings.append(Finding("plugin usage", f"{message}: {advice}", code=code))

    # --- hot nodes

    def _refused(self, _: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        return nodes.take(self._codes)

    # --- cool nodes

    def _score(self, _: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        return nodes.take(self._scores)

    def _rated(self, rows: slice) -> NDArray[np.float64]:
        """Return the scores of some nodes, by their unused resources."""
        free = 1.0 - _used(self._real[:, rows], self._recent[:, rows], self._capacity[:, rows])
        cpu, memory = self._weights
        score: NDArray[np.float64] = (free[0] * cpu + free[1] * memory) / (cpu + memory) * 100.0 * self.arguments.weight
        return np.where(self._fresh[rows], score, 0.0)

    def _used_on(self, row: int) -> tuple[float, float]:
        """Return `_used` for one node; plain numbers are faster here."""
        parts = []
        for part in (0, 1):
            whole = int(self._capacity[part, row])
            used = float(self._real[part, row]) + float(self._recent[part, row]) / whole if whole > 0 else 0.0
            parts.append(min(max(used, 0.0), 1.0))
        return parts[0], parts[1]

    def _rate(self, row: int) -> None:
        if self._fresh[row]:
            (cpu, memory), used = self._weights, self._used_on(row)
            free = (1.0 - used[0]) * cpu + (1.0 - used[1]) * memory
            self._scores[row] = free / (cpu + memory) * 100.0 * self.arguments.weight

    # --- pods that the measurement does not contain

    def _count_recent(self) -> None:
        """Estimate what recent pods use, node by node and in the order in which pods are placed."""
        session, placements = self._session, self._session.state.placements
        self._capacity = session.nodes.capacity
        self._recent: NDArray[np.float64] = np.zeros(self._capacity.shape)
        """(2, N) milli-cores and bytes."""
        self._estimates: dict[str, tuple[float, float]] = {}
        """Estimates that were added, by task."""
        self._since = session.now - session.conf.metrics.interval
        recent = (placements.started == 0) | (placements.started > self._since)
        rows = placements.node[(placements.node >= 0) & recent & ~placements.terminating]
        self._scores: NDArray[np.float64] = np.zeros(len(session.nodes))
        """(N,) scores, updated as tasks are added and removed, so that tasks only look them up."""
        for row in np.unique(rows[self._fresh[rows]]):
            tasks = session.state.on_node(session.nodes.names[row])
            for task in sorted((t for t in tasks if self._is_recent(t)), key=lambda t: t.order):
                self._arrived(task, int(row))
        self._scores = self._rated(slice(None))

    def _is_recent(self, task: Task) -> bool:
        return task.status in JUST_PLACED or (
            task.status == status.RUNNING and (task.started == 0 or task.started > self._since)
        )

    def _arrived(self, task: Task, row: int) -> None:
        if self._is_recent(task):
            self._left(task, row)
            estimate = self._estimates[task.key] = self._estimate(task, row)
            self._recent[0, row] += estimate[0]
            self._recent[1, row] += estimate[1]
            self._rate(row)

    def _left(self, task: Task, row: int) -> None:
        estimate = self._estimates.pop(task.key, None)
        if estimate is not None:
            for part in (0, 1):
                self._recent[part, row] = max(float(self._recent[part, row]) - estimate[part], 0.0)
            self._rate(row)

    def _estimate(self, task: Task, row: int) -> tuple[float, float]:
        """Return the estimated cpu and memory usage of a pod; higher at or above the risk threshold of its node."""
        given: UsageArguments = self.arguments
        cpu, memory = self._weights
        used = self._used_on(row)
        load = (used[0] * cpu + used[1] * memory) / (cpu + memory)
        factor = given.risk_factor if load >= given.risk_threshold else 1.0
        if task.qos == BEST_EFFORT:
            return self._best_effort[0] * factor, self._best_effort[1] * factor
        asked = (task.spec.requests.get(CPU, 0), task.spec.requests.get(MEMORY, 0))
        ratios = given.request_ratio * factor, given.burst_ratio * factor
        return _within(asked[0], task.limits[0], *ratios), _within(asked[1], task.limits[1], *ratios)


def _used(real: NDArray[np.float64], recent: NDArray[np.float64], capacity: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the part of the capacity in use, from 0 to 1; 0 without capacity."""
    whole = np.where(capacity > 0, capacity, 1)
    return np.where(capacity > 0, np.clip(real + recent / whole, 0.0, 1.0), 0.0)


def _within(request: int, limit: int, request_ratio: float, burst_ratio: float) -> float:
    """Return a part of the request, plus a part of the difference to the limit, at most the limit."""
    most = limit if limit >= request and limit > 0 else request
    return min(request * request_ratio + (most - request) * burst_ratio, float(most))


def _listed(names: Sequence[str], rows: NDArray[np.intp]) -> str:
    others = len(rows) - 1
    more = f" and {others} other node{'s' * (others > 1)}" if others else ""
    return f"node {names[int(rows[0])]}{more}"
