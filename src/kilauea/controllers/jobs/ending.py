"""The end of a job, and the conditions that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.jobs.counting import Count
from kilauea.controllers.jobs.indexes import parse_indexes
from kilauea.controllers.objects import condition_of, is_going, spec_of, status_of

DEFAULT_BACKOFF_LIMIT = 6


class JobEnd(NamedTuple):
    """The end of a job: the target condition is set as soon as it is certain, the final one once all pods count."""

    target: str
    end: str
    reason: str
    message: str


DONE = JobEnd("SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
TOO_MANY = JobEnd("FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG = JobEnd("FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
FAILED_INDEXES = JobEnd("FailureTarget", "Failed", "FailedIndexes", "Job has failed indexes")
TOO_MANY_INDEXES = JobEnd(
    "FailureTarget",
    "Failed",
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)


def ended(job: Obj) -> int | None:
    """Return the time at which a job finished, in microseconds since 1970; None if it has not."""
    for type in ("Complete", "Failed"):
        condition = condition_of(job, type)
        if condition is not None and condition.get("status") == "True":
            return parse_time(condition["lastTransitionTime"])
    return None


def ending(job: Obj, found: Count, active: Sequence[Obj], now: int) -> JobEnd | None:
    """Return the end of a job, if it is certain."""
    for target, end in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        condition = condition_of(job, target)
        if condition is not None and condition.get("status") == "True":
            return JobEnd(target, end, condition.get("reason", ""), condition.get("message", ""))
    if found.fatal:
        return JobEnd("FailureTarget", "Failed", "PodFailurePolicy", found.fatal)
    spec = spec_of(job)
    limit = int(spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT))
    if found.all_failed > limit or _restarted_too_often(job, active, limit):
        return TOO_MANY
    if deadline_in(job, now) == 0:
        return TOO_LONG
    completions = spec.get("completions")
    by_index = _by_indexes(job, found) or _by_policy(job, found)
    if by_index is not None:
        return by_index
    enough = found.all_succeeded >= (1 if completions is None else int(completions))
    return DONE if enough and (completions is not None or not active) else None


def _by_indexes(job: Obj, found: Count) -> JobEnd | None:
    """The end of a job because of failed indexes."""
    if not found.failed_indexes:
        return None
    most, completions = spec_of(job).get("maxFailedIndexes"), int(spec_of(job).get("completions") or 0)
    if most is not None and len(found.failed_indexes) > int(most):
        return TOO_MANY_INDEXES
    return FAILED_INDEXES if len(found.failed_indexes | found.completed) >= completions else None


def _by_policy(job: Obj, found: Count) -> JobEnd | None:
    """The end of a job because enough of its indexes have succeeded (`successPolicy`)."""
    for number, rule in enumerate((spec_of(job).get("successPolicy") or {}).get("rules") or ()):
        text, wanted = rule.get("succeededIndexes"), rule.get("succeededCount")
        among = None if text is None else parse_indexes(text, int(spec_of(job).get("completions") or 0))
        got = len(found.completed if among is None else among & found.completed)
        if got >= (int(wanted) if wanted is not None else len(among or ())):
            return JobEnd("SuccessCriteriaMet", "Complete", "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _restarted_too_often(job: Obj, active: Sequence[Obj], limit: int) -> bool:
    """Return True if restarts of containers exceed the limit: they count as failures, too."""
    if (spec_of(job)["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = 0
    for pod in active:
        status = status_of(pod)
        for kind in ("initContainerStatuses", "containerStatuses"):
            total += sum(each.get("restartCount") or 0 for each in status.get(kind) or ())
    return total >= limit if limit else total > 0


def deadline_in(job: Obj, now: int) -> float | None:
    """Seconds until a job exceeds its deadline; None without one."""
    seconds, since = spec_of(job).get("activeDeadlineSeconds"), status_of(job).get("startTime")
    if seconds is None or not since or spec_of(job).get("suspend"):
        return None
    return max(0.0, (parse_time(since) - now) / SECOND + int(seconds))


def expiry_in(job: Obj, now: int) -> float | None:
    """Seconds until a finished job expires; None if it stays."""
    seconds, when = spec_of(job).get("ttlSecondsAfterFinished"), ended(job)
    if seconds is None or when is None or is_going(job):
        return None
    return max(0.0, (when - now) / SECOND + int(seconds))


def condition(type: str, status: str, reason: str, message: str, now: int) -> dict[str, Any]:
    """A condition with its transition now."""
    stamp = format_time(now - now % SECOND)
    said = {"type": type, "status": status, "reason": reason, "message": message}
    return {**said, "lastProbeTime": stamp, "lastTransitionTime": stamp}


def with_condition(conditions: Sequence[Any], new: dict[str, Any]) -> list[Any]:
    """Replace the condition of the same type; an equal one stays unchanged."""
    old = next((each for each in conditions if each["type"] == new["type"]), None)
    if old is None:
        return [*conditions, new]
    if (old["status"], old.get("reason")) == (new["status"], new["reason"]):
        return list(conditions)
    return [new if each is old else each for each in conditions]
