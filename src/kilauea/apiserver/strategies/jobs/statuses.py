"""The rules for the `status` that a controller writes to a job.

External controllers may manage jobs, so clients rely on these rules: a finished job stays finished, and counts and
indexes are consistent. Most rules are checked only if the fields that they concern change, because a change of the
specification may violate them until the controller has processed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kilauea.apiserver.fields import check_not_negative, duplicate, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.jobs.indexes import INDEXED, count_indexes, shared_index

COMPLETE, FAILED, FAILING, SUCCEEDED, SUSPENDED = (
    "Complete",
    "Failed",
    "FailureTarget",
    "SuccessCriteriaMet",
    "Suspended",
)
_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_UNCOUNTED = ("succeeded", "failed")


class _Status:
    """The status of a job, with its parts in comparable form."""

    def __init__(self, job: Object) -> None:
        self.fields: Object = job.get("status") or {}
        self._states = {(each.get("type"), each.get("status")) for each in self.fields.get("conditions") or []}
        self.finished = self.has(COMPLETE) or self.has(FAILED)
        self.uncounted: Object = self.fields.get("uncountedTerminatedPods") or {}

    def has(self, kind: str, state: str = "True") -> bool:
        """Return True if a condition has this status."""
        return (kind, state) in self._states

    def count(self, name: str) -> int:
        """Return a count; 0 if missing."""
        return int(self.fields.get(name) or 0)

    def time(self, name: str) -> datetime | None:
        """Return a time; None if missing."""
        text = self.fields.get(name)
        return datetime.fromisoformat(text) if text else None


def check_job_status(job: Object, old: Object) -> list[Cause]:
    """Return the errors in the status of an updated job.

    Args:
        job: the job.
        old: the previous job.
    """
    spec, status, before = spec_of(job), _Status(job), _Status(old)
    return [
        *_check_counts(status),
        *_check_ends(status, before),
        *_check_times(status, before),
        *_check_targets(status, before),
        *_check_finished(spec, status, before),
        *_check_indexes(spec, status, before),
        *_check_pods(status, before),
        *_check_success(spec, status),
        *_check_kept(spec, status, before),
    ]


def _conditions(words: str) -> Cause:
    return Cause("status.conditions", "FieldValueInvalid", f"Invalid value: {words}")


def _check_counts(status: _Status) -> Iterator[Cause]:
    """Check that counts are not negative, and that pods are listed once."""
    for name in _COUNTS:
        yield from check_not_negative(f"status.{name}", status.fields.get(name))
    seen: set[str] = set()
    for part in _UNCOUNTED:
        for number, uid in enumerate(status.uncounted.get(part) or []):
            path = f"status.uncountedTerminatedPods.{part}[{number}]"
            if not uid:
                yield invalid_value(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def _check_ends(status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that a complete job has not failed."""
    completes = status.has(COMPLETE) != before.has(COMPLETE)
    for kind, words in ((FAILED, "Failed=true"), (FAILING, "FailureTarget=true")):
        changes = completes or status.has(kind) != before.has(kind)
        if changes and status.has(COMPLETE) and status.has(kind):
            yield _conditions(f"cannot set Complete=True and {words} conditions")


def _check_times(status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that a job has a completion time if and only if it is complete."""
    path, end, start = "status.completionTime", status.time("completionTime"), status.time("startTime")
    ends = end != before.time("completionTime")
    if ends or status.has(COMPLETE) != before.has(COMPLETE):
        if end is not None and not status.has(COMPLETE):
            message = "cannot set completionTime when there is no Complete=True condition"
            yield invalid_value(path, status.fields["completionTime"], message)
        if end is None and status.has(COMPLETE):
            yield required(path, "completionTime is required for Complete jobs")
    changes = ends or start != before.time("startTime")
    if changes and start is not None and end is not None and end < start:
        yield invalid_value(path, status.fields["completionTime"], "must be equal to or after `startTime`")


def _check_targets(status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that FailureTarget precedes Failed, and that SuccessCriteriaMet precedes Complete."""
    fails = status.has(FAILED) != before.has(FAILED) or _changes(status, before, "failedIndexes")
    if fails and status.has(FAILED) and not status.has(FAILING):
        yield _conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    changes = any(status.has(kind) != before.has(kind) for kind in (COMPLETE, SUCCEEDED))
    if changes and status.has(COMPLETE) and not status.has(SUCCEEDED):
        yield _conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _check_finished(spec: Object, status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that a finished job has started and has no pods left."""
    if not status.finished:
        return
    finishes = not before.finished
    if (finishes or status.count("active") != before.count("active")) and status.count("active") > 0:
        yield invalid_value("status.active", status.count("active"), "active>0 is invalid for finished job")
    start = status.time("startTime")
    is_empty = spec.get("suspend") is True and spec.get("completions") == 0
    if (finishes or start != before.time("startTime")) and not is_empty and start is None:
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = {part.capitalize(): status.uncounted.get(part) or None for part in _UNCOUNTED}
    if (finishes or status.uncounted != before.uncounted) and any(uncounted.values()):
        yield invalid_value("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")


def _check_indexes(spec: Object, status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that completed and failed indexes exist, are in order, and are disjoint."""
    completed, failed = status.fields.get("completedIndexes") or "", status.fields.get("failedIndexes")
    completes = completed != (before.fields.get("completedIndexes") or "")
    fails = _changes(status, before, "failedIndexes")
    completions, limit = spec.get("completions"), spec.get("backoffLimitPerIndex")
    wanted = (
        ("completedIndexes", completed, completes and completions is not None),
        ("failedIndexes", failed, fails and completions is not None and limit is not None),
    )
    for name, text, is_checked in wanted:
        try:
            count_indexes((is_checked and text) or "", completions or 0)
        except ValueError as error:
            yield invalid_value(f"status.{name}", text, f"error parsing {name}: {error}")
    if completes and completed and spec.get("completionMode") != INDEXED:
        message = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid_value("status.completedIndexes", completed, message)
    if fails and failed is not None and limit is None:
        message = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid_value("status.failedIndexes", failed, message)
    if (fails or completes) and completions is not None and completed and failed:
        shared = shared_index(completed, failed, completions)
        if shared is not None:
            message = f"failedIndexes and completedIndexes overlap at index: {shared}"
            yield invalid_value("status.failedIndexes", failed, message)


def _check_pods(status: _Status, before: _Status) -> Iterator[Cause]:
    """Check the counts of terminating and ready pods."""
    ending = status.count("terminating")
    changes = status.finished != before.finished or _changes(status, before, "terminating")
    if changes and ending > 0 and status.finished:
        yield invalid_value("status.terminating", ending, "terminating>0 is invalid for finished job")
    ready, active = status.count("ready"), status.count("active")
    if (_changes(status, before, "ready") or active != before.count("active")) and ready > active:
        yield invalid_value("status.ready", ready, "cannot set more ready pods than active")


def _check_success(spec: Object, status: _Status) -> Iterator[Cause]:
    """Check that a job that has met its success criteria does not fail."""
    if status.has(SUCCEEDED) and status.has(FAILED):
        yield _conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if status.has(SUCCEEDED) and status.has(FAILING):
        yield _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if spec.get("successPolicy") is not None and status.has(COMPLETE) and not status.has(SUCCEEDED):
        yield _conditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _check_kept(spec: Object, status: _Status, before: _Status) -> Iterator[Cause]:
    """Check that conditions, counts and times stay once set."""
    for kind in (FAILED, COMPLETE, FAILING):
        if before.has(kind) and not status.has(kind):
            yield _conditions(f"cannot disable the terminal {kind}=True condition")
    may_shrink = spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", "succeeded"):
        if status.count(name) < before.count(name) and not (name == "succeeded" and may_shrink):
            yield invalid_value(f"status.{name}", status.count(name), f"cannot decrease the {name} counter")
    end, earlier = status.time("completionTime"), before.time("completionTime")
    if end is not None and earlier is not None and end != earlier:
        yield invalid_value("status.completionTime", status.fields["completionTime"], "field is immutable")
    resumes = before.has(SUSPENDED) and status.has(SUSPENDED, "False")
    changes = before.time("startTime") is not None and status.time("startTime") != before.time("startTime")
    if changes and not resumes and not spec.get("suspend"):
        message = "field is immutable for unsuspended job once set"
        yield invalid_value("status.startTime", status.fields.get("startTime"), message)
    if before.has(SUCCEEDED) and not status.has(SUCCEEDED):
        yield _conditions("cannot disable the SuccessCriteriaMet=True condition")
    if before.has(COMPLETE) and not before.has(SUCCEEDED) and status.has(SUCCEEDED):
        yield _conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _changes(status: _Status, before: _Status, name: str) -> bool:
    """Return True if a field has changed or was added."""
    found: Any = status.fields.get(name)
    return bool(found != before.fields.get(name))
