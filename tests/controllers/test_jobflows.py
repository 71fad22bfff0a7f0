"""Flows of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import JOB_FLOWS, JOB_TEMPLATES, VC_JOBS
from kilauea.api.times import format_time
from kilauea.controllers.jobflows.controller import MOST_TOLD, JobFlowController
from kilauea.controllers.jobflows.templates import JobTemplateController
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(JobFlowController(), JobTemplateController(), volcano=True)


def template(cluster: Cluster, name: str) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    spec = {"schedulerName": "volcano", "tasks": [{"name": "t", "replicas": 1, "template": pod}]}
    cluster.create(JOB_TEMPLATES, {"metadata": {"name": name, "labels": {"not": "copied"}}, "spec": spec})


def flow(cluster: Cluster, vertices: dict[str, str], **spec: Any) -> None:
    """A flow of vertices with the names on which they depend, separated by blanks."""
    flows: list[dict[str, Any]] = []
    for name, targets in vertices.items():
        depends = {"dependsOn": {"targets": targets.split()}} if targets else {}
        flows.append({"name": name, **depends})
    cluster.create(JOB_FLOWS, {"metadata": {"name": "f"}, "spec": {"flows": flows, **spec}})
    cluster.settle()


def say(cluster: Cluster, job: str, phase: str, **status: Any) -> None:
    """Say a phase of a job, as the controller of jobs does."""
    stamp = format_time(cluster.api.now)
    before = (cluster.get(VC_JOBS, job).get("status") or {}).get("conditions") or []
    conditions = [*before, {"status": phase, "lastTransitionTime": stamp}]
    state = {"phase": phase, "lastTransitionTime": stamp}
    cluster.patch(VC_JOBS, job, {"status": {"state": state, "conditions": conditions, **status}}, "status")
    cluster.settle()


def status(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(JOB_FLOWS, "f")["status"]
    return found


def phase(cluster: Cluster) -> str:
    return str(status(cluster)["state"]["phase"])


def templates(cluster: Cluster, names: str) -> None:
    for name in names.split():
        template(cluster, name)


def test_jobs_in_sequence_are_made_one_after_the_other(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": "a"})
    assert (cluster.names(VC_JOBS), phase(cluster)) == (["f-a"], "Pending")
    say(cluster, "f-a", "Running")
    assert (cluster.names(VC_JOBS), phase(cluster)) == (["f-a"], "Running")
    say(cluster, "f-a", "Completed")
    assert (cluster.names(VC_JOBS), phase(cluster)) == (["f-a", "f-b"], "Running")
    say(cluster, "f-b", "Completed")
    assert phase(cluster) == "Succeed"
    assert [words for _, reason, words in cluster.told if reason == "Created"] == [
        "create a job named f-a!",
        "create a job named f-b!",
    ]


def test_a_job_says_what_it_was_made_from(cluster: Cluster) -> None:
    templates(cluster, "a")
    flow(cluster, {"a": ""})
    job = cluster.get(VC_JOBS, "f-a")
    marks = {"volcano.sh/createdByJobTemplate": "default.a", "volcano.sh/createdByJobFlow": "default.f"}
    assert job["metadata"]["labels"] == marks
    assert job["metadata"]["annotations"] == marks
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("JobFlow", "f", True)
    assert job["spec"]["tasks"][0]["name"] == "t"
    assert cluster.get(JOB_TEMPLATES, "a")["status"] == {"jobDependsOnList": ["f-a"]}


def test_a_diamond_joins_when_both_sides_are_completed(cluster: Cluster) -> None:
    templates(cluster, "a b c d")
    flow(cluster, {"d": "b c", "b": "a", "c": "a", "a": ""})
    say(cluster, "f-a", "Completed")
    assert cluster.names(VC_JOBS) == ["f-a", "f-b", "f-c"]
    say(cluster, "f-b", "Completed")
    assert cluster.names(VC_JOBS) == ["f-a", "f-b", "f-c"]
    say(cluster, "f-c", "Completed")
    assert cluster.names(VC_JOBS) == ["f-a", "f-b", "f-c", "f-d"]


@pytest.mark.parametrize(
    ("phases", "then"),
    [
        ({"f-a": "Pending"}, "Pending"),
        ({"f-a": "Running"}, "Running"),
        ({"f-a": "Failed"}, "Failed"),
        ({"f-a": "Terminated"}, "Failed"),
        ({"f-a": "Aborted"}, "Pending"),
        ({"f-a": "Running", "f-b": "Failed"}, "Failed"),
        ({"f-a": "Completed", "f-b": "Running"}, "Running"),
        ({"f-a": "Completed", "f-b": "Terminated"}, "Failed"),
        ({"f-a": "Completed", "f-b": "Completed"}, "Succeed"),
    ],
)
def test_the_phase_of_a_flow_follows_from_its_jobs(cluster: Cluster, phases: dict[str, str], then: str) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": ""})
    for job, each in phases.items():
        say(cluster, job, each)
    assert phase(cluster) == then


@pytest.mark.parametrize("targets", [["", "", "b"], ["b", "", ""]])
def test_a_name_that_stands_twice_makes_one_job_as_soon_as_one_entry_may(cluster: Cluster, targets: list[str]) -> None:
    templates(cluster, "a b")
    entries = zip("aba", targets, strict=True)
    flows = [{"name": name, "dependsOn": {"targets": target.split()}} for name, target in entries]
    cluster.create(JOB_FLOWS, {"metadata": {"name": "f"}, "spec": {"flows": flows}})
    cluster.settle()
    assert cluster.names(VC_JOBS) == ["f-a", "f-b"]
    say(cluster, "f-a", "Completed")
    say(cluster, "f-b", "Completed")
    assert (phase(cluster), status(cluster)["completedJobs"]) == ("Succeed", ["f-a", "f-b"])


def test_after_a_failure_nothing_more_is_made(cluster: Cluster) -> None:
    templates(cluster, "a b c")
    flow(cluster, {"a": "", "b": "", "c": "b"})
    say(cluster, "f-a", "Failed")
    say(cluster, "f-b", "Completed")
    assert (phase(cluster), cluster.names(VC_JOBS)) == ("Failed", ["f-a", "f-b"])
    assert status(cluster)["failedJobs"] == ["f-a"]


def test_jobs_are_listed_by_phase_with_what_became_of_them(cluster: Cluster) -> None:
    templates(cluster, "a b c")
    flow(cluster, {"a": "", "b": "", "c": ""})
    begin = format_time(cluster.api.now)
    say(cluster, "f-a", "Running", taskStatusCount={"t": {"phase": {"Running": 1}}})
    say(cluster, "f-b", "Aborted")
    say(cluster, "f-c", "Completing")
    cluster.wait(5)
    say(
        cluster,
        "f-a",
        "Completed",
        runningDuration="5s",
        taskStatusCount={"t": {"phase": {"Running": None, "Succeeded": 1}}},
    )
    found = status(cluster)
    assert (found["completedJobs"], found["unKnowJobs"]) == (["f-a"], ["f-b"])
    assert not {"runningJobs", "pendingJobs", "failedJobs", "terminatedJobs"} & set(found)
    end = format_time(cluster.api.now)
    assert found["conditions"]["f-a"] == {
        "phase": "Completed",
        "createTime": begin,
        "runningDuration": "5s",
        "taskStatusCount": {"t": {"phase": {"Succeeded": 1}}},
    }
    assert found["jobStatusList"][0] == {
        "name": "f-a",
        "state": "Completed",
        "startTimestamp": begin,
        "endTimestamp": end,
        "runningHistories": [
            {"startTimestamp": begin, "endTimestamp": end, "state": "Running"},
            {"startTimestamp": end, "state": "Completed"},
        ],
    }


@pytest.mark.parametrize(("policy", "left"), [("retain", ["f-a"]), ("delete", []), (None, ["f-a"])])
def test_jobs_are_deleted_once_the_flow_has_succeeded_if_that_is_wished(
    cluster: Cluster, policy: str | None, left: list[str]
) -> None:
    templates(cluster, "a")
    flow(cluster, {"a": ""}, **({"jobRetainPolicy": policy} if policy else {}))
    say(cluster, "f-a", "Completed")
    assert cluster.names(VC_JOBS) == left
    assert (phase(cluster), status(cluster)["completedJobs"]) == ("Succeed", ["f-a"])


def test_a_failed_flow_keeps_its_jobs(cluster: Cluster) -> None:
    templates(cluster, "a")
    flow(cluster, {"a": ""}, jobRetainPolicy="delete")
    say(cluster, "f-a", "Failed")
    assert cluster.names(VC_JOBS) == ["f-a"]


def test_a_completed_job_that_is_gone_is_not_run_again(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": "a"})
    say(cluster, "f-a", "Completed")
    cluster.delete(VC_JOBS, "f-a")
    cluster.settle()
    assert cluster.names(VC_JOBS) == ["f-b"]
    assert status(cluster)["completedJobs"] == ["f-a"]
    say(cluster, "f-b", "Completed")
    assert phase(cluster) == "Succeed"


def test_a_failed_flow_still_says_what_failed_when_the_job_is_gone(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": ""})
    say(cluster, "f-a", "Running")
    say(cluster, "f-b", "Failed", runningDuration="3s")
    before = status(cluster)
    assert (phase(cluster), before["failedJobs"]) == ("Failed", ["f-b"])
    cluster.delete(VC_JOBS, "f-b")
    cluster.settle()
    assert (cluster.names(VC_JOBS), status(cluster)) == (["f-a"], before)


def test_a_job_that_was_deleted_before_its_end_is_made_again(cluster: Cluster) -> None:
    templates(cluster, "a")
    flow(cluster, {"a": ""})
    say(cluster, "f-a", "Running")
    first = cluster.get(VC_JOBS, "f-a")["metadata"]["uid"]
    cluster.delete(VC_JOBS, "f-a")
    cluster.settle()
    assert cluster.get(VC_JOBS, "f-a")["metadata"]["uid"] != first


def test_a_template_that_is_not_there_is_said_and_waited_for(cluster: Cluster) -> None:
    flow(cluster, {"a": ""})
    assert cluster.told[0][:2] == ("f", "SyncJobFlow")
    assert cluster.told[0][2].startswith('SyncJobFlow JobFlow failed for jobtemplate "a" does not exist')
    templates(cluster, "a")
    cluster.wait(6)
    assert cluster.names(VC_JOBS) == ["f-a"]
    assert cluster.next_due() is None


def test_a_job_of_somebody_else_with_the_name_is_left_alone(cluster: Cluster) -> None:
    templates(cluster, "a b")
    cluster.create(VC_JOBS, {"metadata": {"name": "f-a"}, "spec": {}})
    flow(cluster, {"a": "", "b": ""})
    assert cluster.names(VC_JOBS) == ["f-a", "f-b"]
    assert "does not belong to this flow" in cluster.told[0][2]
    assert "f-a" not in status(cluster).get("conditions", {})


def test_a_name_that_is_too_long_for_a_label_is_said(cluster: Cluster) -> None:
    name = "a" * 60
    templates(cluster, name)
    flow(cluster, {name: ""})
    assert cluster.names(VC_JOBS) == []
    assert "is too long for a label" in cluster.told[-1][2]


def test_a_new_vertex_of_a_flow_that_runs_is_made(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": ""})
    say(cluster, "f-a", "Running")
    cluster.patch(JOB_FLOWS, "f", {"spec": {"flows": [{"name": "a"}, {"name": "b"}]}})
    cluster.settle()
    assert cluster.names(VC_JOBS) == ["f-a", "f-b"]


@pytest.mark.parametrize("spec", [{}, {"flows": []}, {"flows": [{"name": "x", "dependsOn": {"targets": ["x"]}}]}])
def test_flows_that_can_never_begin_wait(cluster: Cluster, spec: dict[str, Any]) -> None:
    templates(cluster, "x")
    cluster.create(JOB_FLOWS, {"metadata": {"name": "f"}, "spec": spec})
    cluster.settle()
    assert (phase(cluster), cluster.names(VC_JOBS)) == ("Pending", [])


def test_a_vertex_that_depends_on_none_that_is_there_is_said(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": "x"})
    assert cluster.names(VC_JOBS) == ["f-a"]
    assert 'b depends on "x", which is not in spec.flows' in cluster.told[-1][2]


@pytest.mark.parametrize(
    ("vertices", "words"),
    [({"a": "b", "b": "a"}, "a, b form a dependency cycle"), ({}, "spec.flows is empty")],
)
def test_a_flow_that_goes_nowhere_says_why(cluster: Cluster, vertices: dict[str, str], words: str) -> None:
    flow(cluster, vertices)
    assert any(words in each[2] for each in cluster.told)
    assert phase(cluster) == "Pending"


def test_fields_that_have_no_effect_are_said(cluster: Cluster) -> None:
    templates(cluster, "a b")
    probe = {"tcpSocketList": [{"port": 80}]}
    vertices = [
        {"name": "a", "patch": {"jobSpec": {"minAvailable": 7}}},
        {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}},
    ]
    cluster.create(JOB_FLOWS, {"metadata": {"name": "f"}, "spec": {"flows": vertices}})
    cluster.settle()
    assert cluster.get(VC_JOBS, "f-a")["spec"].get("minAvailable") is None
    say(cluster, "f-a", "Completed")
    assert cluster.names(VC_JOBS) == ["f-a", "f-b"]
    assert [words.split(" has")[0] for _, reason, words in cluster.told if reason == "IgnoredField"] == [
        "patch of a",
        "dependsOn.probe of b",
    ]


def test_a_status_with_holes_does_no_harm(cluster: Cluster) -> None:
    templates(cluster, "a b")
    flow(cluster, {"a": "", "b": "a"})
    holes = {"jobStatusList": [{"state": "Completed"}, {}], "conditions": {"f-a": {}, "x": {}}, "state": {}}
    cluster.patch(JOB_FLOWS, "f", {"status": holes}, "status")
    say(cluster, "f-a", "Completed", runningDuration="forever")
    assert cluster.names(VC_JOBS) == ["f-a", "f-b"]
    assert [each["name"] for each in status(cluster)["jobStatusList"]] == ["f-a", "f-b"]
    assert list(status(cluster)["conditions"]) == ["f-a", "f-b"]


def test_a_template_with_dots_in_its_name_knows_its_jobs_and_forgets_them(cluster: Cluster) -> None:
    templates(cluster, "a.b other")
    flow(cluster, {"a.b": ""})
    assert cluster.get(JOB_TEMPLATES, "a.b")["status"] == {"jobDependsOnList": ["f-a.b"]}
    assert "status" not in cluster.get(JOB_TEMPLATES, "other")
    cluster.delete(JOB_FLOWS, "f")
    cluster.delete(VC_JOBS, "f-a.b")
    cluster.settle()
    assert cluster.get(JOB_TEMPLATES, "a.b")["status"] == {"jobDependsOnList": []}


@pytest.mark.slow
def test_a_flow_of_very_many_vertices_without_templates_takes_little_time_and_few_events(cluster: Cluster) -> None:
    started = time.process_time()
    flow(cluster, {f"v{number}": "" for number in range(20_000)})
    assert time.process_time() - started < 4, "quadratic work took over ten times as long"
    assert len({words for _, _, words in cluster.told}) == MOST_TOLD
