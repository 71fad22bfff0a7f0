"""The controller of Volcano's jobs survives whatever objects there are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kilauea.api.kinds import COMMANDS, POD_GROUPS, PODS, VC_JOBS
from kilauea.api.ports import Key
from support.jobs_at_work import NAMESPACE, JobWorld, job, policy, task
from support.simulated import merge

ODD_SPECS: list[dict[str, Any]] = [
    {"tasks": []},
    {"tasks": None},
    {"minAvailable": 100},
    {"minAvailable": 0},
    {"minAvailable": -1},
    {"maxRetry": 0},
    {"maxRetry": -5},
    {"minSuccess": 0},
    {"queue": ""},
    {"plugins": {}},
    {"plugins": None},
    {"policies": [{}]},
    {"policies": [{"action": "RestartJob"}, {"event": "PodFailed"}, {"exitCode": 0, "action": "AbortJob"}]},
    {"policies": [{"events": [], "event": "", "action": "AbortJob", "timeout": ""}]},
    {"policies": [{"event": "PodFailed", "action": "AbortJob", "timeout": "-5s"}]},
    {"volumes": []},
    {"volumes": [{"mountPath": "/a"}]},
    {"tasks": [{"replicas": 2, "template": {"spec": {"containers": []}}}]},
    {"tasks": [{"name": "a", "template": {}}]},
    {"tasks": [{"name": "a", "replicas": -3, "template": {"spec": {"containers": []}}}]},
    {"tasks": [{"name": "a", "replicas": 1, "dependsOn": {"name": ["a"]}, "template": {"spec": {"containers": []}}}]},
    {"tasks": [{"name": "a", "replicas": 1, "dependsOn": {"name": ["x"]}, "template": {"spec": {"containers": []}}}]},
]
ODD_STATUSES: list[dict[str, Any]] = [
    {},
    {"state": {}},
    {"state": {"phase": "Dancing"}},
    {
        "state": {"phase": "Running"},
        "taskStatusCount": {"a": {"phase": {"Running": 900}}, "gone": {"phase": {"Odd": 3}}},
    },
    {"state": {"phase": "Running"}, "taskStatusCount": {"a": {}}, "conditions": []},
    {"state": {"phase": "Restarting"}},
    {"state": {"phase": "Restarting"}, "retryCount": 1000, "version": 77},
    {"state": {"phase": "Aborting"}, "version": -4},
    {"state": {"phase": "Completed"}, "conditions": [{"status": "Odd"}]},
    {"state": {"phase": "Failed"}, "controlledResources": {"odd": "odd"}, "minAvailable": 9},
]
ODD_PODS: list[dict[str, Any]] = [
    {"status": {}},
    {"status": {"phase": "Dancing"}},
    {"status": {"phase": "Failed", "containerStatuses": []}},
    {"status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {}}]}},
    {"status": {"phase": "Running", "containerStatuses": [{"name": "c"}], "initContainerStatuses": [{"name": "i"}]}},
    {"metadata": {"annotations": {"volcano.sh/job-version": "many"}}},
    {"metadata": {"annotations": {"volcano.sh/job-version": "99"}}},
    {"metadata": {"annotations": {"volcano.sh/task-spec": "x"}}},
    {"metadata": {"annotations": {"volcano.sh/task-spec": None}}},
    {"metadata": {"annotations": None}},
    {"metadata": {"name": "m-a-x"}},
    {"metadata": {"name": "odd"}},
    {"metadata": {"name": "m-a-007"}},
    {"metadata": {"creationTimestamp": None}},
    {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
]
EVERYTHING = [policy("RestartPod", "PodFailed", "PodEvicted", "TaskFailed"), policy("RestartTask", "*", timeout="5s")]


def live(world: JobWorld) -> None:
    """Let everything go on for a while."""
    for _ in range(3):
        world.start()
        world.wait(30)
    world.settle()


@pytest.mark.parametrize("spec", ODD_SPECS)
def test_any_specification_is_survived(spec: dict[str, Any]) -> None:
    manifest = job(task("a", 2), policies=EVERYTHING)
    manifest["spec"].update(copy.deepcopy(spec))
    world = JobWorld(manifest)
    live(world)
    assert world.phase in ("Pending", "Running")
    for name in world.pods():
        world.say(name, "Failed")
    live(world)
    world.order("AbortJob")
    live(world)
    assert world.phase in ("Aborted", "Failed", "Completed")


@pytest.mark.parametrize("status", ODD_STATUSES)
def test_any_status_is_survived(status: dict[str, Any]) -> None:
    world = JobWorld({**job(task("a", 2), policies=EVERYTHING), "status": copy.deepcopy(status)})
    live(world)
    before = (status.get("state") or {}).get("phase")
    ends = {"Aborting": "Aborted", "Completed": "Completed", "Failed": "Failed"}
    if status.get("retryCount"):
        assert world.phase == "Failed"
    else:
        assert world.phase == ends.get(str(before), "Running")


@pytest.mark.parametrize("odd", ODD_PODS)
def test_any_pod_is_survived_and_does_not_keep_the_others_from_running(odd: dict[str, Any]) -> None:
    world = JobWorld(job(task("a", 2), policies=EVERYTHING))
    world.start()
    like = merge(world.get(PODS, Key(NAMESPACE, "m-a-0")), odd)
    world.remove(PODS, Key(NAMESPACE, "m-a-0"))
    world.put(PODS, like)
    live(world)
    assert world.phase in ("Running", "Failed", "Restarting", "Pending")
    assert "m-a-1" in world.uids()


@pytest.mark.parametrize("status", [{}, {"phase": ""}, {"phase": "Dancing"}, {"phase": "Running", "conditions": None}])
def test_any_group_is_survived(status: dict[str, Any]) -> None:
    world = JobWorld(job(task("a", 1)))
    world.settle()
    for group in world.list(POD_GROUPS):
        world.put(POD_GROUPS, {**group, "status": status, "metadata": {**group["metadata"], "annotations": {}}})
    live(world)
    assert world.phase == "Running"


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"action": None},
        {"action": "Odd"},
        {"action": "OpenQueue", "target": {"kind": "Queue", "name": "m"}},
        {"target": {"apiVersion": "batch/v1", "kind": "Job", "name": "m"}},
    ],
)
def test_any_command_is_survived(command: dict[str, Any]) -> None:
    world = JobWorld(job(task("a", 1)))
    world.start()
    target = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": "m", "uid": "u"}
    world.put(COMMANDS, {"metadata": {"name": "c", "namespace": NAMESPACE}, "target": target, **command})
    live(world)
    assert world.phase == "Running"
    assert bool(world.list(COMMANDS)) == ("target" in command)


def test_an_action_that_there_is_not_is_said_of_the_job() -> None:
    world = JobWorld(job(task("a", 1)))
    world.start()
    world.order("Dance")
    live(world)
    assert any(each.startswith('CommandIssued: invalid action "Dance" for a job: use one of ') for each in world.told)
    assert world.phase == "Running"


@pytest.mark.parametrize("at_first", [1, 2_147_483_647])
def test_a_mistyped_number_of_pods_makes_none_and_is_said(at_first: int) -> None:
    world = JobWorld(job(task("a", at_first)))
    world.start()
    before = world.uids()
    found = copy.deepcopy(world.list(VC_JOBS)[0])
    world.put(VC_JOBS, merge(found, {"spec": {"tasks": [{**found["spec"]["tasks"][0], "replicas": 2_147_483_647}]}}))
    live(world)
    assert world.uids() == before
    words = "FailedCreate: Error creating pods: 2147483647 pods are requested, and a job may have 100000: set fewer"
    assert any(each.startswith(words) for each in world.told)
