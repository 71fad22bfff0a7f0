"""Estimates of run times, from the run times of similar jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.history.records import FAILED, SUCCEEDED, JobRecord, PodRecord

LEAST = 3
"""Minimum number of runs for an estimate."""
MOST = 200
"""Maximum number of runs that count, the newest."""
_VARIABLE = re.compile(r"(?:[-_.]|^)(?=[a-z]*[0-9])[0-9a-z]{1,16}(?=$|[-_.])|[0-9]+")


STEPS = 20
"""Number of run times in an estimate."""


class Estimate(NamedTuple):
    """The run times of similar pods, in microseconds.

    Attributes:
        low: a tenth of them end before.
        middle: half of them end before.
        high: nine tenths of them end before.
        runs: number of ended runs in the estimate.
        times: `STEPS` equally likely run times, the shortest first.
    """

    low: int
    middle: int
    high: int
    runs: int
    times: tuple[int, ...] = ()


class _Run(NamedTuple):
    """A run: its duration so far, in microseconds, and True if it has ended."""

    time: int
    ended: bool


def pattern_of(name: str) -> str:
    """A name without the parts that differ between runs: numbers, dates, generated suffixes."""
    return _VARIABLE.sub("#", name)


@dataclass
class RunTimes:
    """Run times of pods, by common properties of their jobs.

    A pod is similar to those with the same user, name pattern, task and size; else to those with the same name pattern;
    else to those with the same queue, user and size. Running pods count as well, as censored observations: without
    them, long runs would be missing until they end.
    """

    _runs: dict[tuple[str, ...], list[_Run]] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Iterable[tuple[JobRecord, Sequence[PodRecord]]], now: int | None = None) -> RunTimes:
        """The run times of jobs, in the order of their submission.

        Args:
            jobs: the jobs and their pods.
            now: the time, in microseconds since 1970; None to leave out pods that still run.
        """
        found = cls()
        for job, pods in jobs:
            for pod in pods:
                run = _run(pod, now)
                if run is None:
                    continue
                for key in _keys(job.namespace, job.title or job.name, job.user, pod.queue, pod.task, pod.resources):
                    found._runs.setdefault(key, []).append(run)
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
        """The run times of pods like this one; None if too few are known.

        Args:
            namespace: namespace of the job.
            name: name of the job, as its user set it.
            user: its submitter.
            queue: its queue.
            task: task of the pod.
            resources: requests of the pod.
            elapsed: microseconds that it has run; only longer runs count.
        """
        for key in _keys(namespace, name, user, queue, task, resources):
            runs = [run for run in self._runs.get(key, ()) if run.time > elapsed][-MOST:]
            ended = sum(run.ended for run in runs)
            if ended >= LEAST:
                low, middle, high = _quantiles(runs, (0.1, 0.5, 0.9))
                times = _quantiles(runs, [(step + 0.5) / STEPS for step in range(STEPS)])
                return Estimate(low, middle, high, ended, times)
        return None


def _run(pod: PodRecord, now: int | None) -> _Run | None:
    if pod.bound is None:
        return None
    if pod.ended is not None:
        return _Run(pod.ended - pod.bound, True) if pod.state in (SUCCEEDED, FAILED) else None
    return _Run(now - pod.bound, False) if now is not None else None


def _keys(
    namespace: str, name: str, user: str, queue: str, task: str, resources: dict[str, int]
) -> tuple[tuple[str, ...], ...]:
    """Keys of similarity, the closest first."""
    pattern = pattern_of(name)
    size = ",".join(f"{resource}={amount}" for resource, amount in sorted(resources.items()))
    return (
        ("all", namespace, pattern, user, task, size),
        ("name", namespace, pattern, task),
        ("queue", queue, user, size),
    )


def _quantiles(runs: Sequence[_Run], parts: Sequence[float]) -> tuple[int, ...]:
    """Run times within which these parts of the runs end, after Kaplan and Meier (1958).

    Runs that have not ended only give a lower bound. If the longest run is one of these, the end of the last ones is
    unknown: each doubling of their time is assumed to end half of them.

    Args:
        runs: at least one of them has ended.
        parts: between 0 and 1, the smallest first.
    """
    left, lasting = len(runs), 1.0
    steps: list[tuple[float, int]] = []
    """The fraction that has ended, and the time."""
    for run in sorted(runs, key=lambda each: (each.time, not each.ended)):
        if run.ended:
            lasting *= (left - 1) / left
            steps.append((1 - lasting, run.time))
        left -= 1
    last = max(run.time for run in runs)
    found: list[int] = []
    at = 0
    for part in parts:
        while at < len(steps) and steps[at][0] <= part:
            at += 1
        found.append(steps[at][1] if at < len(steps) else int(last * max(1.0, lasting / (1 - part))))
    return tuple(found)
