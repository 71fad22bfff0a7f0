"""Volcano's jobs that are over go when their time has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import JOB_FLOWS, VC_JOBS
from kilauea.api.times import format_time
from kilauea.controllers.finished import FinishedJobController
from kilauea.controllers.objects import owner_reference
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(FinishedJobController(), volcano=True)


def job(cluster: Cluster, phase: str, ttl: int | None = 60, owners: list[dict[str, Any]] | None = None) -> None:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    cluster.create(VC_JOBS, {"metadata": {"name": "j", "ownerReferences": owners or []}, "spec": spec})
    state = {"phase": phase, "lastTransitionTime": format_time(cluster.api.now)}
    cluster.patch(VC_JOBS, "j", {"status": {"state": state}}, "status")
    cluster.settle()


def is_deleted(cluster: Cluster) -> bool:
    """Whether its deletion has started; no one here deletes its pods, for which it waits."""
    found = cluster.get(VC_JOBS, "j")["metadata"]
    return found.get("finalizers") == ["foregroundDeletion"] and "deletionTimestamp" in found


@pytest.mark.parametrize(
    ("phase", "ttl", "goes"),
    [
        ("Completed", 60, True),
        ("Failed", 60, True),
        ("Terminated", 60, True),
        ("Aborted", 60, False),
        ("Running", 60, False),
        ("Completing", 60, False),
        ("Completed", None, False),
    ],
)
def test_a_job_that_is_over_goes_when_its_time_has_passed(
    cluster: Cluster, phase: str, ttl: int | None, goes: bool
) -> None:
    job(cluster, phase, ttl)
    cluster.wait(59)
    assert not is_deleted(cluster)
    cluster.wait(2)
    assert is_deleted(cluster) == goes


def test_a_job_that_runs_again_stays(cluster: Cluster) -> None:
    job(cluster, "Failed")
    cluster.wait(30)
    cluster.patch(VC_JOBS, "j", {"status": {"state": {"phase": "Restarting"}}}, "status")
    cluster.wait(100)
    assert not is_deleted(cluster)


def test_a_job_without_the_time_of_its_end_stays(cluster: Cluster) -> None:
    cluster.create(VC_JOBS, {"metadata": {"name": "j"}, "spec": {"ttlSecondsAfterFinished": 0}})
    cluster.patch(VC_JOBS, "j", {"status": {"state": {"phase": "Completed"}}}, "status")
    cluster.wait(10)
    assert not is_deleted(cluster)


def test_the_job_of_a_flow_stays_until_the_flow_knows_how_it_ended(cluster: Cluster) -> None:
    flow = cluster.create(JOB_FLOWS, {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a"}]}})
    job(cluster, "Completed", 0, [owner_reference(JOB_FLOWS, flow)])
    cluster.wait(5)
    assert not is_deleted(cluster)
    cluster.patch(JOB_FLOWS, "f", {"status": {"conditions": {"j": {"phase": "Completed"}}}}, "status")
    cluster.wait(2)
    assert is_deleted(cluster)
