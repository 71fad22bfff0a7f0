"""Admission backoff: an admitted group that cannot be placed releases its admission if others wait for the quota.

An admitted group holds quota. If none of its pods is placed for a while, and others wait to be admitted, it becomes
pending again. It is admitted again as soon as it could be placed, which each cycle tries on the current cluster.
Otherwise, it is admitted again after a backoff that doubles with each failure: evictions, or changes that a trial
cannot predict, may then free its resources.

A group whose pods do not all exist yet keeps its admission, because its controller may be slow. So does a group without
`minResources`, which does not hold quota.

The state of groups is a value: it is an argument of a cycle, and the plan contains the next one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilauea.api.times import SECOND, format_time
from kilauea.engine.extension import Refusal
from kilauea.engine.model import status
from kilauea.engine.model.attempts import AdmissionBackoff, Attempt
from kilauea.engine.model.jobs import INQUEUE, PENDING, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement.trials import Trials
from kilauea.engine.plan import GroupOutcome
from kilauea.engine.session import Session

FRUITLESS = 60 * SECOND
"""Microseconds for which an admitted group may hold its quota without being placed."""
FIRST, LONGEST = 30 * SECOND, 900 * SECOND
"""Microseconds of the first and the longest backoff."""
CODE = "AdmissionGivenBack"
PLACED = ("Binding", "Bound", "Running", "Releasing", "Pipelined")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state after a cycle, and the groups whose admission is withdrawn."""

    backoff: AdmissionBackoff
    given_back: Mapping[str, GroupOutcome]


def backoff_refusal(session: Session, trials: Trials, queue: Queue, job: Job) -> Refusal | None:
    """Return the reason why a group is not admitted now; None if it may be."""
    backoff = session.backoff
    attempt = backoff.attempts.get(job.key)
    if attempt is None or attempt.creation != job.creation or attempt.until <= backoff.moment:
        return None
    return None if trials.could_be_placed(queue, job) else _refusal(attempt)


def after_cycle(backoff: AdmissionBackoff, session: Session, groups: Mapping[str, GroupOutcome]) -> Outcome:
    """Return the state after a cycle that ends with these outcomes of groups."""
    if "enqueue" not in session.conf.actions:
        return Outcome(backoff, {})
    jobs = session.state.jobs
    fruitless = {key: outcome for key, outcome in groups.items() if is_fruitless(outcome, jobs.get(key))}
    attempts = {key: _again(backoff, jobs[key]) for key in fruitless}
    attempts |= {
        key: attempt
        for key, attempt in backoff.attempts.items()
        if attempt.until and key not in fruitless
        if (job := jobs.get(key)) is not None and job.creation == attempt.creation and job.is_pending
    }
    back: dict[str, GroupOutcome] = {}
    for key in sorted(fruitless) if _others_wait(groups.values()) else ():
        attempt = attempts[key]
        if backoff.moment - attempt.since >= FRUITLESS:
            pause = min(FIRST << attempt.times, LONGEST)
            attempts[key] = attempt = dataclasses.replace(
                attempt, times=attempt.times + 1, until=backoff.moment + pause, told=session.now + pause
            )
            back[key] = dataclasses.replace(fruitless[key], phase=PENDING, condition=None, refusal=_refusal(attempt))
    return Outcome(dataclasses.replace(backoff, attempts=attempts), back)


def _again(backoff: AdmissionBackoff, job: Job) -> Attempt:
    """Return the attempt of an admitted group that is not placed: the same, or a new one that begins now."""
    known = backoff.attempts.get(job.key)
    if known is None or known.creation != job.creation:
        return Attempt(job.creation, backoff.moment)
    return known if not known.until else Attempt(job.creation, backoff.moment, known.times)


def _refusal(attempt: Attempt) -> Refusal:
    """Return the reason why a group is not admitted."""
    waited = f"could not be placed within {FRUITLESS // SECOND} s of its admission, which others waited for"
    at = format_time(attempt.told // SECOND * SECOND)
    return Refusal(CODE, f"{waited}; it is admitted again when it could be placed, and tried again at {at}")


def is_fruitless(outcome: GroupOutcome, job: Job | None) -> bool:
    """Return True if a group is admitted, holds quota, has all of its pods, and none of them is placed."""
    if job is None or job.min_resources is None or outcome.phase != INQUEUE or not job.tasks:
        return False
    if any(outcome.counts.get(name) for name in PLACED):
        return False
    ended = sum(outcome.counts.get(name, 0) for name in ("Succeeded", "Failed")) == len(job.tasks)
    return ended or (len(job.tasks) >= job.min_available and job.roles_have(range(len(status.NAMES))))


def _others_wait(groups: Iterable[GroupOutcome]) -> bool:
    """Return True if a group waits to be admitted, other than groups whose admission was just withdrawn."""
    return any(o.phase == PENDING and o.refusal is not None and o.refusal.code != CODE for o in groups)
