"""Bundles of tasks that can be evicted from other jobs for a gang.

A running job has up to two bundles: `Safe`, the tasks beyond its minimum, and `Whole`, the gang with all of its tasks.
`by_domain.py` chooses among them. Spec of the scheduler, 5.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.units import spare_and_rest
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, add
from kilauea.engine.model.task_specs import TaskSpec
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


Kind = tuple[str, bool, tuple[TaskSpec, ...]]
"""The queue of a bundle, True for a whole gang, and the requests of its tasks."""


class Bundle(NamedTuple):
    """Tasks of one job that are considered together.

    Attributes:
        job: the job of the tasks.
        tasks: the tasks to evict.
        whole: True if they are the whole gang.
        gain: the needed resources that they free in the domain, relative to the loss of the job.
        kind: as long as nothing is evicted, a queue may lose each bundle of a kind or none.
    """

    job: Job
    tasks: tuple[Task, ...]
    whole: bool
    gain: float
    kind: Kind


def spare_bundle(job: Job, tasks: tuple[Task, ...]) -> Bundle:
    """Return the bundle of tasks that a job can spare, which loses nothing by it."""
    return Bundle(job, tasks, False, math.inf, (job.queue, False, specs_of(tasks)))


def specs_of(tasks: Iterable[Task]) -> tuple[TaskSpec, ...]:
    """Return the requests of tasks."""
    return tuple(task.spec for task in tasks)


@dataclass(frozen=True, slots=True)
class Parts:
    """The bundles of a job whose tasks in the pool are all considered.

    Attributes:
        counts: tasks of the job by status, for which this holds.
        safe: the bundle of spare tasks; None without any.
        rest: requests of the other tasks.
        whole: the bundle of the gang, with a gain of 0; None without `rest`, or if some of its tasks are not in the
            pool.
    """

    counts: tuple[int, ...]
    safe: Bundle | None
    rest: tuple[TaskSpec, ...]
    whole: Bundle | None


class Gangs:
    """The gangs of a pool: what is the same for all jobs that need resources, until more tasks are evicted.

    Args:
        session: the cycle.
        pool: the tasks that might be evicted.
    """

    def __init__(self, session: Session, pool: VictimPool) -> None:
        self._session = session
        self._pool = pool
        self._parts: dict[str, Parts] = {}
        self._keys: dict[str, tuple[Any, ...]] = {}
        self._keyed = pool.commits

    def key(self, job: Job) -> tuple[Any, ...]:
        """Return the sort key of a job by the plugins."""
        if self._keyed != self._pool.commits:
            self._keyed = self._pool.commits
            self._keys.clear()
        key = self._keys.get(job.key)
        if key is None:
            key = self._keys[job.key] = self._session.points.job_key(job)
        return key

    def parts(self, job: Job) -> Parts:
        """Return the bundles of a job; between two plans, as the evictions of a plan that is dropped are undone."""
        counts = tuple(job.counts)
        known = self._parts.get(job.key)
        if known is None or known.counts != counts:
            known = self._parts[job.key] = self._parts_of(job, counts)
        return known

    def _parts_of(self, job: Job, counts: tuple[int, ...]) -> Parts:
        pool = self._pool
        safe, rest = spare_and_rest(job, [task for task in job.tasks.values() if pool.has(task)])
        mates = [task for task in job.tasks.values() if task.status in status.HOLDING] if rest else []
        whole = whole_bundle(job, mates) if rest and all(map(pool.has, mates)) else None
        return Parts(counts, spare_bundle(job, tuple(safe)) if safe else None, specs_of(rest), whole)


def whole_bundle(job: Job, mates: Iterable[Task]) -> Bundle:
    """Return the bundle of a gang with these tasks, with a gain of 0."""
    tasks = tuple(sorted(mates, key=lambda task: task.order))
    return Bundle(job, tasks, True, 0.0, (job.queue, True, specs_of(tasks)))


InOrder = Callable[[Iterable[Bundle], Queue, Gangs], list[Bundle]]
"""Orders bundles, all whole or all spare, for eviction for a queue."""
PluginsAllow = Callable[[GangPreemptor, Sequence[Task]], list[Task]]
"""Selects the tasks that the plugins allow to evict for a gang."""


class Bundles:
    """Finds the bundles for a job.

    Args:
        session: the cycle.
        pool: the tasks that might be evicted.
        gangs: their gangs.
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
        gangs: Gangs,
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
        self._gangs = gangs
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
        self._gains: dict[tuple[tuple[TaskSpec, ...], tuple[TaskSpec, ...]], float] = {}
        """By the requests of the tasks in the domain, and of all tasks of the gang."""
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
        found = list(self._found(chosen))
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
                kept.append(bundle if len(left) == len(bundle.tasks) else spare_bundle(bundle.job, left))
        safe, whole = ([b for b in kept if b.whole == kind] for kind in (False, True))
        return [b for kind in (safe, whole) for b in self._in_order(kind, self._queue, self._gangs)]

    def _found(self, chosen: NDArray[np.bool_]) -> Iterator[Bundle]:
        """Yield the bundles of the jobs with chosen tasks, in the order of the pool."""
        pool = self._pool
        places = np.flatnonzero(chosen)
        of_task = pool.job_rows[places]
        rows, first = np.unique(of_task, return_index=True)
        complete = np.bincount(of_task, minlength=len(pool.jobs)) == pool.present()
        parted: dict[int, list[Task]] = {}
        for place, row in zip(places.tolist(), of_task.tolist(), strict=True) if not complete[rows].all() else ():
            if not complete[row]:
                parted.setdefault(row, []).append(pool.tasks[place])
        for row in rows[np.argsort(first)].tolist():
            job = pool.jobs[row]
            if row in parted:
                yield from self._of_job(job, parted[row])
                continue
            parts = self._gangs.parts(job)
            if parts.safe is not None:
                yield parts.safe
            if parts.whole is not None and not job.counts[status.PIPELINED]:
                _, tasks, _, _, kind = parts.whole
                yield Bundle(job, tasks, True, self._gain(parts.rest, kind[2]), kind)

    def _of_job(self, job: Job, here: Sequence[Task]) -> Iterator[Bundle]:
        """Yield the bundles of a job with these tasks in the domain."""
        safe, rest = spare_and_rest(job, here)
        if safe:
            yield spare_bundle(job, tuple(safe))
        if not rest or job.counts[status.PIPELINED]:
            return
        mates = [task for task in job.tasks.values() if task.status in status.HOLDING]
        index = self._pool.index
        if all(self._pool.has(task) and self._eligible[index[task.key]] for task in mates):
            whole = whole_bundle(job, mates)
            yield whole._replace(gain=self._gain(specs_of(rest), whole.kind[2]))

    def _gain(self, here: tuple[TaskSpec, ...], lost: tuple[TaskSpec, ...]) -> float:
        """Return the gain of evicting tasks in the domain, relative to the loss of their job; of their requests."""
        gain = self._gains.get((here, lost))
        if gain is None:
            brings, costs = 0.0, 0.0
            for name, need in self._need.items():
                if need > EPSILON:
                    brings += min(sum(spec.requests.get(name, 0) for spec in here), need) / need
                    costs += sum(spec.requests.get(name, 0) for spec in lost) / need
            gain = self._gains[here, lost] = brings / costs if costs else math.inf
        return gain

    def by_node(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Return the same tasks, spare ones separately, by node, with nodes first that lack the least for a task."""
        nodes, smallest = self._session.nodes, self._smallest[:, None]
        lacking = np.maximum(smallest - np.maximum(nodes.all().future_idle, 0), 0) / np.maximum(smallest, 1)
        place = np.argsort(lacking.sum(axis=0), kind="stable").argsort()
        spare = [(place[nodes.row_of[t.node]], b, t) for b in bundles if not b.whole for t in b.tasks]
        spare.sort(key=lambda entry: entry[0])
        alone = [spare_bundle(b.job, (task,)) for _, b, task in spare]
        return [*alone, *(bundle for bundle in bundles if bundle.whole)]


def least_of(session: Session, tasks: Sequence[Task], count: int) -> NDArray[np.int64]:
    """(R,) the minimum total request of any tasks of this number."""
    least = np.zeros(len(session.axis), dtype=np.int64)
    for name, row in session.axis.rows.items():
        least[row] = sum(sorted(task.spec.requests.get(name, 0) for task in tasks)[:count])
    return least
