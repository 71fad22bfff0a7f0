"""Selects the pods that rescheduling moves: nodes to relieve and idle ones by columns, then pod by pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.api.times import format_time
from kilauea.api.wellknown import SYSTEM_CLASSES, SYSTEM_NAMESPACE
from kilauea.engine.conf import Finding
from kilauea.engine.eviction.budgets import Budgets
from kilauea.engine.eviction.units import may_be_evicted, spare_and_rest
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY, PODS
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugins.rescheduling.strategies import Relief, Strategies
from kilauea.engine.session import Session

AVOIDED = -100.0
"""Score of a node above a target."""
NAME = "rescheduling"


class Mover:
    """Chooses pods to move in one session."""

    def __init__(self, session: Session, strategies: Strategies) -> None:
        self._session = session
        self._strategies = strategies

    @cached_property
    def _fresh(self) -> NDArray[np.bool_]:
        return self._session.state.loads.fresh(self._session.now)

    @cached_property
    def _used(self) -> NDArray[np.float64]:
        """(3, N) percent of cpu, memory and pods in use."""
        nodes = self._session.nodes.all()
        most = nodes.pod_capacity
        pods = np.where(most > 0, 100.0 * nodes.used[2] / np.where(most > 0, most, 1), 100.0)
        return np.vstack([self._session.state.loads.percent, pods])

    def _groups(self, relief: Relief) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(N,) idle nodes, and nodes to relieve."""
        low, target = (np.array(bounds)[:, None] for bounds in (relief.low, relief.target))
        below = self._fresh & (self._used < low).all(axis=0)
        above = self._fresh & ~below & (self._used > target).any(axis=0)
        return below & ~self._session.nodes.unschedulable, above

    # --- avoiding nodes above a target

    @cached_property
    def _avoided(self) -> NDArray[np.bool_]:
        out = np.zeros(len(self._session.nodes), dtype=bool)
        for relief in self._strategies.reliefs:
            out |= self._groups(relief)[1]
        return out

    @property
    def avoids(self) -> bool:
        """True if any node is above a target."""
        return bool(self._strategies.reliefs) and bool(self._avoided.any())

    def score(self, _: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """Score that keeps pods away from nodes above a target."""
        return np.where(nodes.take(self._avoided), AVOIDED, 0.0)

    # --- victims

    def victims(self, offered: Sequence[Task]) -> list[Task]:
        """Choose the pods to move among the offered ones; records the turn unless the usage is unknown."""
        if not self._strategies.reliefs:
            return []
        self._tell_of_unknown()
        if not self._fresh.any():
            return []
        self._session.turns[NAME] = self._session.backoff.moment
        session = self._session
        evicted = (session.state.tasks[e.pod] for e in session.report.evictions if e.pod in session.state.tasks)
        self._budgets = Budgets(session.state, evicted)
        self._room = session.nodes.all().future_idle.copy()
        """(R, N) free resources after moving the pods chosen so far."""
        self._spare: dict[str, set[str]] = {}
        """By job: pods that it can lose."""
        self._left: dict[str, int] = {}
        """By job: the number of pods that it can still lose."""
        chosen: dict[str, Task] = {}
        candidates = [task for task in offered if self._may_move(task)]
        for relief in self._strategies.reliefs:
            for task in self._relieve(relief, [task for task in candidates if task.key not in chosen]):
                chosen[task.key] = task
        return list(chosen.values())

    def _tell_of_unknown(self) -> None:
        at, names = self._session.state.loads.at, self._session.nodes.names
        rows = np.flatnonzero(~self._fresh)
        if len(rows):
            newest = int(at[rows].max())
            since = f"older than five minutes (newest: {format_time(newest)})" if newest else "unknown"
            others = f" and {len(rows) - 1} other{'s' * (len(rows) > 2)}" if len(rows) > 1 else ""
            message = f"the load of node {names[rows[0]]}{others} is {since}: no pod is moved from or to there"
            self._session.findings.append(Finding(f"plugin {NAME}", message, code="unknown-load"))

    def _relieve(self, relief: Relief, candidates: Sequence[Task]) -> Iterator[Task]:
        """Pods to move by one strategy."""
        idle, full = self._groups(relief)
        if idle.sum() <= relief.number_of_nodes or not idle.any() or idle.all() or not full.any():
            return
        limit, target = self._limit_of(relief), np.array(relief.target)
        offered = self._session.nodes.allocatable[:3]
        budget = ((target[:, None] - self._used[:, idle]) * offered[:, idle] / 100.0).sum(axis=1)
        targets = np.flatnonzero(idle)
        on_node: dict[str, list[Task]] = {}
        for task in candidates:
            on_node.setdefault(task.node, []).append(task)
        rows = np.flatnonzero(full)
        # The most loaded first; equal ones in the order of nodes.
        for row in rows[np.argsort(-self._used[:2, rows].sum(axis=0), kind="stable")]:
            name = self._session.nodes.names[row]
            used = self._used[:, row].copy()
            for task in sorted(on_node.get(name, ()), key=self._key):
                over = used >= target
                if not over.any() or (budget <= 0).any():
                    break
                asked = np.array([task.spec.requests.get(n, 0) for n in (CPU, MEMORY, PODS)], dtype=np.float64)
                if task.priority >= limit or not (asked[over] > 0).any() or not self._takes(relief, task, targets):
                    continue
                self._charge(task)
                budget -= asked
                whole = np.append(self._session.nodes.capacity[:, row], self._session.nodes.allocatable[2, row])
                used -= np.where(whole > 0, asked * 100.0 / np.where(whole > 0, whole, 1), 0.0)
                yield task

    def _limit_of(self, relief: Relief) -> int:
        """Priority from which pods stay."""
        name, state = relief.priority_class, self._session.state
        if name in state.priority_classes or name in SYSTEM_CLASSES:
            return state.priority_of(name)
        message = f"priority class {name} does not exist; {Relief.priority_class} is used"
        self._session.findings.append(Finding(f"plugin {NAME}", f"thresholdPriorityClassName: {message}"))
        return SYSTEM_CLASSES[Relief.priority_class]

    # --- candidates

    def _may_move(self, task: Task) -> bool:
        """Return True for a pod that is recreated, that the queues and labels select, and that its gang can spare."""
        given, job = self._strategies, self._session.state.jobs.get(task.group)
        if job is None or task.status != status.RUNNING or not task.owner_kind or not may_be_evicted(task, job):
            return False
        if task.priority_class in SYSTEM_CLASSES or task.namespace == SYSTEM_NAMESPACE:
            return False
        offline = task.preemptable if task.preemptable is not None else job.preemptable
        if (given.offline_only and offline is not True) or (given.queues and job.queue not in given.queues):
            return False
        labels = self._session.state.classes.get(task.label_class).labels
        return all(labels.get(key) == value for key, value in given.labels.items())

    def _key(self, task: Task) -> tuple[Any, ...]:
        """Order in which pods are moved off a node."""
        return (*(_ORDERS[name](self, task) for name in self._strategies.orders), task.priority, task.qos, task.order)

    def _dominant(self, task: Task) -> float:
        """The largest fraction of the cluster that a pod requests, of any resource except pods."""
        total = self._session.total
        parts = [amount / total[n] for n, amount in task.spec.requests.items() if n != PODS and total.get(n)]
        return max(parts, default=0.0)

    def _job(self, task: Task) -> Job:
        return self._session.state.jobs[task.group]

    # --- targets

    def _takes(self, relief: Relief, task: Task, targets: NDArray[np.intp]) -> bool:
        """Return True if gang and budgets allow moving a pod and an idle node fits it; takes the room there."""
        if not self._budgets.allow(task) or not self._is_spare(task):
            return False
        shape = self._session.shape_of(task)
        roomy = targets[(self._room[:, targets] >= shape.need).all(axis=0)]
        choice = self._session.evaluation(task).choose(roomy) if len(roomy) else None
        if choice is not None:
            self._room[:, choice.row] -= shape.request
        return choice is not None or not relief.node_fit

    def _is_spare(self, task: Task) -> bool:
        """Return True if the gang of a pod stays at its minimum without it, or consists of it alone."""
        job = self._job(task)
        if job.min_available <= 1 and job.ready_count == 1:
            return True
        spare = self._spare.get(job.key)
        if spare is None:
            running = [t for t in job.tasks.values() if t.status == status.RUNNING]
            safe, _ = spare_and_rest(job, running)
            spare = self._spare[job.key] = {t.key for t in safe}
            self._left[job.key] = len(safe)
        # Without minima of roles and sub-gangs, only the number of pods matters, not which ones.
        return self._left[job.key] > 0 and (task.key in spare or not (job.role_minimum or job.sub_jobs))

    def _charge(self, task: Task) -> None:
        self._budgets.charge(task)
        job = self._job(task)
        if job.key in self._left:
            self._left[job.key] -= 1


_ORDERS: dict[str, Any] = {
    "lowPriorityFirst": lambda mover, task: (mover._job(task).priority, task.priority),
    "shortLifeTimeFirst": lambda mover, task: -(task.started or task.creation),
    "bigObjectFirst": lambda mover, task: -mover._dominant(task),
    "moreReplicasFirst": lambda mover, task: -len(mover._job(task).tasks),
}
