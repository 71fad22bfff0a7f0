"""Pods of a job that have ended, each counted once.

A pod carries a finalizer, so that it cannot vanish uncounted. When it has ended, its uid is written into the job's
status; then the finalizer is taken away; and when that is seen, the uid gives way to a number. Whatever is interrupted
can go on at any of these points. Pods with an index that succeed are counted by the indexes written into the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.ports import Obj, Patch, key_of
from kilauea.controllers.jobs.indexes import format_indexes, index_of, parse_indexes
from kilauea.controllers.kinds import PODS
from kilauea.controllers.objects import is_going, spec_of, status_of, uid_of
from kilauea.controllers.pods import is_finished, phase_of

TRACKING = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    """Whether a pod waits to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def untracked(pod: Obj) -> Patch:
    """Lets a pod go that has been counted."""
    gone = {"$deleteFromPrimitiveList/finalizers": [TRACKING], "uid": uid_of(pod)}
    return Patch(PODS, key_of(pod), {"metadata": gone}, "strategic")


def is_indexed(job: Obj) -> bool:
    """Whether each pod has a number of its own."""
    return bool(spec_of(job).get("completionMode") == "Indexed")


def replaces_only_failed(job: Obj) -> bool:
    """Whether a pod is replaced only once it has ended, not as soon as it is being deleted."""
    return bool(spec_of(job).get("podReplacementPolicy") == "Failed")


@dataclass
class Count:
    """What is known about the pods of a job that have ended.

    Attributes:
        succeeded: number, without those in `uncounted`.
        failed: number, without those in `uncounted`.
        uncounted: uids of pods that have ended and are not in the numbers yet, by how they ended.
        completed: indexes that have succeeded.
        to_let_go: pods whose finalizer can be taken away once the status is written.
    """

    succeeded: int
    failed: int
    uncounted: dict[str, list[str]]
    completed: set[int] = field(default_factory=set)
    to_let_go: list[Obj] = field(default_factory=list)

    @property
    def all_succeeded(self) -> int:
        """Pods (or indexes) that have succeeded."""
        return self.succeeded + len(self.uncounted["succeeded"])

    @property
    def all_failed(self) -> int:
        """Pods that have failed."""
        return self.failed + len(self.uncounted["failed"])

    @property
    def is_settled(self) -> bool:
        """Whether everything is in the numbers."""
        return not any(self.uncounted.values())


def count(job: Obj, pods: Sequence[Obj], *, over: bool) -> Count:
    """Count the pods that have ended since the status was written.

    Args:
        job: with its status.
        pods: of the job.
        over: whether pods that are being deleted count as failed in any case, as the job is over.
    """
    status = status_of(job)
    found = _written(status, {uid_of(pod) for pod in pods if is_tracked(pod)})
    indexed, completions = is_indexed(job), spec_of(job).get("completions") or 0
    if indexed:
        found.completed = parse_indexes(status.get("completedIndexes") or "", completions)
    known = {uid for uids in found.uncounted.values() for uid in uids}
    for pod in pods:
        if not is_tracked(pod):
            continue
        if phase_of(pod) == "Succeeded":
            index = index_of(pod)
            if not indexed:
                _note(found.uncounted["succeeded"], pod, known)
            elif index is not None and index < completions:
                found.completed.add(index)
        elif _has_failed(job, pod, over=over):
            _note(found.uncounted["failed"], pod, known)
        else:
            continue
        found.to_let_go.append(pod)
    if indexed:
        found.succeeded = len(found.completed)
    return found


def _written(status: Any, tracked: set[str]) -> Count:
    """What the status says; uids whose pods have been let go become numbers."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    sums, kept = {}, {}
    for how in ("succeeded", "failed"):
        uids = uncounted.get(how) or []
        kept[how] = [uid for uid in uids if uid in tracked]
        sums[how] = int(status.get(how) or 0) + len(uids) - len(kept[how])
    return Count(sums["succeeded"], sums["failed"], kept)


def _note(uids: list[str], pod: Obj, known: Iterable[str]) -> None:
    if uid_of(pod) not in known:
        uids.append(uid_of(pod))


def _has_failed(job: Obj, pod: Obj, *, over: bool) -> bool:
    """Whether a pod that has not succeeded counts as failed."""
    if phase_of(pod) == "Failed":
        return True
    return is_going(pod) and (over or is_going(job) or not replaces_only_failed(job)) and not is_finished(pod)


def counted_status(job: Obj, found: Count) -> dict[str, Any]:
    """The fields of the status that say the count; None stands for absent."""
    uids = {how: found.uncounted[how] or None for how in ("succeeded", "failed")}
    before = status_of(job).get("uncountedTerminatedPods")
    same = before is not None and all(before.get(how) == uids[how] for how in uids)
    return {
        "succeeded": found.succeeded or None,
        "failed": found.failed or None,
        "uncountedTerminatedPods": before if same else uids,
        **({"completedIndexes": format_indexes(found.completed) or None} if is_indexed(job) else {}),
    }
