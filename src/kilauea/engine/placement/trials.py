"""Trial placements of groups that wait for admission: those whose minimum fits on the current cluster.

A trial costs as much as placing the group, so a cycle makes a limited number of them. Groups with equal requests share
a trial, and a group whose pods all request more than any node has left does not need one. If there are more groups,
those without a trial are queued: the first ones are tried in the next cycle, before groups that arrive later or were
just tried. So each of `n` groups with different requests is tried at least once in `n / TRIALS` cycles, rounded up,
regardless of new groups. A group that was not tried counts as one that cannot be placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.attempts import TriedGroups
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement.gangs import place_job, worksheet
from kilauea.engine.queues.fifo import first_admitted, precedes
from kilauea.engine.session import Session

TRIALS = 100
"""Trials in a cycle of groups with different requests, and the same number for groups that could be placed before."""


class Trials:
    """The trials of one cycle.

    Args:
        session: the session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before = session.backoff.tried
        self._left, self._left_of_fitting = TRIALS, TRIALS
        jobs = session.state.jobs
        self._first = {key for key in self._before.line[:TRIALS] if key in jobs and jobs[key].is_pending}
        """Groups that have a reserved trial."""
        self._passed: dict[str, None] = {}
        """Groups that needed a trial and did not get one, in order."""
        self._of_job: dict[str, bool] = {}
        self._found: dict[Hashable, bool] = {}
        """Results of trials, by request."""
        self._fitting = dict(self._before.fitting)
        self._admitted: dict[str, Job | None] = {}
        """The first admitted job of fifo queues that has not started."""

    def could_be_placed(self, queue: Queue, job: Job) -> bool:
        """Return True if a group that is not admitted is known to fit with its minimum now."""
        known = self._of_job.get(job.key)
        if known is not None:
            return known
        if self._is_blocked(queue, job):
            return False
        fitted = job.key in self._before.fitting
        if fitted and not self._left_of_fitting:
            return True
        if not fitted and job.key not in self._first and self._left <= len(self._first):
            self._passed[job.key] = None
            return False
        self._first.discard(job.key)
        self._passed.pop(job.key, None)
        ask = self._ask(queue, job)
        fits = self._found.get(ask)
        if fits is None:
            fits = self._found[ask] = self._fits_somewhere(job) and self._tried(queue, job, fitted=fitted)
        if fits:
            self._fitting.setdefault(job.key, self._session.backoff.moment)
        else:
            self._fitting.pop(job.key, None)
        self._of_job[job.key] = fits
        return fits

    def _is_blocked(self, queue: Queue, job: Job) -> bool:
        """Return True if an admitted job before this one of a fifo queue still has to start."""
        if not queue.fifo:
            return False
        if queue.name not in self._admitted:
            self._admitted[queue.name] = first_admitted(self._session, queue)
        first = self._admitted[queue.name]
        return first is not None and precedes(self._session, first, job)

    def _tried(self, queue: Queue, job: Job, *, fitted: bool) -> bool:
        """Run a trial."""
        self._left -= not fitted
        self._left_of_fitting -= fitted
        return could_be_placed(self._session, queue, job)

    @cached_property
    def _most(self) -> NDArray[np.int64]:
        """(R,) maximum of each resource that any node will have free, once terminating pods have ended."""
        nodes = self._session.state.nodes
        room: NDArray[np.int64] = nodes.allocatable - nodes.used + nodes.releasing - nodes.pipelined
        most: NDArray[np.int64] = room.max(axis=1, initial=np.iinfo(np.int64).min)
        return most

    def _fits_somewhere(self, job: Job) -> bool:
        """Return False if all pods of a group request more than any node has left."""
        shapes = {self._session.shape_of(task) for task in job.pending()}
        return any(bool((shape.need[:, 0] <= self._most).all()) for shape in shapes)

    def take_several_cycles(self, groups: int) -> bool:
        """Return True if this number of groups may exceed the trials of one cycle."""
        return groups > TRIALS

    def known_for(self, job: Job) -> int:
        """Return the microseconds since it is known that a group could be placed."""
        return self._session.backoff.moment - self._fitting.get(job.key, self._session.backoff.moment)

    def remembered(self) -> TriedGroups:
        """Return the results for the next cycle, when this cycle does not admit more groups."""
        jobs = self._session.state.jobs
        fitting = {key: since for key, since in self._fitting.items() if key in jobs and jobs[key].is_pending}
        place = {key: at for at, key in enumerate(self._before.line)}
        return TriedGroups(tuple(sorted(self._passed, key=lambda key: place.get(key, len(place)))), fitting)

    def _ask(self, queue: Queue, job: Job) -> Hashable:
        """Return a key that groups with equal requests share; a unique key if a group has other constraints."""
        session = self._session
        if job.sub_groups or session.domains.binds(job) or not session.ledger.swaps():
            return job.key
        waiting = Counter((session.shape_of(task), task.role, task.foreign_gate) for task in job.pending())
        return queue.name, job.min_available, *sorted(job.role_minimum.items()), *job.counts, frozenset(waiting.items())


def could_be_placed(session: Session, queue: Queue, job: Job) -> bool:
    """Return True if a group that is not admitted would fit with its minimum now, without changing anything."""
    sheet = None if session.job_valid(job) or session.points.overused(queue) else worksheet(session, job)
    if sheet is None:
        return False
    domains = dict(session.domains.chosen)
    statement = place_job(session, queue, sheet)
    if statement is not None:
        statement.roll_back()
    session.domains.chosen.clear()
    session.domains.chosen.update(domains)
    session.report.unfit.pop(job.key, None)
    for key in job.tasks:
        session.report.task_refusals.pop(key, None)
        session.report.had_room.discard(key)
    return statement is not None
