"""New pods of a job: their number, time and indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kilauea.api.kinds import JOBS, PODS
from kilauea.api.ports import Delete, Key, Obj, Operation, Record, Single, Together, View, key_of
from kilauea.api.times import SECOND, parse_time
from kilauea.controllers.hashes import LONGEST_BASE, suffixes
from kilauea.controllers.jobs.counting import TRACKING, Count, is_indexed, is_tracked, untracked
from kilauea.controllers.jobs.index_failures import FAILURES, IGNORED, failures_after, limit_of
from kilauea.controllers.jobs.indexes import INDEX, index_of
from kilauea.controllers.objects import is_going, name_of, spec_of, status_of, uid_of
from kilauea.controllers.pods import (
    creation,
    deletion_rank,
    free_names,
    from_template,
    generate_name,
    phase_of,
    pods_by_node,
)

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0
"""Seconds that a job waits after a failure, doubled with each further one, and the maximum."""
_INDEX_FIELD = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}


def wanted_active(job: Obj, found: Count, active: int) -> int:
    """Return the number of pods that should run."""
    spec = spec_of(job)
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        return min(active, parallelism) if found.all_succeeded else parallelism
    return max(0, min(parallelism, int(completions) - found.all_succeeded - len(found.failed_indexes)))


def pause_left(pods: Sequence[Obj], now: int) -> float:
    """Seconds until pods may be created again after failures; a success resets them."""
    success = max((ended_at(pod, now) for pod in pods if phase_of(pod) == "Succeeded"), default=-1)
    failures = [when for when in (ended_at(pod, now) for pod in pods if phase_of(pod) == "Failed") if when > success]
    if not failures:
        return 0.0
    return _left(len(failures), max(failures), now)


def pauses_left(job: Obj, last_failed: Mapping[int, Obj], now: int) -> dict[int, float]:
    """Seconds until failed indexes may be retried; those that may be now are left out."""
    pauses = {
        index: _left(sum(failures_after(job, pod)), ended_at(pod, now), now) for index, pod in last_failed.items()
    }
    return {index: pause for index, pause in pauses.items() if pause}


def _left(failures: int, last: int, now: int) -> float:
    """Seconds left of the pause after this many failures."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(0.0, (last - now) / SECOND + pause)


def ended_at(pod: Obj, now: int) -> int:
    """Return the end of the last container, in microseconds since 1970; now, if it is unknown."""
    found = []
    for each in status_of(pod).get("containerStatuses") or ():
        when = ((each.get("state") or {}).get("terminated") or {}).get("finishedAt")
        if when:
            found.append(parse_time(when))
    if found:
        return max(found)
    conditions = status_of(pod).get("conditions") or ()
    said = [parse_time(each["lastTransitionTime"]) for each in conditions if each.get("lastTransitionTime")]
    return max(said, default=now)


def new_pods(view: View, job: Obj, number: int, taken: set[int], last_failed: Mapping[int, Obj]) -> list[Operation]:
    """Create pods, with the lowest free indexes if they have indexes.

    Args:
        view: for finding free names.
        job: their owner.
        number: number of pods.
        taken: indexes that have a pod or do not need one any more.
        last_failed: by index, the previous failed pod.
    """
    if is_indexed(job):
        indexes = _free(taken, int(spec_of(job).get("completions") or 0), number)
        pods = [_pod(job, _indexed_name(view, job, index), index, last_failed.get(index)) for index in indexes]
    else:
        pods = [_pod(job, name) for name in islice(free_names(view, job), number)]
    return [Together([creation(JOBS, job, pod) for pod in pods])] if pods else []


def _free(taken: set[int], completions: int, number: int) -> Iterator[int]:
    for index in range(completions):
        if number <= 0:
            return
        if index not in taken:
            number -= 1
            yield index


def _indexed_name(view: View, job: Obj, index: int) -> str:
    base = f"{name_of(job)}-{index}-"[:LONGEST_BASE]
    seed = f"{uid_of(job)}/{job['metadata']['resourceVersion']}/{index}"
    names = (base + suffix for suffix in suffixes(seed))
    return next(name for name in names if view.get(PODS, Key(job["metadata"]["namespace"], name)) is None)


def _pod(job: Obj, name: str, index: int | None = None, failed: Obj | None = None) -> dict[str, Any]:
    pod = from_template(spec_of(job)["template"], JOBS, job, name)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
    metadata["generateName"] = generate_name(name_of(job) if index is None else f"{name_of(job)}-{index}")
    if index is not None:
        told = _failures(job, failed) if limit_of(job) is not None else {}
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index), **told}
        metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
        pod["spec"] = _with_index(pod["spec"], f"{name_of(job)}-{index}")
    return pod


def _failures(job: Obj, failed: Obj | None) -> dict[str, str]:
    """Annotations with the previous failures of a pod's index."""
    counted, ignored = failures_after(job, failed) if failed is not None else (0, 0)
    return {FAILURES: str(counted), **({IGNORED: str(ignored)} if ignored else {})}


def _with_index(spec: dict[str, Any], hostname: str) -> dict[str, Any]:
    """A pod's specification with the index in its containers' environment."""
    told = {"name": "JOB_COMPLETION_INDEX", "valueFrom": _INDEX_FIELD}
    spec = {**spec, "hostname": spec.get("hostname") or hostname}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{**each, "env": _env(each.get("env") or [], told)} for each in spec[kind]]
    return spec


def _env(env: list[Any], told: dict[str, Any]) -> list[Any]:
    return env if any(each.get("name") == told["name"] for each in env) else [*env, told]


def removed(job: Obj, pods: Sequence[Obj], *, counted: bool) -> list[Operation]:
    """Delete pods; those that need not be counted are released first."""
    chains = []
    for pod in pods:
        if is_going(pod):
            continue
        chain: list[Single] = [untracked(pod)] if not counted and is_tracked(pod) else []
        chain.append(Delete(PODS, key_of(pod), uid_of(pod)))
        chain.append(Record(job, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}"))
        chains.append(chain)
    return [Together(chains)] if chains else []


def surplus(job: Obj, active: Sequence[Obj], number: int, done: set[int]) -> list[Obj]:
    """The surplus pods: those with a finished or duplicate index, then by deletion rank."""
    beside = pods_by_node(list(active))
    ranked = sorted(active, key=lambda pod: deletion_rank(pod, beside))
    if not is_indexed(job):
        return ranked[:number]
    doubled, seen = [], set(done)
    for pod in reversed(ranked):
        index = index_of(pod)
        if index is None or index in seen:
            doubled.append(pod)
        else:
            seen.add(index)
    first = set(map(uid_of, doubled))
    rest = [pod for pod in ranked if uid_of(pod) not in first]
    return doubled + rest[: max(0, number - len(doubled))]
