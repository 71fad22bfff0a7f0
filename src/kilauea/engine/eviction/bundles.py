"""Bundles of tasks that can be evicted from other jobs for a gang.

A running job has up to two bundles: `Safe`, the tasks beyond its minimum, and `Whole`, the gang with all of its tasks.
`by_domain.py` chooses among them. Spec of the scheduler, 5.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.units import spare_and_rest
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, add
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session


@dataclass(frozen=True, slots=True)
class GangPreemptor:
    """A gang that needs resources, as it is passed to `unified_evictable`.

    Attributes:
        action: `gangpreempt` or `gangreclaim`.
        job: the job that needs resources.
        domain: number of the network domain in which it needs them.
    """

    action: str
    job: Job
    domain: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that are considered together.

    Attributes:
        job: the job of the tasks.
        tasks: the tasks to evict.
        whole: True if they are the whole gang.
        gain: the needed resources that they free in the domain, relative to the loss of the job.
    """

    job: Job
    tasks: tuple[Task, ...]
    whole: bool
    gain: float


InOrder = Callable[[Iterable[Bundle], Queue], list[Bundle]]
"""Orders bundles of one kind for eviction for a queue."""
PluginsAllow = Callable[[GangPreemptor, Sequence[Task]], list[Task]]
"""Selects the tasks that the plugins allow to evict for a gang."""


class Bundles:
    """Finds the bundles for a job.

    Args:
        session: the cycle.
        pool: the tasks that might be evicted.
        eligible: (T,) tasks of the pool to consider.
        action: name of the action that evicts.
        plugins_allow, in_order: functions of its policy.
        queue: the queue of the job.
        job: the job that needs resources.
        tasks: its pending tasks.
        whole: True if whole gangs may be evicted.
    """

    def __init__(
        self,
        session: Session,
        pool: VictimPool,
        eligible: NDArray[np.bool_],
        action: str,
        plugins_allow: PluginsAllow,
        in_order: InOrder,
        queue: Queue,
        job: Job,
        tasks: Sequence[Task],
        *,
        whole: bool,
    ) -> None:
        self._session = session
        self._pool = pool
        self._eligible = eligible
        self._action = action
        self._allowed = plugins_allow
        self._in_order = in_order
        self._queue = queue
        self._job = job
        self._whole = whole
        self._need: dict[str, float] = {}
        for task in tasks:
            add(self._need, task.spec.requests)
        self._smallest = least_of(session, tasks, 1)

    def of(self, domain: int, hopeful: NDArray[np.bool_]) -> list[Bundle]:
        """Return bundles that may be evicted for resources in a domain, in order of eviction.

        Args:
            domain: number of the domain.
            hopeful: (N,) nodes where evictions could free enough resources for any of the tasks.
        """
        session, pool = self._session, self._pool
        inside = np.zeros(len(session.nodes), dtype=bool)
        inside[session.domains.tree.rows[domain]] = True
        chosen = self._eligible & pool.there & (inside & hopeful)[pool.node]
        room = session.nodes.all().future_idle + pool.room(chosen, len(session.nodes))
        smallest = self._smallest[:, None]
        useful: NDArray[np.bool_] = ((room >= smallest) | (smallest == 0)).all(axis=0)
        chosen &= useful[pool.node]
        by_job: dict[str, list[Task]] = {}
        for index in np.flatnonzero(chosen):
            task = pool.tasks[index]
            by_job.setdefault(task.group, []).append(task)
        found = [b for key, tasks in by_job.items() for b in self._of_job(session.state.jobs[key], tasks)]
        asked = {task.key: task for bundle in found for task in bundle.tasks}
        claim = GangPreemptor(self._action, self._job, domain)
        plugins_allow = {task.key for task in self._allowed(claim, list(asked.values()))}
        kept = []
        for bundle in found:
            left = tuple(task for task in bundle.tasks if task.key in plugins_allow)
            if bundle.whole and self._whole:
                # A plugin that counts evictions may spare a gang among all candidates that it would not spare alone.
                if len(left) == len(bundle.tasks) or len(self._allowed(claim, bundle.tasks)) == len(bundle.tasks):
                    kept.append(bundle)
            elif left and not bundle.whole:
                kept.append(Bundle(bundle.job, left, whole=False, gain=math.inf))
        safe, whole = ([b for b in kept if b.whole == kind] for kind in (False, True))
        return [b for kind in (safe, whole) for b in self._in_order(kind, self._queue)]

    def _of_job(self, job: Job, here: Sequence[Task]) -> Iterator[Bundle]:
        """Return the bundles of a job with these tasks in the domain."""
        safe, rest = spare_and_rest(job, here)
        if safe:
            yield Bundle(job, tuple(safe), whole=False, gain=math.inf)
        if not rest or job.counts[status.PIPELINED]:
            return
        mates = [task for task in job.tasks.values() if task.status in status.HOLDING]
        index = self._pool.index
        if all(t.key in index and self._eligible[index[t.key]] and self._pool.there[index[t.key]] for t in mates):
            tasks = tuple(sorted(mates, key=lambda t: t.order))
            yield Bundle(job, tasks, whole=True, gain=self._gain(rest, tasks))

    def _gain(self, here: Sequence[Task], lost: Sequence[Task]) -> float:
        """Return the gain of evicting tasks in the domain, relative to the loss of their job."""
        brings, costs = 0.0, 0.0
        for name, need in self._need.items():
            if need > EPSILON:
                brings += min(sum(t.spec.requests.get(name, 0) for t in here), need) / need
                costs += sum(t.spec.requests.get(name, 0) for t in lost) / need
        return brings / costs if costs else math.inf

    def by_node(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Return the same tasks, spare ones separately, by node, with nodes first that lack the least for a task."""
        nodes, smallest = self._session.nodes, self._smallest[:, None]
        lacking = np.maximum(smallest - np.maximum(nodes.all().future_idle, 0), 0) / np.maximum(smallest, 1)
        place = np.argsort(lacking.sum(axis=0), kind="stable").argsort()
        spare = [(place[nodes.row_of[t.node]], b, t) for b in bundles if not b.whole for t in b.tasks]
        spare.sort(key=lambda entry: entry[0])
        alone = [Bundle(b.job, (task,), whole=False, gain=b.gain) for _, b, task in spare]
        return [*alone, *(bundle for bundle in bundles if bundle.whole)]


def least_of(session: Session, tasks: Sequence[Task], count: int) -> NDArray[np.int64]:
    """(R,) the minimum total request of any tasks of this number."""
    least = np.zeros(len(session.axis), dtype=np.int64)
    for name, row in session.axis.rows.items():
        least[row] = sum(sorted(task.spec.requests.get(name, 0) for task in tasks)[:count])
    return least
