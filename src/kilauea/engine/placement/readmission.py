"""Precedence at the admission, once groups have given theirs back: what could be placed does not wait for what cannot.

A group that gave its admission back is admitted again in vain when its time has come, for it may be that evictions make
room for it. But then it holds quota for a minute again, and where several take turns, a group that could start at once
would wait for all of them. So those steps back until the others had their turn, and with them the groups of the same
queue that have all their pods and could not be placed either. Groups of a lower priority do not pass them.

This knows one cycle; `kilauea.engine.placement.admission_backoff` has the rules over several.
"""

from __future__ import annotations

import sys

from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement.admission_backoff import CODE, could_be_placed
from kilauea.engine.session import Session

TRIALS = 100
"""Groups that are refused by votes, and looked at for one that could be placed."""

STEPS_BACK = Refusal(CODE, "cannot be placed now; groups that could be are admitted before it")


class Precedence:
    """The groups that step back, in one cycle.

    Args:
        session: the session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._later: list[tuple[Queue, Job]] = []
        self._refused: list[tuple[Queue, Job]] = []
        self._least: dict[str, int] = {}
        """The priority, in each queue, that a group must have that does not step back."""
        self._least_queue = -sys.maxsize
        """The priority that its queue must have."""
        self._tried: dict[str, int] = {}
        """Of the groups of each queue that gave their admission back: the highest priority."""
        self._holding = False
        """True if a group is admitted in vain, which gives its admission back within a minute."""
        for key, attempt in session.backoff.attempts.items():
            job = session.state.jobs.get(key)
            if job is None or job.creation != attempt.creation:
                continue
            if job.is_pending and attempt.until:
                self._tried[job.queue] = max(self._tried.get(job.queue, job.priority), job.priority)
            self._holding |= job.phase == INQUEUE and not attempt.until

    def steps_back(self, queue: Queue, job: Job) -> bool:
        """Return True if a group, whose turn it is, lets others go first."""
        if job.min_resources is None or (job.queue not in self._tried and not self._later):
            return False
        back = self._is_below(queue, job) or (
            job.priority <= self._tried.get(job.queue, job.priority - 1)
            and self._session.job_valid(job) is None
            and self._session.job_enqueueable(job) is None
            and not could_be_placed(self._session, queue, job)
        )
        if back:
            self._later.append((queue, job))
            self._least[queue.name] = max(self._least.get(queue.name, job.priority), job.priority)
            self._least_queue = max(self._least_queue, queue.priority)
        return back

    def _is_below(self, queue: Queue, job: Job) -> bool:
        """Return True if one that stepped back has a higher priority, in the same queue, or its queue has."""
        return queue.priority < self._least_queue or job.priority < self._least.get(queue.name, job.priority)

    def refused(self, queue: Queue, job: Job) -> None:
        """A group was refused by votes."""
        if self._tried:
            self._refused.append((queue, job))

    def later(self) -> list[tuple[Queue, Job]]:
        """The groups that stepped back, in order, if they may be admitted now.

        They may not while a group that could be placed waits, and others are about to give back what it lacks.
        """
        if not self._later or not self._holding:
            return self._later
        if not any(could_be_placed(self._session, queue, job) for queue, job in self._refused[:TRIALS]):
            return self._later
        self._session.report.refusals.update((job.key, STEPS_BACK) for _, job in self._later)
        return []
