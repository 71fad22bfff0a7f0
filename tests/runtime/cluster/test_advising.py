"""The advisor tells a group that waits and its pods what would let it start, once, and only while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.api.kinds import NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, VC_JOBS
from kilauea.cli.remedy import advice
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.advising import Advisor
from support.controlled import Cluster

WAITS = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room"}
ADMITS = "Smallest change that admits it: "
CHANGE = f"{ADMITS}add a node like n, with 9 cpu"


class World:
    """A cluster with one node of 8 cpu and an advisor; `told` is by name what objects were told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[tuple[str, str, str]] = []
        self.advisor = Advisor(cluster.client, cluster.cache, SystemClock(), self._record, advice)
        offer = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        cluster.create(NODES, {"metadata": {"name": "n"}})
        cluster.patch(NODES, "n", {"status": {"capacity": offer, "allocatable": offer}}, "status")
        cluster.create(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 1}})

    def _record(self, component: str, record: Any) -> None:
        self.told.append((record.about["metadata"]["name"], record.reason, record.message))

    def waiting(self, cpu: str) -> None:
        annotations = {"scheduling.k8s.io/group-name": "g"}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        status = {"phase": "Inqueue", "conditions": [WAITS]}
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "default"}, "status": status}
        self.cluster.create(POD_GROUPS, group)
        self.cluster.create(PODS, {"metadata": {"name": "p", "annotations": annotations}, "spec": spec})

    def running(self, namespace: str, name: str, cpu: str) -> None:
        annotations = {"scheduling.k8s.io/group-name": name}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "volcano", "nodeName": "n", "containers": [container]}
        group = {"metadata": {"name": name}, "spec": {"minMember": 1, "queue": "default"}}
        self.cluster.create(POD_GROUPS, group | {"status": {"phase": "Running"}}, namespace)
        made = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        self.cluster.create(PODS, made | {"status": {"phase": "Running"}}, namespace)

    def look(self) -> None:
        self.cluster.refresh()
        self.cluster.api.run(self.advisor.look())


@pytest.fixture
def world() -> Iterator[World]:
    cluster = Cluster(volcano=True)
    yield World(cluster)
    cluster.close()


def test_the_group_and_its_pods_are_told_the_change_that_admits_them_once(world: World) -> None:
    world.waiting("9")
    world.look()
    assert world.told == [("g", "SmallestChange", CHANGE), ("p", "SmallestChange", CHANGE)]
    world.look()
    assert len(world.told) == 2


def test_a_change_that_became_another_one_is_told_again(world: World) -> None:
    world.waiting("9")
    world.look()
    world.cluster.patch(NODES, "n", {"spec": {"unschedulable": True}})
    world.cluster.patch(NODES, "n", {"status": {"capacity": {"cpu": "16"}, "allocatable": {"cpu": "16"}}}, "status")
    world.look()
    assert world.told[-1] == ("p", "SmallestChange", "Smallest change that admits it: uncordon node n")


def test_a_job_of_another_namespace_is_not_named(world: World) -> None:
    world.cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    world.running("other", "secret-merger", "6")
    world.waiting("7")
    world.look()
    said = {message for _, _, message in world.told}
    assert len(said) == 1
    assert "one job fewer in another namespace" in said.pop()


def test_a_job_of_the_same_namespace_is_named(world: World) -> None:
    world.running("default", "mine", "6")
    world.waiting("7")
    world.look()
    assert {message for _, _, message in world.told} == {f"{ADMITS}delete pod group default/mine and its pods"}


def test_nothing_is_told_of_a_group_that_starts(world: World) -> None:
    world.waiting("2")
    world.look()
    assert world.told == []


def test_no_plan_is_made_of_a_job_with_more_pods_than_a_small_cluster_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []

    def planned(_: Advisor, *found: object) -> list[object]:
        plans.append(found)
        return []

    monkeypatch.setattr(Advisor, "_advice", planned)
    world.waiting("9")
    container = {"name": "c", "image": "i"}
    task = {"name": "t", "replicas": 1000, "template": {"spec": {"containers": [container]}}}
    for name, count, phase, made in (
        ("over", 3, "Completed", 1),
        ("small", 1, "Pending", 2),
        ("large", 2, "Pending", 2),
    ):
        tasks = [{**task, "name": f"t{number}"} for number in range(count)]
        spec = {"schedulerName": "volcano", "minAvailable": 1, "queue": "default", "tasks": tasks}
        world.cluster.create(VC_JOBS, {"metadata": {"name": name}, "spec": spec})
        world.cluster.patch(VC_JOBS, name, {"status": {"state": {"phase": phase}}}, "status")
        world.look()
        assert len(plans) == made, name
