"""Order of readmission after groups have released their admission: those that fit do not wait for those that do not.

A group that released its admission is admitted again when its backoff expires, because evictions may free resources for
it. If it still does not fit, it holds quota for another minute, and with several such groups, a group that could start
at once would wait for all of them. So these groups step back until the others have had their turn. So do groups that
have all of their pods but could not be placed either: of the same queue, and of queues after or beside it, which may
share a quota. Groups of lower priority do not overtake them until they have waited for a while.

This module handles one cycle; `kilauea.engine.placement.admission_backoff` has the rules over several cycles.
"""

from __future__ import annotations

import sys

from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement.admission_backoff import CODE, FRUITLESS
from kilauea.engine.placement.trials import Trials
from kilauea.engine.session import Session

PATIENCE = 2 * FRUITLESS
"""Microseconds for which a group that could be placed gives precedence to groups of higher priority."""

STEPS_BACK = Refusal(CODE, "cannot be placed now; groups that could be are admitted before it")


class Precedence:
    """The groups that step back, in one cycle.

    Args:
        session: the session.
        trials: determines which groups could be placed.
    """

    def __init__(self, session: Session, trials: Trials) -> None:
        self._session = session
        self._trials = trials
        self._later: list[tuple[Queue, Job]] = []
        self._refused: list[tuple[Queue, Job]] = []
        self._least: dict[str, int] = {}
        """The minimum priority of groups that do not step back, by queue."""
        self._least_queue = -sys.maxsize
        """The minimum priority of their queues."""
        self._tried: dict[str, int] = {}
        """The highest priority of groups that released their admission, by queue."""
        self._tried_queue = -sys.maxsize
        """The highest priority of their queues."""
        self._holding = False
        """True if an admitted group does not fit, and will release its admission within a minute."""
        for key, attempt in session.backoff.attempts.items():
            job = session.state.jobs.get(key)
            if job is None or job.creation != attempt.creation:
                continue
            if job.is_pending and attempt.until and job.queue in session.queues:
                self._tried[job.queue] = max(self._tried.get(job.queue, job.priority), job.priority)
                self._tried_queue = max(self._tried_queue, session.queues[job.queue].priority)
            self._holding |= job.phase == INQUEUE and not attempt.until

    def steps_back(self, queue: Queue, job: Job) -> bool:
        """Return True if a group gives precedence to others in its turn."""
        if job.min_resources is None or not self._tried:
            return False
        below = self._is_below(queue, job)
        back = (below or self._comes_after_one_tried(queue, job)) and not self._goes_first(queue, job, below=below)
        if back:
            self._later.append((queue, job))
            self._least[queue.name] = max(self._least.get(queue.name, job.priority), job.priority)
            self._least_queue = max(self._least_queue, queue.priority)
        return back

    def _comes_after_one_tried(self, queue: Queue, job: Job) -> bool:
        """Return True if a group, or the queue of a group, of at least this priority released its admission."""
        if queue.name in self._tried:
            return job.priority <= self._tried[queue.name]
        return queue.priority <= self._tried_queue

    def _is_below(self, queue: Queue, job: Job) -> bool:
        """Return True if a group that stepped back has a higher priority in the same queue, or a higher queue."""
        return queue.priority < self._least_queue or job.priority < self._least.get(queue.name, job.priority)

    def _goes_first(self, queue: Queue, job: Job, *, below: bool) -> bool:
        """Return True if a group could be placed and has waited for groups above it, or if they cannot go now."""
        if self._session.job_valid(job) is not None or self._session.job_enqueueable(job) is not None:
            return not below
        fits = self._trials.could_be_placed(queue, job)
        return fits and (not below or self._trials.known_for(job) >= PATIENCE)

    def refused(self, queue: Queue, job: Job) -> None:
        """Record that votes rejected a group."""
        if self._tried:
            self._refused.append((queue, job))

    def later(self) -> list[tuple[Queue, Job]]:
        """Return the groups that stepped back, in order, if they may be admitted now.

        They may not while a group that could be placed waits for quota that others are about to release. If trials take
        several cycles, they continue while quota is held, so that their results are known when it is free.
        """
        many = self._trials.take_several_cycles(len(self._refused))
        if not self._holding or not (self._later or many):
            return self._later
        if not any(self._trials.could_be_placed(queue, job) for queue, job in self._refused):
            return self._later
        self._session.report.refusals.update((job.key, STEPS_BACK) for _, job in self._later)
        return []
