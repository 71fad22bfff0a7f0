"""The controller of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import JOBS, PODS
from kilauea.api.ports import Delete, Interest, Key, Obj, Operation, Outcome, Record, Steps, Together, View, no_keys
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.jobs.counting import (
    count,
    counted_status,
    is_indexed,
    is_tracked,
    replaces_only_failed,
    untracked,
)
from kilauea.controllers.jobs.ending import (
    JobEnd,
    condition,
    deadline_in,
    ended,
    ending,
    expiry_in,
    with_condition,
)
from kilauea.controllers.jobs.index_failures import limit_of
from kilauea.controllers.jobs.indexes import index_of
from kilauea.controllers.jobs.scaling import new_pods, pause_left, pauses_left, removed, surplus, wanted_active
from kilauea.controllers.objects import (
    NOTHING,
    controller_of,
    dependents,
    is_going,
    is_true,
    own_key,
    owned_by,
    spec_of,
    status_of,
    status_patch,
    uid_of,
)
from kilauea.controllers.pods import claim, is_active, is_finished, is_ready

TRACKED = "tracked-by-job"
BURST = 500
"""Number of pods that are created in one go."""


def tracked_by(pod: Obj) -> str:
    """An index: namespace and name of the job that has to count a pod."""
    owner = controller_of(pod) if is_tracked(pod) else None
    return f"{pod['metadata']['namespace']}/{owner['name']}" if owner is not None else ""


class JobController:
    """Runs jobs to their end."""

    name = "job-controller"
    interests = (
        Interest(JOBS, own_key),
        dependents(PODS, JOBS),
        Interest(PODS, no_keys, indexes={TRACKED: tracked_by}),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Steps:
        """Count pods that have ended, create or delete pods, and update the status."""
        job = view.get(JOBS, key)
        strangers = [pod for pod in view.indexed(PODS, TRACKED, str(key)) if not _belongs(pod, job)]
        operations: list[Operation] = [untracked(pod) for pod in strangers]
        if job is None:
            return Outcome(operations)
        if spec_of(job).get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
            return NOTHING
        if ended(job) is not None:
            return _after_the_end(view, job, operations, now)
        pods, claims = yield from claim(view, JOBS, job)
        look = Reconciliation(view, job, pods, claims, now)
        return Outcome([*operations, *look.operations()], look.again)


def _belongs(pod: Obj, job: Obj | None) -> bool:
    owner = controller_of(pod)
    return job is not None and owner is not None and owner["uid"] == uid_of(job)


def _after_the_end(view: View, job: Obj, operations: list[Operation], now: int) -> Outcome:
    """Release pods that ended late, and delete the job when its time to live is over."""
    operations += [untracked(pod) for pod in owned_by(view, PODS, job) if is_tracked(pod)]
    left = expiry_in(job, now)
    if left == 0:
        key = Key(job["metadata"]["namespace"], job["metadata"]["name"])
        return Outcome([*operations, Delete(JOBS, key, uid_of(job), propagation="Foreground")])
    return Outcome(operations, left)


class Reconciliation:
    """One reconciliation of an unfinished job.

    Attributes:
        again: seconds until the next reconciliation.
    """

    def __init__(self, view: View, job: Obj, pods: Sequence[Obj], claims: Sequence[Operation], now: int) -> None:
        self._view, self._job, self._now = view, job, now
        self.again: float | None = None
        self._pods, self._claims = pods, claims
        self._active = [pod for pod in pods if is_active(pod)]
        self._going = [pod for pod in pods if is_going(pod) and not is_finished(pod)]
        over = is_true(job, "FailureTarget") or is_true(job, "SuccessCriteriaMet")
        self._count = count(job, pods, over=over)
        self._conditions: list[Any] = list(status_of(job).get("conditions") or ())
        self._status: dict[str, Any] = {}
        self._records: list[Record] = []

    def operations(self) -> list[Operation]:
        """Return operations: first the status, so that no pod is released uncounted, then pods."""
        job = self._job
        found = ending(job, self._count, self._active, self._now)
        if is_going(job):
            doing: list[Operation] = []
        elif found is not None:
            doing = self._end(found)
        elif spec_of(job).get("suspend"):
            doing = self._suspend()
        else:
            doing = self._go_on()
        deadline = deadline_in(job, self._now)
        if deadline:
            self.again = deadline if self.again is None else min(self.again, deadline)
        letting_go = [Together([[untracked(pod)] for pod in self._count.to_let_go])] if self._count.to_let_go else []
        return [*self._claims, *self._written(), *letting_go, *doing, *self._records]

    def _written(self) -> Sequence[Operation]:
        status: dict[str, Any] = {
            "active": len(self._active) or None,
            "ready": sum(map(is_ready, self._active)),
            "terminating": len(self._going),
            **counted_status(self._job, self._count),
            **self._status,
        }
        if self._conditions:
            status["conditions"] = self._conditions
        return status_patch(JOBS, self._job, status, safe=True)

    def _say(self, type: str, status: str, reason: str, message: str) -> bool:
        """Set a condition; returns True if it is new."""
        before = self._conditions
        self._conditions = with_condition(before, condition(type, status, reason, message, self._now))
        return self._conditions != before

    def _end(self, found: JobEnd) -> list[Operation]:
        """Delete running pods; once everything is counted, the job is finished."""
        self._say(found.target, "True", found.reason, found.message)
        left = self._active or self._going or self._count.to_let_go or self._count.last_failed
        if left or not self._count.is_settled:
            return removed(self._job, self._active, counted=True)
        self._say(found.end, "True", found.reason, found.message)
        if found.end == "Complete":
            self._status["completionTime"] = format_time(self._now - self._now % SECOND)
            self._records.append(Record(self._job, "Normal", "Completed", "Job completed"))
        else:
            self._records.append(Record(self._job, "Warning", found.reason, found.message))
        return []

    def _suspend(self) -> list[Operation]:
        if self._say("Suspended", "True", "JobSuspended", "Job suspended"):
            self._records.append(Record(self._job, "Normal", "Suspended", "Job suspended"))
        self._status["startTime"] = None
        return removed(self._job, self._active, counted=False)

    def _go_on(self) -> list[Operation]:
        """Create or delete pods to reach the desired number."""
        job, stamp = self._job, format_time(self._now - self._now % SECOND)
        if not status_of(job).get("startTime"):
            self._status["startTime"] = stamp
        if is_true(job, "Suspended") and self._say("Suspended", "False", "JobResumed", "Job resumed"):
            self._records.append(Record(job, "Normal", "Resumed", "Job resumed"))
        held = len(self._active) + (len(self._going) if replaces_only_failed(job) else 0)
        wanted = wanted_active(job, self._count, held)
        gone = surplus(job, self._active, max(0, held - wanted), self._count.done_indexes)
        missing = wanted - held + len(gone)
        if missing <= 0 or gone:
            return removed(job, gone, counted=False)
        last_failed, waiting = self._count.last_failed, self._pauses()
        if waiting is None:
            return []
        if missing > BURST:
            self.again = 0.0
        return new_pods(self._view, job, min(missing, BURST), self._taken() | waiting, last_failed)

    def _pauses(self) -> set[int] | None:
        """Indexes that have failed and are not retried yet; None if pods may not be created yet."""
        if limit_of(self._job) is not None:
            pauses = pauses_left(self._job, self._count.last_failed, self._now)
            self.again = min(pauses.values(), default=None)
            return set(pauses)
        self.again = pause_left(self._pods, self._now) or None
        return set() if self.again is None else None

    def _taken(self) -> set[int]:
        """Indexes that have a pod or do not need one any more."""
        if not is_indexed(self._job):
            return set()
        held = [*self._active, *self._going] if replaces_only_failed(self._job) else self._active
        return self._count.done_indexes | {index for index in map(index_of, held) if index is not None}
