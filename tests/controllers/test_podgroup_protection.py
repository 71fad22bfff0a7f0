"""PodGroups of Kubernetes that are deleted stay as long as pods of them run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kilauea.api.kinds import KUBERNETES_POD_GROUPS, POD_GROUPS, PODS
from kilauea.controllers.podgroup_protection import PROTECTION, PodGroupProtectionController
from kilauea.controllers.podgroups import PodGroupController
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(PodGroupProtectionController(), PodGroupController(), volcano=True)


def group(cluster: Cluster, name: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    made = cluster.create(KUBERNETES_POD_GROUPS, body)
    assert made["metadata"]["finalizers"] == [PROTECTION]


def pod(cluster: Cluster, name: str, of: str) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": of}, "containers": [container]}
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def names(cluster: Cluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.all(KUBERNETES_POD_GROUPS)]


def test_a_group_goes_with_the_last_of_its_pods(cluster: Cluster) -> None:
    for name in ("used", "free"):
        group(cluster, name)
    pod(cluster, "p", "used")
    cluster.settle()
    for name in ("used", "free"):
        cluster.delete(KUBERNETES_POD_GROUPS, name)
    cluster.settle()
    assert names(cluster) == ["used"]
    cluster.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
    cluster.settle()
    assert names(cluster) == []


def test_a_pod_of_such_a_group_gets_none_of_volcano(cluster: Cluster) -> None:
    group(cluster, "train")
    pod(cluster, "p", "train")
    cluster.settle()
    assert cluster.all(POD_GROUPS) == []
    assert "annotations" not in cluster.get(PODS, "p")["metadata"]
