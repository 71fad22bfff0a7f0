"""Pods without a group are given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import POD_GROUPS, PODS, REPLICA_SETS
from kilauea.controllers.pod_usage import pod_usage, times
from kilauea.controllers.podgroups import IdleGroupController, PodGroupController
from kilauea.controllers.replicasets import ReplicaSetController
from support.controlled import Cluster, template

GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(PodGroupController(), IdleGroupController(REPLICA_SETS), ReplicaSetController(), volcano=True)


def pod(cluster: Cluster, name: str = "p", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "annotations": annotations or {},
        "labels": {"volcano.sh/preemptable": "true", "app": "x"},
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return cluster.create(
        PODS, {"metadata": metadata, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}
    )


def test_a_pod_on_its_own_is_a_gang_of_one(cluster: Cluster) -> None:
    annotations = {
        "scheduling.volcano.sh/queue-name": "q",
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-max-unavailable": "1",
        "volcano.sh/network-topology-highest-tier": "2",
        "other": "x",
    }
    made = pod(cluster, annotations=annotations)
    cluster.settle()
    (group,) = cluster.all(POD_GROUPS)
    assert group["metadata"]["name"] == f"podgroup-{made['metadata']['uid']}"
    assert group["metadata"]["labels"] == {"volcano.sh/preemptable": "true"}
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true", "volcano.sh/jdb-max-unavailable": "1"}
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    assert "blockOwnerDeletion" not in owner
    assert group["spec"] == {
        "minMember": 1,
        "queue": "q",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        "minResources": {
            "count/pods": "1",
            "cpu": "500m",
            "memory": "1Gi",
            "pods": "1",
            "requests.cpu": "500m",
            "requests.memory": "1Gi",
        },
    }
    assert group["status"] == {"phase": "Pending"}
    assert cluster.get(PODS, "p")["metadata"]["annotations"][GROUP] == group["metadata"]["name"]


@pytest.mark.parametrize("spec", [{"schedulerName": "default-scheduler"}, {"annotations": {GROUP: "mine"}}])
def test_pods_of_others_and_pods_with_a_group_are_left_alone(cluster: Cluster, spec: dict[str, Any]) -> None:
    pod(cluster, **spec)
    cluster.settle()
    assert cluster.all(POD_GROUPS) == []


def workload(replicas: int, **annotations: str) -> dict[str, Any]:
    labels = {"app": "web"}
    made = template(labels, schedulerName="volcano")
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made}
    return {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}


def test_pods_of_one_owner_share_a_group_that_says_what_the_owner_says(cluster: Cluster) -> None:
    annotations = {"scheduling.volcano.sh/group-min-member": "3", "volcano.sh/service.type": "online", "x": "y"}
    owner = cluster.create(REPLICA_SETS, workload(3, **annotations))
    cluster.settle()
    (group,) = cluster.all(POD_GROUPS)
    assert group["metadata"]["name"] == f"podgroup-{owner['metadata']['uid']}"
    assert group["metadata"]["annotations"] == {"volcano.sh/service.type": "online"}
    (reference,) = cluster.all(PODS)[0]["metadata"]["ownerReferences"]
    assert reference.pop("blockOwnerDeletion")
    assert group["metadata"]["ownerReferences"] == [reference]
    assert (group["spec"]["minMember"], group["spec"]["minResources"]["pods"]) == (3, "3")
    assert [each["metadata"]["annotations"][GROUP] for each in cluster.all(PODS)] == [group["metadata"]["name"]] * 3


@pytest.mark.parametrize("text", ["-1", "many", "1.5", ""])
def test_a_minimum_that_cannot_be_read_is_one(cluster: Cluster, text: str) -> None:
    cluster.create(REPLICA_SETS, workload(1, **{"scheduling.volcano.sh/group-min-member": text}))
    cluster.settle()
    assert cluster.all(POD_GROUPS)[0]["spec"]["minMember"] == 1


def test_owners_annotations_count_only_if_that_is_wanted(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(PodGroupController(inherit=False), ReplicaSetController(), volcano=True)
    cluster.create(REPLICA_SETS, workload(1, **{"scheduling.volcano.sh/group-min-member": "3", "volcano.sh/a": "b"}))
    cluster.settle()
    (group,) = cluster.all(POD_GROUPS)
    assert group["spec"]["minMember"] == 1
    assert "annotations" not in group["metadata"]


def test_what_others_have_added_to_a_group_stays(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, workload(1))
    cluster.settle()
    (group,) = cluster.all(POD_GROUPS)
    name = group["metadata"]["name"]
    cluster.patch(POD_GROUPS, name, {"metadata": {"annotations": {"mine": "1"}}, "spec": {"queue": "q"}})
    cluster.patch(REPLICA_SETS, "web", {"metadata": {"annotations": {"volcano.sh/a": "b"}}, "spec": {"replicas": 2}})
    cluster.settle()
    found = cluster.get(POD_GROUPS, name)
    assert found["metadata"]["annotations"] == {"mine": "1", "volcano.sh/a": "b"}
    assert found["spec"]["queue"] == "q"


def test_the_group_of_a_workload_that_is_scaled_to_nothing_is_deleted(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, workload(2))
    cluster.settle()
    cluster.patch(REPLICA_SETS, "web", {"spec": {"replicas": 0}})
    cluster.settle()
    assert cluster.all(POD_GROUPS) == []


def test_a_pod_counts_with_its_sidecars_and_the_largest_of_its_other_beginnings() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu, "nvidia.com/gpu": "1"}, "limits": {"cpu": "4"}}, **more}

    spec = {
        "containers": [container("1"), container("2")],
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "overhead": {"cpu": "100m"},
    }
    assert times(pod_usage(spec), 2) == {
        "count/pods": "2",
        "cpu": "12200m",
        "limits.cpu": "24200m",
        "nvidia.com/gpu": "6",
        "pods": "2",
        "requests.cpu": "12200m",
        "requests.nvidia.com/gpu": "6",
    }
