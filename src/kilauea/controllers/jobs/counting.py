"""Pods of a job that have ended, each counted once.

A pod has a finalizer, so that it cannot be deleted uncounted. When it has ended, its UID is written to the job's
status; then the finalizer is removed; and when that is observed, the UID is replaced by an increased number. After an
interruption, this continues at any of these points. Indexed pods that succeed are counted by the indexes in the status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import Obj, Patch, key_of
from kilauea.controllers.jobs.failure_policy import failure_effect
from kilauea.controllers.jobs.index_failures import fails_index, last_of_each, limit_of
from kilauea.controllers.jobs.indexes import format_indexes, index_of, parse_indexes
from kilauea.controllers.objects import is_going, is_true, spec_of, status_of, uid_of
from kilauea.controllers.pods import is_finished, phase_of

TRACKING = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    """Return True if a pod still has to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def untracked(pod: Obj) -> Patch:
    """Release a counted pod."""
    gone = {"$deleteFromPrimitiveList/finalizers": [TRACKING], "uid": uid_of(pod)}
    return Patch(PODS, key_of(pod), {"metadata": gone}, "strategic")


def is_indexed(job: Obj) -> bool:
    """Return True if each pod has an index."""
    return bool(spec_of(job).get("completionMode") == "Indexed")


def replaces_only_failed(job: Obj) -> bool:
    """Return True if a pod is replaced only once it has ended, not as soon as it is being deleted."""
    return bool(spec_of(job).get("podReplacementPolicy") == "Failed")


@dataclass
class Count:
    """Counts of the pods of a job that have ended.

    Attributes:
        succeeded: number, without those in `uncounted`.
        failed: number, without those in `uncounted`.
        uncounted: UIDs of ended pods that are not in the numbers yet, by result.
        completed: indexes that have succeeded.
        failed_indexes: indexes that are not retried.
        last_failed: by index, the last failed pod, which will be replaced; not in the numbers yet.
        fatal: the reason why the job fails at once; empty if it does not.
        to_let_go: pods whose finalizer can be removed once the status is written.
    """

    succeeded: int
    failed: int
    uncounted: dict[str, list[str]]
    completed: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    last_failed: dict[int, Obj] = field(default_factory=dict)
    fatal: str = ""
    to_let_go: list[Obj] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._noted = {uid for uids in self.uncounted.values() for uid in uids}

    @property
    def all_succeeded(self) -> int:
        """Pods (or indexes) that have succeeded."""
        return self.succeeded + len(self.uncounted["succeeded"])

    @property
    def all_failed(self) -> int:
        """Pods that have failed."""
        return self.failed + len(self.uncounted["failed"]) + len(self.last_failed)

    @property
    def done_indexes(self) -> set[int]:
        """Indexes that do not need a pod any more."""
        return self.completed | self.failed_indexes

    def note(self, how: str, pod: Obj) -> None:
        """Count a pod, unless it is already counted."""
        uid = uid_of(pod)
        if uid not in self._noted:
            self._noted.add(uid)
            self.uncounted[how].append(uid)

    @property
    def is_settled(self) -> bool:
        """True if every ended pod is in the numbers."""
        return not any(self.uncounted.values())


def count(job: Obj, pods: Sequence[Obj], *, over: bool) -> Count:
    """Count the pods that have ended since the status was written.

    Args:
        job: the job with its status.
        pods: its pods.
        over: True if the job is over, so pods that are being deleted count as failed.
    """
    status = status_of(job)
    found = _written(status, {uid_of(pod) for pod in pods if is_tracked(pod)})
    indexed, completions = is_indexed(job), spec_of(job).get("completions") or 0
    if indexed:
        found.completed = parse_indexes(status.get("completedIndexes") or "", completions)
        found.failed_indexes = parse_indexes(status.get("failedIndexes") or "", completions)
    _take_in_failures(job, pods, found, over=over)
    for pod in pods:
        if is_tracked(pod) and phase_of(pod) == "Succeeded":
            index = index_of(pod)
            if not indexed:
                found.note("succeeded", pod)
            elif index is not None and index < completions:
                found.completed.add(index)
            found.to_let_go.append(pod)
    if indexed:
        found.succeeded = len(found.completed)
    return found


def _take_in_failures(job: Obj, pods: Sequence[Obj], found: Count, *, over: bool) -> None:
    """Count failed pods, by their effect on the job."""
    failed = [pod for pod in pods if phase_of(pod) != "Succeeded" and _has_failed(job, pod, over=over)]
    meanings = {uid_of(pod): failure_effect(job, pod) for pod in failed}
    found.fatal = next((each.message for each in meanings.values() if each.action == "FailJob"), "")
    if limit_of(job) is not None:
        found.failed_indexes |= {
            index for pod in failed if fails_index(job, pod) and (index := index_of(pod)) is not None
        }
        if not over and not is_going(job):
            others = [pod for pod in pods if uid_of(pod) not in meanings]
            last = last_of_each(filter(is_tracked, failed), others)
            found.last_failed = {index: pod for index, pod in last.items() if index not in found.failed_indexes}
    done = is_true(job, "SuccessCriteriaMet")  # pods that a job no longer needs have not failed it
    waiting = {uid_of(pod) for pod in found.last_failed.values()}
    for pod in failed:
        if is_tracked(pod) and uid_of(pod) not in waiting:
            spared = done and phase_of(pod) != "Failed"
            if meanings[uid_of(pod)].action != "Ignore" and not spared:
                found.note("failed", pod)
            found.to_let_go.append(pod)


def _written(status: Any, tracked: set[str]) -> Count:
    """Read the counts from the status; UIDs of released pods become numbers."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    sums, kept = {}, {}
    for how in ("succeeded", "failed"):
        uids = uncounted.get(how) or []
        kept[how] = [uid for uid in uids if uid in tracked]
        sums[how] = int(status.get(how) or 0) + len(uids) - len(kept[how])
    return Count(sums["succeeded"], sums["failed"], kept)


def _has_failed(job: Obj, pod: Obj, *, over: bool) -> bool:
    """Return True if a pod that has not succeeded counts as failed."""
    if phase_of(pod) == "Failed":
        return True
    return is_going(pod) and (over or is_going(job) or not replaces_only_failed(job)) and not is_finished(pod)


def counted_status(job: Obj, found: Count) -> dict[str, Any]:
    """The status fields for the counts; None removes a field."""
    uids = {how: found.uncounted[how] or None for how in ("succeeded", "failed")}
    before = status_of(job).get("uncountedTerminatedPods")
    same = before is not None and all(before.get(how) == uids[how] for how in uids)
    return {
        "succeeded": found.succeeded or None,
        "failed": found.failed or None,
        "uncountedTerminatedPods": before if same else uids,
        **({"completedIndexes": format_indexes(found.completed) or None} if is_indexed(job) else {}),
        **({"failedIndexes": format_indexes(found.failed_indexes)} if limit_of(job) is not None else {}),
    }
