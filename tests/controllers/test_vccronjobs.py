"""Volcano's cron jobs at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.cron import parse_schedule
from kilauea.api.kinds import VC_CRON_JOBS, VC_JOBS
from kilauea.api.times import format_time, parse_time
from kilauea.controllers.cronjobs.slots import job_name
from kilauea.controllers.vccronjobs.controller import VcCronJobController
from support.controlled import Cluster

BEGIN = "2026-01-01T00:00:30Z"


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(VcCronJobController(), volcano=True)
    made.api.now = parse_time(BEGIN)
    return made


def cron(cluster: Cluster, schedule: str = "*/5 * * * *", **spec: Any) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    job = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "ignored"},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": pod}]},
    }
    manifest = {"metadata": {"name": "c"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}}
    cluster.create(VC_CRON_JOBS, manifest)
    cluster.settle()


def say(cluster: Cluster, phase: str, *names: str) -> None:
    """Say a phase of jobs, of all that are not over if none is named."""
    for job in cluster.all(VC_JOBS):
        over = ((job.get("status") or {}).get("state") or {}).get("phase") in ("Completed", "Failed", "Terminated")
        if job["metadata"]["name"] in names or (not names and not over):
            state = {"phase": phase, "lastTransitionTime": format_time(cluster.api.now)}
            cluster.patch(VC_JOBS, job["metadata"]["name"], {"status": {"state": state}}, "status")
    cluster.settle()


def status(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(VC_CRON_JOBS, "c").get("status") or {}
    return found


def name_at(time: str) -> str:
    return f"c-{parse_time(time) // 60_000_000}"


def reasons(cluster: Cluster) -> list[str]:
    return [reason for _, reason, _ in cluster.told]


def test_a_job_is_made_when_it_is_due(cluster: Cluster) -> None:
    cron(cluster)
    assert (cluster.names(VC_JOBS), cluster.next_due()) == ([], 270.0)
    cluster.wait(300)
    (job,) = cluster.all(VC_JOBS)
    metadata = job["metadata"]
    assert metadata["name"] == name_at("2026-01-01T00:05:00Z")
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"c": "d", "volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T00:05:00Z"}
    assert (metadata["ownerReferences"][0]["kind"], metadata["ownerReferences"][0]["controller"]) == ("CronJob", True)
    found = status(cluster)
    assert ([each["name"] for each in found["active"]], found["lastScheduleTime"]) == (
        [metadata["name"]],
        "2026-01-01T00:05:00Z",
    )
    assert cluster.told[-1][1:] == ("SuccessfulCreate", f"Created job {metadata['name']} for CronJob default/c")


def test_what_is_over_leaves_the_status(cluster: Cluster) -> None:
    cron(cluster)
    cluster.wait(280)
    say(cluster, "Running")
    assert len(status(cluster)["active"]) == 1
    cluster.wait(10)
    say(cluster, "Completed")
    assert status(cluster) == {
        "lastScheduleTime": "2026-01-01T00:05:00Z",
        "lastSuccessfulTime": "2026-01-01T00:05:20Z",
    }
    assert "SawCompletedJob" in reasons(cluster)


@pytest.mark.parametrize(
    ("phase", "limits", "left"),
    [
        ("Completed", {}, 3),
        ("Failed", {}, 1),
        ("Terminated", {}, 1),
        ("Completed", {"successfulJobsHistoryLimit": 0}, 0),
        ("Failed", {"failedJobsHistoryLimit": 2}, 2),
        ("Aborted", {}, 5),
    ],
)
def test_the_oldest_jobs_that_are_over_are_forgotten(
    cluster: Cluster, phase: str, limits: dict[str, Any], left: int
) -> None:
    cron(cluster, **limits)
    for _ in range(5):
        cluster.wait(300)
        say(cluster, phase)
    names = [name_at(f"2026-01-01T00:{minute:02}:00Z") for minute in (5, 10, 15, 20, 25)]
    assert cluster.names(VC_JOBS) == names[5 - left :]


@pytest.mark.parametrize(
    ("policy", "then", "reason"),
    [
        ("Allow", ["5", "10"], "SuccessfulCreate"),
        ("Forbid", ["5"], "ForbidConcurrent"),
        ("Replace", ["10"], "ReplaceConcurrent"),
    ],
)
def test_what_happens_while_the_last_job_runs_is_said(
    cluster: Cluster, policy: str, then: list[str], reason: str
) -> None:
    cron(cluster, concurrencyPolicy=policy)
    cluster.wait(300)
    say(cluster, "Running")
    cluster.wait(300)
    expected = [name_at(f"2026-01-01T00:{minute:0>2}:00Z") for minute in then]
    assert cluster.names(VC_JOBS) == expected
    assert [each["name"] for each in status(cluster)["active"]] == expected
    assert reason in reasons(cluster)
    assert "StaleReference" not in reasons(cluster)


def test_a_forbidden_time_is_made_up_for_when_the_job_ends(cluster: Cluster) -> None:
    cron(cluster, concurrencyPolicy="Forbid")
    cluster.wait(300)
    cluster.wait(400)
    say(cluster, "Completed")
    assert cluster.names(VC_JOBS)[-1] == name_at("2026-01-01T00:10:00Z")


def test_an_aborted_job_counts_as_one_that_runs(cluster: Cluster) -> None:
    cron(cluster, concurrencyPolicy="Forbid")
    cluster.wait(300)
    say(cluster, "Aborted")
    cluster.wait(300)
    assert len(cluster.names(VC_JOBS)) == 1


def test_of_many_missed_times_only_the_latest_is_made_up_for(cluster: Cluster) -> None:
    cron(cluster, "* * * * *", suspend=True)
    cluster.wait(86_400)
    assert cluster.names(VC_JOBS) == []
    cluster.patch(VC_CRON_JOBS, "c", {"spec": {"suspend": False}})
    cluster.settle()
    assert cluster.names(VC_JOBS) == [name_at("2026-01-02T00:00:00Z")]
    assert "TooManyMissedTimes" in reasons(cluster)


@pytest.mark.parametrize(("deadline", "made"), [(29, 0), (31, 1)])
def test_what_is_too_late_is_left_out(cluster: Cluster, deadline: int, made: int) -> None:
    cron(cluster, "0 * * * *", suspend=True, startingDeadlineSeconds=deadline)
    cluster.wait(7_200)
    cluster.patch(VC_CRON_JOBS, "c", {"spec": {"suspend": False}})
    cluster.settle()
    assert len(cluster.names(VC_JOBS)) == made


def test_days_are_those_of_the_zone(cluster: Cluster) -> None:
    cron(cluster, "0 6 * * *", timeZone="Asia/Tokyo")
    cluster.wait(86_400)
    assert cluster.names(VC_JOBS) == [name_at("2026-01-01T21:00:00Z")]


def test_an_interval_below_a_minute_makes_a_job_each_time(cluster: Cluster) -> None:
    cron(cluster, "@every 5s")
    cluster.wait(22)
    begin = parse_time(BEGIN) // 1_000_000
    assert cluster.names(VC_JOBS) == [f"c-{begin + seconds}" for seconds in (5, 10, 15, 20)]
    assert reasons(cluster) == ["SuccessfulCreate"] * 4


@pytest.mark.parametrize("back", [60, 600])
def test_an_interval_makes_jobs_although_the_clock_was_set_back(cluster: Cluster, back: int) -> None:
    cron(cluster, "@every 5s")
    cluster.wait(12)
    cluster.api.now -= back * 1_000_000
    cluster.patch(VC_CRON_JOBS, "c", {"metadata": {"labels": {"looked": "at"}}})
    cluster.wait(22)
    assert len(cluster.names(VC_JOBS)) == 2 + 5


def test_a_name_of_the_greatest_length_leaves_room_for_the_second() -> None:
    cron = {"metadata": {"name": "a" * 52}}
    assert len(job_name(cron, parse_schedule("@every 59s"), parse_time(BEGIN))) == 63
    assert job_name(cron, parse_schedule("@every 60s"), parse_time(BEGIN)) == f"{'a' * 52}-{name_at(BEGIN)[2:]}"


def test_an_interval_counts_from_the_last_time(cluster: Cluster) -> None:
    cron(cluster, "@every 90m", startingDeadlineSeconds=60)
    assert cluster.next_due() == 5400.0
    cluster.wait(11_000)
    assert [
        job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] for job in cluster.all(VC_JOBS)
    ] == [
        "2026-01-01T01:30:30Z",
        "2026-01-01T03:00:30Z",
    ]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "61 * * * *"}, "UnParseableCronJobSchedule"),
        ({"schedule": "* * * * *", "timeZone": "Mars/Base"}, "InvalidTimeZone"),
        ({"schedule": "TZ=Mars/Base * * * * *"}, "InvalidTimeZone"),
        ({"schedule": "TZ=Europe/Rome"}, "UnParseableCronJobSchedule"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_said_and_makes_nothing(
    cluster: Cluster, spec: dict[str, str], reason: str
) -> None:
    cron(cluster, **spec)
    cluster.wait(600)
    assert cluster.told[-1][1] == reason
    assert cluster.names(VC_JOBS) == []


def test_a_zone_in_the_schedule_is_heeded_and_complained_of(cluster: Cluster) -> None:
    cron(cluster, "CRON_TZ=Asia/Tokyo 0 6 * * *")
    cluster.wait(86_400)
    assert cluster.names(VC_JOBS) == [name_at("2026-01-01T21:00:00Z")]
    assert cluster.told[0][1] == "UnsupportedSchedule"


def test_a_job_of_somebody_else_with_the_name_is_left_alone(cluster: Cluster) -> None:
    name = name_at("2026-01-01T00:05:00Z")
    cluster.create(VC_JOBS, {"metadata": {"name": name}, "spec": {}})
    cron(cluster)
    cluster.wait(300)
    assert cluster.told[-1][1] == "ForeignJob"
    assert status(cluster) == {}
    cluster.wait(300)
    assert cluster.names(VC_JOBS) == [name, name_at("2026-01-01T00:10:00Z")]


def test_a_job_that_was_made_before_the_status_was_written_is_not_made_again(cluster: Cluster) -> None:
    cron(cluster)
    cluster.wait(300)
    cluster.patch(VC_CRON_JOBS, "c", {"status": {"lastScheduleTime": None, "active": None}}, "status")
    cluster.settle()
    assert (len(cluster.names(VC_JOBS)), len(status(cluster)["active"])) == (1, 1)
    assert status(cluster)["lastScheduleTime"] == "2026-01-01T00:05:00Z"


def test_a_running_job_that_somebody_deleted_is_said(cluster: Cluster) -> None:
    cron(cluster)
    cluster.wait(300)
    cluster.delete(VC_JOBS, cluster.names(VC_JOBS)[0])
    cluster.settle()
    assert "active" not in status(cluster)
    assert cluster.told[-1][1] == "StaleReference"


def test_nothing_is_made_while_suspended_or_going(cluster: Cluster) -> None:
    cron(cluster, suspend=True)
    cluster.wait(1_000)
    assert (cluster.names(VC_JOBS), cluster.next_due()) == ([], None)
