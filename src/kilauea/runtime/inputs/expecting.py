"""Expected starts for commands: the forecasts of a cluster, with its history if available, and the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kilauea.api.ports import Api, ApiError, Obj, Resource
from kilauea.client.access import Access, AccessError
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.engine.explain.group import Explanation
from kilauea.history.answers import GROUP, JOBS, VERSION, JobAnswer
from kilauea.history.estimates import RunTimes
from kilauea.history.records import JobRecord, PodRecord
from kilauea.history.store import History
from kilauea.runtime.inputs.run_times import PodRunTimes
from kilauea.simulator.expected_start import ExpectedStart, expected_start
from kilauea.simulator.planning import Result

JOB_HISTORIES = Resource(GROUP, VERSION, JOBS, "JobHistory")
MOST_JOBS = 1000
"""Maximum number of jobs of a history whose run times count, the newest."""
SECONDS = 5.0
"""Seconds after which a search for the start is abandoned."""


OF_TOO_FEW = frozenset({"NotEnoughTasks", "NotEnoughPodsOfTask"})
"""Reasons of groups with pods that are not created yet."""


def is_foreseeable(explanation: Explanation) -> bool:
    """Return True if a group waits only for the cluster: pods that are still to be created cannot be predicted."""
    return explanation.verdict == "waits" and all(each.code not in OF_TOO_FEW for each in explanation.blockers)


def expected(
    result: Result, workloads: Iterable[Obj], group: str, past: RunTimes | None = None, seconds: float = SECONDS
) -> ExpectedStart:
    """The expected start of a group of a plan.

    Args:
        result: the plan of one cycle.
        workloads: the jobs of the cluster, undecoded.
        group: the group, as `namespace/name`.
        past: run times of other jobs.
        seconds: maximum duration of the search.
    """
    end = time.monotonic() + seconds
    forecasts = PodRunTimes(result.objects, workloads, past)
    return expected_start(result.scenario, group, forecasts, lambda: time.monotonic() > end)


async def read_past(access: Access) -> RunTimes | None:
    """Run times of the jobs of a cluster that the user may see; None if it does not serve a history."""
    try:
        async with HttpTransport(access) as transport:
            return await past_of(Client(transport, "kilauea-explain", page=MOST_JOBS))
    except (ApiError, AccessError):
        return None


async def past_of(api: Api) -> RunTimes | None:
    """Run times of the jobs of a cluster; None if it does not serve a history, or the user may not see it."""
    try:
        listed = await api.list(JOB_HISTORIES)
    except ApiError:
        return None
    found: list[tuple[JobRecord, Sequence[PodRecord]]] = []
    for item in listed.items:
        answer = msgspec.json.decode(item, type=JobAnswer)
        found.append((answer.job, answer.pods))
    return RunTimes.of(found, time.time_ns() // 1000)


def past_in(folder: Path) -> RunTimes:
    """Run times of jobs, from the history in a folder.

    Raises:
        HistoryError: the history cannot be read.
    """
    history = History.read(folder)
    try:
        jobs = [(job, history.pods(job=job.uid)) for job in history.jobs(limit=MOST_JOBS)]
        return RunTimes.of(jobs, history.seen or None)
    finally:
        history.close()
