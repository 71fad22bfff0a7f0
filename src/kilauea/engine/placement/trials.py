"""Trying out groups that wait to be admitted: which of them would have their minimum on the cluster as it is.

A trial costs as much as placing the group. So a cycle makes a bounded number of them, and where more groups ask, the
next cycle goes on with those that were not tried yet, until each had its trial and a new round begins. Groups that ask
for the same share a trial. A group that was not tried yet counts as one that cannot be placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from kilauea.engine.model.attempts import TriedGroups
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement.gangs import place_job, worksheet
from kilauea.engine.session import Session

TRIALS = 100
"""Trials in a cycle of groups that ask for different things, and again as many of those that could be placed before."""


class Trials:
    """The trials of one cycle.

    Args:
        session: the session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before = session.backoff.tried
        self._left, self._left_of_fitting = TRIALS, TRIALS
        self._all = True
        """False if a group was not tried, because there were too many."""
        self._found: dict[Hashable, bool] = {}
        """By what is asked for: what came of the trial."""
        self._unfit: set[str] = set()
        self._fitting = dict(self._before.fitting)

    def could_be_placed(self, queue: Queue, job: Job) -> bool:
        """Return True if a group that is not admitted would have its minimum now, as far as is known."""
        fitted = job.key in self._before.fitting
        if fitted and not self._left_of_fitting:
            return True
        if not fitted and (not self._left or job.key in self._before.unfit):
            self._all &= job.key in self._before.unfit
            return False
        ask = self._ask(queue, job)
        fits = self._found.get(ask)
        if fits is None:
            self._left -= not fitted
            self._left_of_fitting -= fitted
            fits = self._found[ask] = could_be_placed(self._session, queue, job)
        if fits:
            self._fitting.setdefault(job.key, self._session.backoff.moment)
        else:
            self._unfit.add(job.key)
            self._fitting.pop(job.key, None)
        return fits

    def take_several_cycles(self, groups: int) -> bool:
        """Return True if so many groups may be too many for the trials of one cycle."""
        return groups > TRIALS

    def known_for(self, job: Job) -> int:
        """Microseconds for which it is known of a group that it could be placed."""
        return self._session.backoff.moment - self._fitting.get(job.key, self._session.backoff.moment)

    def remembered(self) -> TriedGroups:
        """Return the outcome for the next cycle, once this one admits no more groups."""
        jobs = self._session.state.jobs
        fitting = {key: since for key, since in self._fitting.items() if key in jobs and jobs[key].is_pending}
        return TriedGroups(frozenset() if self._all else self._before.unfit | self._unfit, fitting)

    def _ask(self, queue: Queue, job: Job) -> Hashable:
        """Return a key that groups share that ask for the same and so have room or not; its own if it is special."""
        session = self._session
        if job.sub_groups or session.domains.binds(job) or not session.ledger.swaps():
            return job.key
        waiting = Counter((session.shape_of(task), task.role, task.foreign_gate) for task in job.pending())
        return queue.name, job.min_available, *sorted(job.role_minimum.items()), *job.counts, frozenset(waiting.items())


def could_be_placed(session: Session, queue: Queue, job: Job) -> bool:
    """Return True if a group that is not admitted would have its minimum on the cluster now; changes nothing."""
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
