"""What is known of the pods of a Volcano job follows their changes, so that no look at the job reads them."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.aggregates import Aggregates
from kilauea.api.kinds import PODS
from kilauea.api.ports import Key, Obj, Resource
from kilauea.controllers.vcjobs.roster import ROSTERS, Roster, roster_of
from support.jobs_at_work import JobWorld, job, policy, task


class CountingWorld(JobWorld):
    """Counts the pods that are read."""

    reads = 0

    def get(self, resource: Resource, key: Key) -> Obj | None:
        self.reads += resource == PODS
        return super().get(resource, key)


def looked_at(world: CountingWorld) -> int:
    """The number of pods that a look at the job reads."""
    world.reads = 0
    world.controller.reconcile(world.key, world, world.now)
    return world.reads


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "TaskCompleted"])
def test_a_look_at_a_job_reads_none_of_its_pods(event: str) -> None:
    world = CountingWorld(job(task("a", 20), task("b", 20), policies=[policy("RestartPod", event)]))
    world.settle()
    world.admit()
    world.settle()
    assert (len(world.pods()), looked_at(world)) == (40, 0)
    world.say_all()
    world.settle()
    assert (world.phase, world.status["running"], looked_at(world)) == ("Running", 40, 0)
    world.say("m-a-3", "Succeeded")
    world.evict("m-b-4")
    assert looked_at(world) == 0


def pod(name: str, task_name: str = "a", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "m", "uid": "u", "controller": True}
    marks = {"volcano.sh/job-name": "m", "volcano.sh/task-spec": task_name, "volcano.sh/job-version": "0"}
    about = {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner], "annotations": marks}
    return {"metadata": {**about, **metadata}, "status": {"phase": phase}}


def roster(*pods: dict[str, Any]) -> Roster:
    """A roster that pods were put into, one after another."""
    made = Roster()
    for each in pods:
        made.put(Key("ns", each["metadata"]["name"]), each)
    return made


def test_a_task_knows_whether_all_its_pods_are_among_its_replicas() -> None:
    members = roster(pod("m-a-0"), pod("m-a-4")).of("a")
    assert [members.are_within(replicas) for replicas in (4, 5)] == [False, True]
    members.drop("m-a-4")
    assert [members.are_within(replicas) for replicas in (0, 1)] == [False, True]
    for odd in ("m-a-00", "other-a-0", "m-a", "m-a--1"):
        found = roster(pod("m-a-0"), pod(odd))
        assert not found.of("a").are_within(9)
        found.drop(Key("ns", odd))
        assert found.of("a").are_within(9)


def test_a_pod_that_changes_is_counted_once() -> None:
    found = roster(pod("m-a-0"), pod("m-a-0", phase="Failed"), pod("m-a-1"), pod("m-a-1", "b"))
    assert [(name, members.count(lambda state: state.phase == "Failed")) for name, members in found] == [
        ("a", 1),
        ("b", 0),
    ]
    assert [each.task for _, members in found for each in members.where()] == ["a", "b"]
    found.put(Key("ns", "m-a-1"), pod("m-a-1", annotations={}))
    assert [name for name, _ in found] == ["a"]


def test_pods_are_of_the_job_that_their_controller_names() -> None:
    aggregates = Aggregates(ROSTERS)
    key, value = Key("ns", "m-a-0"), roster_of("ns", "m", "u")
    aggregates.move(key, None, pod("m-a-0"))
    found = aggregates.find(value)
    assert found is not None
    assert len(found) == 1
    aggregates.move(key, pod("m-a-0"), pod("m-a-0", ownerReferences=[]))
    assert aggregates.find(value) is None


def test_a_pod_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    aggregates = Aggregates(ROSTERS)
    good, odd = pod("m-a-0"), {**pod("m-a-1"), "status": {"containerStatuses": ["odd"]}}
    aggregates.move(Key("ns", "m-a-0"), None, good)
    aggregates.move(Key("ns", "m-a-1"), None, odd)
    found = aggregates.find(roster_of("ns", "m", "u"))
    assert found is not None
    assert len(found) == 1
    assert "an aggregate cannot read m-a-1" in caplog.text
