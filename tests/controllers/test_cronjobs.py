"""Cron jobs at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controlled import Cluster, template
from kilauea.api.times import format_time, parse_time
from kilauea.controllers.cronjobs.controller import CronJobController
from kilauea.controllers.cronjobs.schedule import parse_schedule
from kilauea.controllers.jobs.controller import JobController
from kilauea.controllers.kinds import CRON_JOBS, JOBS


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(CronJobController(), JobController())
    made.api.now = parse_time("2026-01-01T00:00:30Z")
    return made


def cron(cluster: Cluster, schedule: str = "*/5 * * * *", **spec: Any) -> None:
    job = {"spec": {"template": template({}, restartPolicy="Never")}}
    cluster.create(CRON_JOBS, {"metadata": {"name": "c"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}})
    cluster.settle()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "due"),
    [
        ("*/5 * * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"),
        ("0 0 29 2 *", "", "2025-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("30 9 * * mon-fri", "", "2026-01-02T10:00:00Z", "2026-01-05T09:30:00Z"),
        ("0 0 13 * fri", "", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 12 * * 7", "", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"),
        ("@monthly", "", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"),
        ("10-20/5,50 3 * jan,jun *", "", "2026-01-31T03:20:00Z", "2026-01-31T03:50:00Z"),
    ],
)
def test_a_schedule_says_when_it_is_due_next(schedule: str, zone: str, after: str, due: str) -> None:
    found = parse_schedule(schedule, zone).after(parse_time(after))
    assert found is not None
    assert format_time(found) == due


@pytest.mark.parametrize("schedule", ["* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "a * * * *", "@never"])
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match="is no "):
        parse_schedule(schedule)


def test_a_day_that_never_comes_is_never_due() -> None:
    assert parse_schedule("0 0 31 2 *").after(0) is None


def test_a_job_is_made_when_it_is_due_and_old_ones_are_forgotten(cluster: Cluster) -> None:
    cron(cluster)
    assert cluster.all(JOBS) == []
    assert cluster.next_due() == 270.0
    cluster.wait(300)
    (name,) = cluster.names(JOBS)
    due = parse_time("2026-01-01T00:05:00Z")
    assert name == f"c-{due // 60_000_000}"
    status = cluster.get(CRON_JOBS, "c")["status"]
    assert ([each["name"] for each in status["active"]], status["lastScheduleTime"]) == ([name], "2026-01-01T00:05:00Z")
    cluster.say_all("Succeeded")
    cluster.settle()
    assert cluster.get(CRON_JOBS, "c")["status"]["lastSuccessfulTime"] == "2026-01-01T00:05:30Z"
    for _ in range(5):
        cluster.wait(300)
        cluster.say_all("Succeeded")
    cluster.settle()
    assert len(cluster.all(JOBS)) == 3
    assert ("c", "SawCompletedJob", f"Saw completed job: {name}, condition: Complete") in cluster.told


@pytest.mark.parametrize(("policy", "running"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_what_happens_while_the_last_job_runs_is_said(cluster: Cluster, policy: str, running: int) -> None:
    cron(cluster, concurrencyPolicy=policy)
    cluster.wait(300)
    first = cluster.names(JOBS)
    cluster.wait(300)
    assert len([job for job in cluster.all(JOBS) if not job["metadata"].get("deletionTimestamp")]) == running
    assert (first[0] in cluster.names(JOBS)) == (policy != "Replace")


def test_of_many_missed_times_only_the_latest_is_made_up_for(cluster: Cluster) -> None:
    cron(cluster, "* * * * *", suspend=True)
    cluster.wait(86_400)
    cluster.patch(CRON_JOBS, "c", {"spec": {"suspend": False}})
    cluster.settle()
    assert len(cluster.all(JOBS)) == 1
    assert cluster.get(CRON_JOBS, "c")["status"]["lastScheduleTime"] == "2026-01-02T00:00:00Z"


def test_what_is_too_late_is_left_out(cluster: Cluster) -> None:
    cron(cluster, "0 * * * *", suspend=True, startingDeadlineSeconds=60)
    cluster.wait(7_200)
    cluster.patch(CRON_JOBS, "c", {"spec": {"suspend": False, "startingDeadlineSeconds": 10}})
    cluster.settle()
    assert cluster.all(JOBS) == []


def test_a_zone_that_is_none_is_said(cluster: Cluster) -> None:
    cron(cluster, timeZone="Mars/Base")
    assert cluster.told[-1][1] == "UnparseableSchedule"
