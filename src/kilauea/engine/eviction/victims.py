"""Tasks that might be evicted, as columns: their identity, their nodes, and the resources they would free.

A search processes all victims of all nodes at once: the resources that could be freed on each node are one sum over
columns, not a loop over pods. Spec of the scheduler, 3.4.7, 5.5 and 5.6.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.units import Unit, may_be_evicted, surplus
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

MANY = 1 << 40
"""More pods than any cluster has."""


class VictimPool:
    """All running or bound tasks that may be evicted and whose job is in the session.

    With `fresh`, also tasks that were placed in this cycle: they have not started, so removing them does not evict a
    running pod. Nominated tasks that were placed are not fresh, because other pods were evicted for them.

    Attributes:
        states: statuses of the tasks.
        tasks: the tasks, by node and key.
        node: (T,) row of the node.
        request: (R, T) requests of the tasks.
        queue: (T,) row of the queue.
        job: (T,) row of the job.
        priority: (T,) priority of the job.
        running: (T,) True if it runs or is fresh; not if it is only bound.
        fresh: (T,) True if it was placed in this cycle.
        there: (T,) True if it was not evicted in this session.
        job_open: (T,) True if neither the task nor its group is marked as not preemptable; gang evictions respect both.
        jobs: (J,) the jobs of the tasks.
        job_rows: (T,) row of the job among these.
    """

    def __init__(self, session: Session, *, fresh: bool = False) -> None:
        row_of = session.nodes.row_of
        states = (status.BOUND, status.RUNNING, status.BINDING) if fresh else (status.BOUND, status.RUNNING)
        self.states = states
        started = {session.state.tasks[bind.pod].group for bind in session.report.binds} if fresh else set()
        held = session.jobs_where(session.table.counts[[status.BOUND, status.RUNNING]].sum(axis=0) > 0)
        known_jobs = {job.key for job in held}
        held += [session.state.jobs[key] for key in sorted(started - known_jobs)]
        self._queue_rows = {name: queue.row for name, queue in session.queues.items()}
        found = [
            (row_of[task.node], task.key, task, job)
            for job in held
            for task in job.tasks.values()
            if task.status in states
            and task.node in row_of
            and may_be_evicted(task, job)
            and task.key not in session.kept_promises
        ]
        # No two have the same node and name, so the tasks themselves are never compared.
        found.sort()
        jobs = [job for *_, job in found]
        self.tasks: list[Task] = [task for _, _, task, _ in found]
        self.index = {task.key: i for i, task in enumerate(self.tasks)}
        self.node: NDArray[np.intp] = np.array([row for row, *_ in found], dtype=np.intp)
        self.request = np.zeros((len(session.axis), len(found)), dtype=np.int64)
        for name, row in session.axis.rows.items():
            self.request[row] = [task.spec.requests.get(name, 0) for task in self.tasks]
        self.queue: NDArray[np.intp] = np.array([session.queues[job.queue].row for job in jobs], dtype=np.intp)
        self.job: NDArray[np.intp] = np.array([job.row for job in jobs], dtype=np.intp)
        self.priority: NDArray[np.int64] = np.array([job.priority for job in jobs], dtype=np.int64)
        self.fresh = np.array([task.status == status.BINDING for task in self.tasks], dtype=bool)
        self.running = self.fresh | np.array([task.status == status.RUNNING for task in self.tasks], dtype=bool)
        self.best_effort = np.array([task.spec.best_effort for task in self.tasks], dtype=bool)
        self.job_open = np.array(
            [t.preemptable is not False and j.preemptable is not False for *_, t, j in found], bool
        )
        self.there = np.ones(len(found), dtype=bool)
        nodes = len(session.nodes)
        self._starts = np.searchsorted(self.node, np.arange(nodes + 1))
        self.jobs: list[Job] = []
        known: dict[str, int] = {}
        for job in jobs:
            if known.setdefault(job.key, len(known)) == len(self.jobs):
                self.jobs.append(job)
        self.job_rows: NDArray[np.intp] = np.array([known[job.key] for job in jobs], dtype=np.intp)
        self._no_spare = np.zeros(len(known), dtype=bool)
        self._size = np.zeros(len(known), dtype=np.int64)
        self._in_vain: dict[tuple[object, ...], NDArray[np.bool_]] = {}
        self.held_by_the_line: set[tuple[object, ...]] = set()
        """Kinds of tasks for which a unit was spared only because of its queue's deserved share."""
        self.commits = 0
        """Number of plans that were kept."""
        self.futile: dict[tuple[object, ...], int] = {}
        """Number of kept plans at the last search without victims, by kind of task."""
        self._turns: dict[str, NDArray[np.int64]] = {}
        self._distances: dict[str, tuple[NDArray[np.int64], list[int]]] = {}
        self._stale = set(range(len(known)))
        """Jobs whose pods changed since the two arrays above were updated."""
        self._used = np.flatnonzero(np.diff(self._starts))
        """Rows of the nodes with any of the tasks."""

    def present(self) -> NDArray[np.intp]:
        """(J,) tasks of each job that were not evicted."""
        return np.bincount(self.job_rows[self.there], minlength=len(self.jobs))

    def queue_of(self, job: Job) -> int:
        """Return the row of a job's queue."""
        return self._queue_rows[job.queue]

    def without(self, jobs: Iterable[int]) -> NDArray[np.bool_]:
        """Return the tasks (T,) of jobs other than these, given by their rows."""
        return ~np.isin(self.job, list(jobs))

    def on_node(self, row: int, wanted: NDArray[np.bool_]) -> list[Task]:
        """Return the tasks on a node that a mask over all tasks selects."""
        return [self.tasks[i] for i in range(self._starts[row], self._starts[row + 1]) if wanted[i]]

    def room(self, wanted: NDArray[np.bool_], nodes: int) -> NDArray[np.int64]:
        """(R, N) resources that would be free on each node without the wanted tasks."""
        return self._by_node(np.add, wanted, nodes)

    def nodes_with(self, wanted: NDArray[np.bool_], nodes: int) -> NDArray[np.bool_]:
        """(N,) nodes with any wanted task."""
        out = np.zeros(nodes, dtype=bool)
        if len(self._used):
            out[self._used] = np.logical_or.reduceat(wanted, self._starts[self._used])
        return out

    def largest(self, wanted: NDArray[np.bool_], nodes: int) -> NDArray[np.int64]:
        """(R, N) maximum that any wanted task holds on each node."""
        return self._by_node(np.maximum, wanted, nodes)

    def in_vain(self, kind: tuple[object, ...]) -> NDArray[np.bool_]:
        """(N,) nodes that failed for tasks of a kind; searches write to it."""
        return self._in_vain.setdefault(kind, np.zeros(len(self._starts) - 1, dtype=bool))

    def at_minimum(self) -> NDArray[np.bool_]:
        """(T,) tasks of gangs without spare pods."""
        for i in self._stale:
            job = self.jobs[i]
            self._no_spare[i] = job.ready_count - job.counts[status.BINDING] <= job.min_available
            self._size[i] = sum(job.counts[state] for state in self.states)
        self._stale.clear()
        return self._no_spare[self.job_rows]

    def smallest_gang(self, wanted: NDArray[np.bool_], nodes: int) -> NDArray[np.int64]:
        """(N,) pods of the smallest gang with a wanted task on a node; `MANY` if there is none."""
        out = np.full(nodes, MANY)
        if len(self._used):
            sizes = np.where(wanted, self._size[self.job_rows], MANY)
            out[self._used] = np.minimum.reduceat(sizes, self._starts[self._used])
        return out

    def turns(self, session: Session, preemptor: Queue) -> NDArray[np.int64]:
        """(T,) the turn of each task's job to lose tasks to a queue, when the queue first needed it."""
        known = self._turns.get(preemptor.name)
        if known is None:
            place = {job.key: i for i, job in enumerate(jobs_in_victim_order(session, self.jobs, preemptor))}
            by_job = np.array([place[job.key] for job in self.jobs], dtype=np.int64)
            known = self._turns[preemptor.name] = by_job[self.job_rows]
        return known

    def distance(self, session: Session, preemptor: Queue) -> tuple[NDArray[np.int64], list[int]]:
        """(T,) the plugins' order in which each task's queue loses tasks to another; and the values, ascending."""
        known = self._distances.get(preemptor.name)
        if known is None:
            queues = [session.queues[name] for name in sorted(session.queues)]
            keys = [session.points.victim_queue_key(queue, preemptor) for queue in queues]
            by_queue = np.zeros(len(keys), dtype=np.int64)
            ordered = sorted(range(len(keys)), key=keys.__getitem__)
            for before, row in itertools.pairwise(ordered):
                by_queue[row] = by_queue[before] + (keys[row] != keys[before])
            known = self._distances[preemptor.name] = (by_queue[self.queue], sorted(set(by_queue.tolist())))
        return known

    def earliest(self, wanted: NDArray[np.bool_], turns: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
        """(N,) the earliest turn of a wanted task on each node; undefined if there is none."""
        out = np.full(nodes, MANY)
        if len(self._used):
            out[self._used] = np.minimum.reduceat(np.where(wanted, turns, MANY), self._starts[self._used])
        return out

    def _by_node(self, combine: np.ufunc, wanted: NDArray[np.bool_], nodes: int) -> NDArray[np.int64]:
        """(R, N) combined requests of the wanted tasks on each node."""
        out = np.zeros((len(self.request), nodes), dtype=np.int64)
        if len(self._used):
            out[:, self._used] = combine.reduceat(self.request * wanted, self._starts[self._used], axis=1)
        return out

    def cost(self, unit: Unit) -> int:
        """Return the number of running pods that are evicted with a unit."""
        return sum(1 for task in unit if not self.fresh[self.index[task.key]])

    def unit(self, session: Session, task: Task, *, gangs: bool) -> Unit | None:
        """Return the unit of a task: the task alone, or its whole gang; None if the gang cannot be evicted.

        With `gangs`, a gang at its minimum is evicted as a whole or not at all; otherwise, every task is evicted alone.
        A gang for which pods are evicted in this cycle is not evicted as a whole, because those evictions would be
        useless.
        """
        job = session.state.jobs[task.group]
        if not gangs or surplus(job, task) > 0:
            return (task,)
        if is_served(session, job):
            return None
        mates = [t for t in job.tasks.values() if t.status in self.states]
        if any(mate.key not in self.index for mate in mates):
            return None
        return tuple(sorted(mates, key=lambda t: t.order))

    def has(self, task: Task) -> bool:
        """Return True if a task is in the pool and was not evicted."""
        index = self.index.get(task.key)
        return index is not None and bool(self.there[index])

    def evicted(self, tasks: Iterable[Task], gone: bool) -> None:
        """Mark tasks as evicted, or as restored."""
        for task in tasks:
            index = self.index.get(task.key)
            if index is not None:
                self.there[index] = not gone
                self._stale.add(int(self.job_rows[index]))


def is_served(session: Session, job: Job) -> bool:
    """Return True if pods are evicted in this cycle for tasks that need the job's other tasks to be enough."""
    return job.key in session.ledger.served and job.counts[status.PIPELINED] < job.min_available


def jobs_in_victim_order(session: Session, jobs: Iterable[Job], preemptor: Queue) -> list[Job]:
    """Return jobs in the order in which they lose tasks: by the plugins' order of queues, then last served first."""
    points, listed = session.points, list(jobs)
    queues = {name: session.queues[name] for name in dict.fromkeys(job.queue for job in listed)}
    keys: dict[str, tuple[Any, ...]] = {
        name: () if name == preemptor.name else points.queue_key(queue) for name, queue in queues.items()
    }
    ordered = sorted(listed, key=lambda job: (keys[job.queue], points.job_key(job)), reverse=True)
    if len(queues) > 1 or preemptor.name not in queues:
        late = {name: points.victim_queue_key(queue, preemptor) for name, queue in queues.items()}
        ordered.sort(key=lambda job: late[job.queue])
    return ordered


def in_victim_order(session: Session, candidates: Sequence[Task], preemptor: Queue) -> list[Task]:
    """Tasks in the order of eviction: by job, and within a job the one served last first."""
    jobs = {task.group: session.state.jobs[task.group] for task in candidates}
    turn = {job.key: i for i, job in enumerate(jobs_in_victim_order(session, jobs.values(), preemptor))}
    ordered = session.in_order(candidates, reverse=True)
    ordered.sort(key=lambda task: turn[task.group])
    return ordered
