"""Jobs at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.kinds import JOBS, PODS
from kilauea.api.ports import finished
from kilauea.controllers.jobs.controller import JobController
from kilauea.controllers.jobs.counting import Count, count
from kilauea.controllers.jobs.indexes import format_indexes, parse_indexes
from kilauea.controllers.jobs.scaling import surplus
from support.controlled import Cluster, template


def job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "pi"}, "spec": {"template": template({}, restartPolicy="Never"), **spec}}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(JobController())


def status(cluster: Cluster) -> dict[str, Any]:
    """The status with its conditions by type."""
    found = cluster.get(JOBS, "pi")["status"]
    conditions = {each["type"]: each["reason"] for each in found.get("conditions", ()) if each["status"] == "True"}
    return {**found, "conditions": conditions}


def live(cluster: Cluster) -> list[Any]:
    return [pod for pod in cluster.all(PODS) if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def test_a_job_runs_so_many_pods_at_a_time_until_enough_have_succeeded(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=3, parallelism=2))
    cluster.settle()
    assert [len(live(cluster)), status(cluster)["active"]] == [2, 2]
    for pod in live(cluster):
        cluster.say(pod, "Succeeded")
    cluster.settle()
    assert [len(live(cluster)), status(cluster)["succeeded"]] == [1, 2]
    for pod in live(cluster):
        cluster.say(pod, "Succeeded")
    cluster.settle()
    found = status(cluster)
    assert found["conditions"] == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert (found["succeeded"], found["uncountedTerminatedPods"], found["ready"], found["terminating"]) == (3, {}, 0, 0)
    assert "active" not in found
    assert "completionTime" in found
    assert not any(pod["metadata"].get("finalizers") for pod in cluster.all(PODS))
    assert ("pi", "Completed", "Job completed") in cluster.told


def test_a_job_fails_after_too_many_failures_which_it_waits_for_longer_each_time(cluster: Cluster) -> None:
    cluster.create(JOBS, job(backoffLimit=2))
    waits = []
    for _ in range(3):
        cluster.settle()
        if not live(cluster):
            waits.append(cluster.next_due())
            cluster.wait(waits[-1] or 0)
        for pod in live(cluster):
            cluster.say(pod, "Failed")
    cluster.settle()
    assert waits == [10.0, 20.0]
    found = status(cluster)
    assert found["failed"] == 3
    assert found["conditions"] == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert ("pi", "BackoffLimitExceeded", "Job has reached the specified backoff limit") in cluster.told


def test_a_pod_that_is_deleted_after_its_success_stays_counted(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=2, parallelism=1))
    cluster.settle()
    (pod,) = live(cluster)
    cluster.say(pod, "Succeeded")
    cluster.delete(PODS, pod["metadata"]["name"], grace=0)
    cluster.settle()
    assert status(cluster)["succeeded"] == 1
    assert pod["metadata"]["uid"] not in {each["metadata"]["uid"] for each in cluster.all(PODS)}
    assert len(live(cluster)) == 1


def test_each_index_succeeds_once(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=4, parallelism=2, completionMode="Indexed", backoffLimit=9))
    cluster.settle()
    first = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod for pod in live(cluster)}
    assert set(first) == {"0", "1"}
    assert first["1"]["spec"]["hostname"] == "pi-1"
    assert first["1"]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    cluster.say(first["0"], "Failed")
    cluster.say(first["1"], "Succeeded")
    cluster.wait(30)
    for _ in range(3):
        for pod in live(cluster):
            cluster.say(pod, "Succeeded")
        cluster.wait(30)
    found = status(cluster)
    assert (found["completedIndexes"], found["succeeded"], found["failed"]) == ("0-3", 4, 1)
    assert "Complete" in found["conditions"]


def test_a_suspended_job_has_no_pods_and_its_clock_starts_again(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=2, parallelism=2, activeDeadlineSeconds=60))
    cluster.settle()
    cluster.wait(50)
    cluster.patch(JOBS, "pi", {"spec": {"suspend": True}})
    cluster.settle()
    found = status(cluster)
    assert cluster.all(PODS) == []
    assert found["conditions"] == {"Suspended": "JobSuspended"}
    assert "startTime" not in found
    assert "failed" not in found
    cluster.wait(100)
    cluster.patch(JOBS, "pi", {"spec": {"suspend": False}})
    cluster.wait(50)
    assert len(live(cluster)) == 2
    assert status(cluster)["conditions"] == {}
    cluster.wait(20)
    cluster.say_all("Running")
    cluster.settle()
    assert status(cluster)["conditions"] == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
    assert status(cluster)["failed"] == 2


def test_a_job_that_is_over_is_deleted_when_its_time_has_come(cluster: Cluster) -> None:
    cluster.create(JOBS, job(ttlSecondsAfterFinished=30))
    cluster.settle()
    cluster.say_all("Succeeded")
    cluster.wait(29)
    assert cluster.names(JOBS) == ["pi"]
    cluster.wait(2)
    assert cluster.get(JOBS, "pi")["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_pods_of_a_job_that_is_gone_are_let_go(cluster: Cluster) -> None:
    cluster.create(JOBS, job())
    cluster.settle()
    cluster.delete(JOBS, "pi")
    for pod in cluster.all(PODS):
        cluster.delete(PODS, pod["metadata"]["name"], grace=0)
    assert cluster.all(PODS) != []
    cluster.settle()
    assert cluster.all(PODS) == []


def test_a_job_without_a_number_of_completions_ends_with_its_pods(cluster: Cluster) -> None:
    cluster.create(JOBS, job(parallelism=3))
    cluster.patch(JOBS, "pi", {"spec": {"backoffLimit": 6}})
    cluster.settle()
    first, *rest = live(cluster)
    cluster.say(first, "Succeeded")
    cluster.settle()
    assert "Complete" not in status(cluster)["conditions"]
    assert len(live(cluster)) == 2
    for pod in rest:
        cluster.say(pod, "Succeeded")
    cluster.settle()
    assert status(cluster)["succeeded"] == 3
    assert "Complete" in status(cluster)["conditions"]


@given(st.sets(st.integers(0, 40)))
def test_the_text_of_indexes_says_them_all(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 41) == indexes


def test_indexes_are_written_as_runs() -> None:
    assert format_indexes({0, 1, 2, 5, 7, 8}) == "0-2,5,7,8"


def test_a_look_at_a_job_that_runs_asks_for_nothing(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job(completions=3, parallelism=3))
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    key = next(iter(JobController.interests[0].keys(made)))
    assert not finished(JobController().reconcile(key, cluster.cache, cluster.api.now)).operations


class Pod(dict[str, Any]):
    """A pod that must not be compared with another one: of thousands, each would be compared with each."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("two pods are compared")

    __hash__ = None  # as dicts have none


def indexed_pod(number: int, phase: str) -> Pod:
    index = {"batch.kubernetes.io/job-completion-index": str(number)}
    metadata = {"name": f"p{number}", "uid": f"u{number}", "annotations": index, "labels": index}
    metadata |= {"finalizers": ["batch.kubernetes.io/job-tracking"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Pod({"metadata": metadata, "spec": {}, "status": {"phase": phase}})


def test_pods_of_a_job_are_counted_and_chosen_without_comparing_them() -> None:
    spec = {"completionMode": "Indexed", "completions": 6, "parallelism": 6, "backoffLimitPerIndex": 1}
    made = {"metadata": {"name": "pi", "uid": "u"}, "spec": spec}
    found = count(made, [indexed_pod(number, "Failed" if number % 2 else "Running") for number in range(6)], over=False)
    assert sorted(found.last_failed) == [1, 3, 5]
    running = [indexed_pod(number, "Running") for number in range(6)]
    assert [each["metadata"]["name"] for each in surplus(made, running, 3, {4, 5})] == ["p5", "p4", "p0"]


def test_a_pod_is_counted_without_looking_through_those_that_are_counted() -> None:
    class Uids(list[str]):
        def __contains__(self, uid: object) -> bool:
            raise AssertionError("a list of uids is looked through")

    found = Count(0, 0, {"succeeded": Uids(["u1"]), "failed": Uids(["u2"])})
    for number in range(4):
        found.note("succeeded", indexed_pod(number, "Succeeded"))
        found.note("failed", indexed_pod(number, "Failed"))
    assert found.uncounted == {"succeeded": ["u1", "u0", "u3"], "failed": ["u2"]}
