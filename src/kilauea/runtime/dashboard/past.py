"""The past on pages: jobs and usage from the history of a cluster, through its API or from a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from kilauea.api.numbers import plural
from kilauea.api.ports import ApiError, Clock, Resource
from kilauea.api.times import SECOND, format_time
from kilauea.client.rest import Client
from kilauea.dashboard.listing import paging
from kilauea.dashboard.pages import history_path, job_path
from kilauea.dashboard.usage_chart import ranks, usage_chart
from kilauea.history.answers import (
    GROUP,
    JOBS,
    USAGE,
    VERSION,
    JobAnswer,
    JobsAnswer,
    UsageAnswer,
    job_answer,
    jobs_answer,
    usage_answer,
)
from kilauea.history.errors import HistoryError
from kilauea.history.records import VOLCANO_JOB, JobRecord
from kilauea.history.store import History
from kilauea.history.timeline import end_of, timeline

T = TypeVar("T")
HOUR = 3600 * SECOND
RANGES = {"day": (24 * HOUR, 24), "week": (7 * 24 * HOUR, 28), "month": (30 * 24 * HOUR, 30)}
"""Spans of usage: their length, and the number of parts."""
MOST_JOBS = 200
"""Maximum number of earlier jobs on a page."""
MOST_ENTRIES = 300
"""Maximum number of entries of a timeline, the newest."""
KINDS = {VOLCANO_JOB: "Job", "PodGroup.scheduling.volcano.sh": "PodGroup"}
"""Kinds of the history that have a separate page while they exist."""
ABSENT = (
    "The history is not available: `kilauea up` keeps one; for any other cluster, start the scheduler with --history "
    "DIR, and `kilauea dashboard` with the same folder."
)
_JOB = Resource(GROUP, VERSION, JOBS, "JobHistory")
_USAGE = Resource(GROUP, VERSION, USAGE, "UsageReport")


class Unavailable(Exception):
    """The history is not available; the message gives the reason, for the viewer."""


class Past:
    """Reads the history.

    Args:
        client: a client of the cluster.
        clock: the time.
        namespace: the only namespace to read; empty for all.
        folder: folder of a history to read instead; None for that of the cluster.
    """

    def __init__(self, client: Client, clock: Clock, namespace: str = "", folder: Path | None = None) -> None:
        self._client, self._clock, self._namespace, self._folder = client, clock, namespace, folder

    async def job(self, namespace: str, name: str, uid: str) -> dict[str, Any] | None:
        """The model of the life of a job; None if it does not exist.

        Raises:
            Unavailable: the history is not available.
        """
        query = {"uid": uid} if uid else {}
        found: JobAnswer | None
        if self._folder is not None:
            found = await self._local(lambda history: job_answer(history, namespace, name, query))
        else:
            try:
                found = msgspec.json.decode(await self._client.read(_JOB, namespace, name, query), type=JobAnswer)
            except ApiError as error:
                if error.code != 404:
                    raise Unavailable(str(error)) from error
                if f'"{name}" not found' not in str(error):  # the server does not know the kind
                    raise Unavailable(ABSENT) from error
                found = None
        return _life(found) if found is not None else None

    async def jobs(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The model of a list of jobs, the newest first.

        Raises:
            Unavailable: the history is not available.
        """
        wanted = {name: query[name] for name in ("queue", "user", "name") if query.get(name)}
        wanted |= {"pods": "false", "limit": str(MOST_JOBS)}
        if self._folder is not None:
            found = await self._local(lambda history: jobs_answer(history, self._namespace, wanted))
        else:
            found = await self._ask(_JOB, wanted, JobsAnswer)
        jobs = [each.job for each in found.items[::-1]]
        place = paging(len(jobs), 1, MOST_JOBS)
        return {"jobs": [_shown(job) for job in jobs], "paging": place, "more": found.more, "since": found.since}

    async def usage(self, span: str) -> dict[str, Any]:
        """The model of the usage by queue over time.

        Raises:
            Unavailable: the history is not available.
        """
        length, parts = RANGES.get(span, RANGES["day"])
        now = self._clock.now()
        query = {"by": "queue", "since": format_time((now - length) // SECOND * SECOND), "parts": str(parts)}
        if self._folder is not None:
            found = await self._local(lambda history: usage_answer(history, self._namespace, query, now))
        else:
            found = await self._ask(_USAGE, query, UsageAnswer)
        names = [name for name in _resources(found) if any(any(part.values()) for part in _averages(found, name))]
        colours = ranks([_averages(found, name) for name in names])
        return {
            "charts": [_chart(found, name, colours) for name in names],
            "span": plural(length // (24 * HOUR), "day") if length > 24 * HOUR else plural(length // HOUR, "hour"),
            "begin": now - length,
            "since": found.since,
            "gaps": found.gaps,
        }

    async def _ask(self, resource: Resource, query: Mapping[str, str], type: type[T]) -> T:
        try:
            return msgspec.json.decode(await self._client.read(resource, self._namespace, "", query), type=type)
        except ApiError as error:
            raise Unavailable(ABSENT if error.code == 404 else str(error)) from error

    async def _local(self, work: Callable[[History], T]) -> T:
        def read(folder: Path) -> T:
            history = History.read(folder)
            try:
                return work(history)
            finally:
                history.close()

        assert self._folder is not None
        try:
            return await asyncio.to_thread(read, self._folder)
        except HistoryError as error:
            raise Unavailable(str(error)) from error


class PastJob(NamedTuple):
    """A job of the past, with the location of its page."""

    job: JobRecord
    kind: str
    path: str


def _shown(job: JobRecord) -> PastJob:
    key = {"namespace": job.namespace, "name": job.name}
    kind = KINDS.get(job.kind, "")
    path = job_path(kind, key) if kind else history_path(job.namespace, job.name)
    return PastJob(job, kind or job.kind.partition(".")[0], f"{path}?uid={job.uid}")


def _life(found: JobAnswer) -> dict[str, Any]:
    job, pods = found.job, found.pods
    entries = timeline(job, pods, found.events)
    starts = [pod.bound for pod in pods if pod.bound is not None]
    lost = sum((pod.ended or pod.bound) - pod.bound for pod in pods if pod.state == "Evicted" and pod.bound is not None)
    return {
        "job": job,
        "state": job.state or (pods[-1].state if pods else "Pending"),
        "begin": min(starts, default=0),
        "end": end_of(job, pods) or 0,
        "evicted": sum(event.what == "Evicted" for event in found.events),
        "lost_seconds": lost // SECOND,
        "entries": entries[-MOST_ENTRIES:][::-1],
        "left_out": max(0, len(entries) - MOST_ENTRIES),
        "others": [f"{_shown(job).path.partition('?')[0]}?uid={uid}" for uid in found.others[:10]],
    }


def _resources(found: UsageAnswer) -> list[str]:
    """Cpus, and the devices in use."""
    names = {name for row in found.rows for name in row.amounts}
    return ["cpu", *sorted(name for name in names if "/" in name)[:3]]


def _averages(found: UsageAnswer, resource: str) -> list[dict[str, float]]:
    """The average of a resource in each part of the time, by queue, in whole units."""
    return [
        {row.name or "no queue": row.amounts.get(resource, 0) / 1000 / (part.end - part.begin) for row in part.rows}
        for part in found.parts
    ]


def _chart(found: UsageAnswer, resource: str, colours: Mapping[str, int]) -> dict[str, Any]:
    """The average of a resource by queue as a chart."""
    hours = sum(part.end - part.begin for part in found.parts) / max(1, len(found.parts)) / HOUR
    return {"resource": resource, "chart": usage_chart(_averages(found, resource), colours), "hours": hours}
