"""Estimates of run times, from the run times of similar jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.history.records import FAILED, SUCCEEDED, JobRecord, PodRecord

LEAST = 3
"""Runs from which an estimate is made."""
MOST = 200
"""The newest runs that count."""
_VARIABLE = re.compile(r"(?:[-_.]|^)(?=[a-z]*[0-9])[0-9a-z]{1,16}(?=$|[-_.])|[0-9]+")


class Estimate(NamedTuple):
    """Quantiles of whole run times, in microseconds, and of how many runs they are."""

    low: int
    middle: int
    high: int
    runs: int


def pattern_of(name: str) -> str:
    """A name without what differs between runs of the same thing: numbers, dates, generated endings."""
    return _VARIABLE.sub("#", name)


@dataclass
class RunTimes:
    """Run times of ended pods, by what their jobs have in common.

    A pod is like those of the same user, name pattern, task and size; else like those of the same name pattern; else
    like those of the same queue, user and size.
    """

    _times: dict[tuple[str, ...], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Iterable[tuple[JobRecord, Sequence[PodRecord]]]) -> RunTimes:
        """The run times of jobs, in the order of their submission."""
        found = cls()
        for job, pods in jobs:
            for pod in pods:
                if pod.bound is None or pod.ended is None or pod.state not in (SUCCEEDED, FAILED):
                    continue
                for key in _keys(job.namespace, job.title or job.name, job.user, pod.queue, pod.task, pod.resources):
                    found._times.setdefault(key, []).append(pod.ended - pod.bound)
        return found

    def estimate(
        self,
        namespace: str,
        name: str,
        user: str,
        queue: str,
        task: str,
        resources: dict[str, int],
        elapsed: int = 0,
    ) -> Estimate | None:
        """Quartiles of how long pods like this one run; None if too few are known.

        Args:
            namespace: of the job.
            name: of the job, as its user gave it.
            user: who submitted it.
            queue: of the job.
            task: of the pod.
            resources: what the pod requests.
            elapsed: microseconds that it has run; only runs that took longer count.
        """
        for key in _keys(namespace, name, user, queue, task, resources):
            times = sorted(time for time in self._times.get(key, ())[-MOST:] if time > elapsed)
            if len(times) >= LEAST:
                return Estimate(_quantile(times, 0.1), _quantile(times, 0.5), _quantile(times, 0.9), len(times))
        return None


def _keys(
    namespace: str, name: str, user: str, queue: str, task: str, resources: dict[str, int]
) -> tuple[tuple[str, ...], ...]:
    """Keys of what a pod is like, the closest first."""
    pattern = pattern_of(name)
    size = ",".join(f"{resource}={amount}" for resource, amount in sorted(resources.items()))
    return (
        ("all", namespace, pattern, user, task, size),
        ("name", namespace, pattern, task),
        ("queue", queue, user, size),
    )


def _quantile(times: Sequence[int], part: float) -> int:
    """A quantile of sorted times: the value at the nearest rank."""
    return times[min(len(times) - 1, int(part * len(times)))]
