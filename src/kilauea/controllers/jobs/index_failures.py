"""Failures of single indexes (`backoffLimitPerIndex`): each has its own limit and backoff.

Annotations of a pod contain the previous failures of its index. The last failed pod of an index stays until the next
one is created, so that the count is not lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kilauea.api.numbers import whole_number
from kilauea.api.ports import Obj
from kilauea.controllers.jobs.failure_policy import failure_effect
from kilauea.controllers.jobs.indexes import index_of
from kilauea.controllers.objects import annotations_of, spec_of

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def limit_of(job: Obj) -> int | None:
    """Return the number of retries of an index; None without separate limits for indexes."""
    limit = spec_of(job).get("backoffLimitPerIndex")
    return None if limit is None else int(limit)


def failures_before(pod: Obj) -> tuple[int, int]:
    """Return the failures of an index before this pod: counted and ignored ones."""
    return _number(pod, FAILURES), _number(pod, IGNORED)


def _number(pod: Obj, annotation: str) -> int:
    return whole_number(annotations_of(pod).get(annotation, "")) or 0


def failures_after(job: Obj, pod: Obj) -> tuple[int, int]:
    """The same, including the failure of the pod itself."""
    counted, ignored = failures_before(pod)
    return (counted, ignored + 1) if failure_effect(job, pod).action == "Ignore" else (counted + 1, ignored)


def fails_index(job: Obj, pod: Obj) -> bool:
    """Return True if an index is not retried after the failure of this pod."""
    action, limit = failure_effect(job, pod).action, limit_of(job)
    if limit is None or action == "Ignore":
        return False
    return action == "FailIndex" or failures_before(pod)[0] >= limit


def last_of_each(failed: Iterable[Obj], others: Sequence[Obj]) -> dict[int, Obj]:
    """By index, the pod that failed last, if no other one has come after it.

    Args:
        failed: pods that have failed.
        others: the other pods.
    """
    followed = {index_of(pod) for pod in others}
    last: dict[int, Obj] = {}
    for pod in failed:
        index = index_of(pod)
        if index is None or index in followed:
            continue
        if index not in last or sum(failures_before(pod)) > sum(failures_before(last[index])):
            last[index] = pod
    return last
