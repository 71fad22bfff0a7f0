"""A Volcano job whose pods cannot be created says why, in its status and on its pod group, until they are there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kilauea.api.kinds import POD_GROUPS, QUEUES, VC_JOBS
from kilauea.api.ports import Create, Key, Operation, Together
from support.jobs_at_work import JobWorld, job, task

QUOTA = 'pods "m-a-1" is forbidden: exceeded quota: rq, requested: cpu=1, used: cpu=1, limited: cpu=1'


def refused(world: JobWorld, message: str, reason: str = "FailedCreate") -> None:
    """The server refuses what the controller wants to create next."""
    outcome = world.controller.reconcile(world.key, world, world.now)
    assert outcome.refused is not None
    for operation in outcome.refused(reason, message):
        world.carry_out(operation)


def condition(world: JobWorld) -> tuple[str, ...]:
    """Status, reason and message of the condition PodsNotCreated of the job's pod group; empty if it has none."""
    (group,) = world.list(POD_GROUPS)
    found = [each for each in group["status"].get("conditions") or () if each["type"] == "PodsNotCreated"]
    return tuple(found[0][name] for name in ("status", "reason", "message")) if found else ()


def admitted() -> JobWorld:
    world = JobWorld(job(task("a", 2)))
    world.settle()
    world.admit()
    return world


def test_a_refused_pod_is_the_reason_of_the_job_and_a_condition_of_its_group() -> None:
    world = admitted()
    refused(world, QUOTA)
    assert world.status["state"]["phase"] == "Pending"
    assert (world.status["state"]["reason"], world.status["state"]["message"]) == ("FailedCreate", QUOTA)
    assert condition(world) == ("True", "FailedCreate", QUOTA)


def test_a_refusal_is_told_in_the_words_for_what_is_refused() -> None:
    claim = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    world = JobWorld(job(task("a", 1), plugins={"svc": []}, volumes=[claim]))
    told: dict[str, tuple[str, ...]] = {}

    def note(operations: Iterable[Operation]) -> None:
        for each in operations:
            if isinstance(each, Together):
                for chain in each.chains:
                    note(chain)
            elif isinstance(each, Create):
                told[each.resource.kind] = tuple(each.wording)

    for _ in range(8):
        outcome = world.controller.reconcile(world.key, world, world.now)
        note(outcome.operations)
        for operation in outcome.operations:
            world.carry_out(operation)
        if world.list(POD_GROUPS) and "Pod" not in told:
            world.admit()
    assert told == {
        "PersistentVolumeClaim": ("PVCError", "Failed to create PVC, err: "),
        "Service": ("PluginError", "Execute plugin when job add failed, err: "),
        "ConfigMap": ("PluginError", "Execute plugin when job add failed, err: "),
        "NetworkPolicy": ("PluginError", "Execute plugin when job add failed, err: "),
        "PodGroup": ("PodGroupError", "Failed to create PodGroup, err: "),
        "Pod": ("FailedCreate", "Error creating pods: "),
    }


@pytest.mark.parametrize("reason", ["PVCError", "PluginError", "PodGroupError"])
def test_the_reason_of_the_job_is_that_of_the_event_about_what_is_refused(reason: str) -> None:
    world = admitted()
    refused(world, QUOTA, reason)
    assert (world.status["state"]["reason"], world.status["state"]["message"]) == (reason, QUOTA)
    assert condition(world) == ("True", reason, QUOTA)
    world.settle()
    assert "reason" not in world.status["state"]
    assert condition(world) == ("False", reason, QUOTA)


def test_the_same_refusal_is_written_once() -> None:
    world = admitted()
    refused(world, QUOTA)
    outcome = world.controller.reconcile(world.key, world, world.now)
    assert outcome.refused is not None
    assert outcome.refused("FailedCreate", QUOTA) == []
    assert outcome.refused("FailedCreate", "another message") != []


def test_the_reason_goes_once_all_pods_are_there() -> None:
    world = admitted()
    refused(world, QUOTA)
    world.settle()
    assert world.pods() == ["m-a-0", "m-a-1"]
    assert "reason" not in world.status["state"]
    assert condition(world) == ("False", "FailedCreate", QUOTA)


def test_a_queue_that_does_not_exist_is_the_reason_until_it_is_created() -> None:
    world = admitted()
    world.remove(QUEUES, Key("", "default"))
    world.look()
    message = "queue default is not found, the job will wait until the queue is created"
    assert (world.status["state"]["reason"], world.status["state"]["message"]) == ("QueueError", message)
    assert condition(world) == ("True", "QueueError", message)
    world.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    world.settle()
    assert "reason" not in world.status["state"]
    assert condition(world)[0] == "False"


def test_a_gang_that_waits_for_itself_is_a_condition_of_its_group_until_it_is_changed() -> None:
    world = JobWorld(job(task("a", 1), task("b", 2, dependsOn={"name": ["a"]})))
    world.settle()
    world.admit()
    world.settle()
    assert condition(world) == ("True", "GangNeverComplete", world.status["state"]["message"])
    tasks = world.job["spec"]["tasks"]
    spec = {"minAvailable": 1, "tasks": [tasks[0], {**tasks[1], "minAvailable": 0}]}
    world.change(VC_JOBS, world.key, {"spec": spec})
    world.settle()
    assert condition(world)[0] == "False"


def test_a_suspended_job_says_how_it_is_resumed() -> None:
    world = admitted()
    world.settle()
    world.order("AbortJob")
    world.settle()
    world.end_going()
    world.settle()
    state = world.status["state"]
    assert (state["phase"], state["reason"]) == ("Aborted", "Suspended")
    assert state["message"] == "the job is suspended, so it has no pods: `vcctl job resume` starts it again"
