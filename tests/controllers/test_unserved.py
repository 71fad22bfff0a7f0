"""A pod that names a scheduler which does not run says so, and which names are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import POD_GROUPS, PODS
from kilauea.controllers.objects import condition_of
from kilauea.controllers.unserved import UnservedPodController
from support.controlled import Cluster

MESSAGE = 'schedulerName is "mine", and this scheduler serves default-scheduler, volcano; run the other one, or '


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(UnservedPodController(("volcano", "default-scheduler")), volcano=True)


def pod(cluster: Cluster, scheduler: str) -> None:
    metadata = {"name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    cluster.create(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
    cluster.create(PODS, {"metadata": metadata, "spec": spec})
    cluster.wait(1)


def test_the_pod_and_its_group_say_it_in_an_event_and_a_condition(cluster: Cluster) -> None:
    pod(cluster, "mine")
    assert cluster.told == []
    cluster.wait(2)
    assert [(name, reason) for name, reason, _ in cluster.told] == [("p", "FailedScheduling"), ("g", "NoScheduler")]
    assert all(message.startswith(MESSAGE) for _, _, message in cluster.told)
    condition = condition_of(cluster.get(PODS, "p"), "PodScheduled") or {}
    assert (condition["status"], condition["reason"]) == ("False", "NoScheduler")
    condition = condition_of(cluster.get(POD_GROUPS, "g"), "NoScheduler") or {}
    assert condition["status"] == "True"
    assert condition["message"].startswith(MESSAGE)


def test_it_is_said_once(cluster: Cluster) -> None:
    pod(cluster, "mine")
    cluster.wait(60)
    assert len(cluster.told) == 2


def test_nothing_is_said_of_a_pod_that_some_scheduler_has_looked_at(cluster: Cluster) -> None:
    pod(cluster, "mine")
    looked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    cluster.patch(PODS, "p", {"status": {"conditions": [looked]}}, "status")
    cluster.wait(60)
    assert cluster.told == []


def test_nothing_is_said_of_a_pod_whose_scheduler_runs(cluster: Cluster) -> None:
    pod(cluster, "volcano")
    cluster.wait(60)
    assert cluster.told == []
