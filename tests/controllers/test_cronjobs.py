"""Cron jobs at work."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kilauea.api.kinds import CRON_JOBS, JOBS
from kilauea.api.times import parse_time
from kilauea.apiserver.rest.objects import encode
from kilauea.controllers.cronjobs.controller import CronJobController
from kilauea.controllers.jobs.controller import JobController
from support.controlled import Cluster, template


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(CronJobController(), JobController())
    made.api.now = parse_time("2026-01-01T00:00:30Z")
    return made


def cron(cluster: Cluster, schedule: str = "*/5 * * * *", **spec: Any) -> None:
    job = {"spec": {"template": template({}, restartPolicy="Never")}}
    cluster.create(CRON_JOBS, {"metadata": {"name": "c"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}})
    cluster.settle()


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


def test_a_job_that_is_deleted_while_it_runs_is_told_as_kubernetes_tells_it(cluster: Cluster) -> None:
    cron(cluster)
    cluster.wait(300)
    name = cluster.get(CRON_JOBS, "c")["status"]["active"][0]["name"]
    cluster.delete(JOBS, name)
    cluster.settle()
    assert ("c", "MissingJob", f"Active job went missing: {name}") in cluster.told


def test_an_interval_below_a_minute_makes_a_job_each_time(cluster: Cluster) -> None:
    cron(cluster, "@every 5s")
    cluster.wait(22)
    begin = parse_time("2026-01-01T00:00:30Z") // 1_000_000
    assert cluster.names(JOBS) == [f"c-{begin + seconds}" for seconds in (5, 10, 15, 20)]


@pytest.mark.parametrize(("policy", "running"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_what_happens_while_the_last_job_runs_is_said(cluster: Cluster, policy: str, running: int) -> None:
    cron(cluster, concurrencyPolicy=policy)
    cluster.wait(300)
    first = cluster.names(JOBS)
    cluster.wait(300)
    assert len([job for job in cluster.all(JOBS) if not job["metadata"].get("deletionTimestamp")]) == running
    assert (first[0] in cluster.names(JOBS)) == (policy != "Replace")


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_a_job_that_a_user_has_made_of_the_template_does_not_count_as_the_last_one(
    cluster: Cluster, policy: str
) -> None:
    """As `kubectl create job --from=cronjob/c` makes it."""
    cron(cluster, concurrencyPolicy=policy)
    made = cluster.get(CRON_JOBS, "c")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "c",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": "by-hand",
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [owner],
    }
    cluster.create(JOBS, {"metadata": metadata, "spec": made["spec"]["jobTemplate"]["spec"]})
    cluster.settle()
    assert "active" not in cluster.get(CRON_JOBS, "c").get("status", {})
    cluster.wait(300)
    by_hand, scheduled = cluster.names(JOBS)
    assert by_hand == "by-hand"
    assert [each["name"] for each in cluster.get(CRON_JOBS, "c")["status"]["active"]] == [scheduled]
    assert ("c", "UnexpectedJob", "Saw a job that the controller did not create or forgot: by-hand") in cluster.told


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


def test_a_stored_zone_that_this_machine_does_not_know_is_reported(cluster: Cluster) -> None:
    cron(cluster, timeZone="Europe/Rome")
    store = cluster.api.backend.store
    stored = store.get("/batch/cronjobs/default/c")
    assert stored is not None
    older = json.loads(stored.value.replace(b"Europe/Rome", b"Mars/Base"))
    cluster.api.run(store.write(stored.key, stored.revision, partial(encode, older)))
    cluster.patch(CRON_JOBS, "c", {"metadata": {"labels": {"team": "blue"}}})
    cluster.settle()
    assert cluster.told[-1][1] == "UnparseableSchedule"
