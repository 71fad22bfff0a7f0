"""Claims and volumes find each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import ATTRIBUTES_CLASSES, CLAIMS, CSI_CAPACITIES, NODES, PODS, STORAGE_CLASSES, VOLUMES
from kilauea.controllers.volumes.claims import ClaimController
from kilauea.controllers.volumes.classes import DefaultClassController
from kilauea.controllers.volumes.consumers import ConsumerController
from kilauea.controllers.volumes.ephemeral import EphemeralVolumeController
from kilauea.controllers.volumes.protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    VolumeProtectionController,
)
from kilauea.controllers.volumes.volumes import VolumeController
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    protection = ClaimProtectionController(), VolumeProtectionController(), AttributesClassProtectionController()
    return cluster_of(ClaimController(), VolumeController(), ConsumerController(), *protection)


def claim(cluster: Cluster, name: str = "c", size: str = "1Gi", **spec: Any) -> None:
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "",
        **spec,
    }
    cluster.create(CLAIMS, {"metadata": {"name": name}, "spec": asked})
    cluster.settle()


def volume(cluster: Cluster, name: str, size: str = "5Gi", **spec: Any) -> None:
    made = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}, **spec}
    cluster.create(VOLUMES, {"metadata": {"name": name}, "spec": made})
    cluster.settle()


def storage_class(cluster: Cluster, name: str, mode: str = "Immediate", provisioner: str = "example.com/x") -> None:
    cluster.create(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})


def bound_to(cluster: Cluster, name: str = "c") -> str:
    found = cluster.get(CLAIMS, name)
    volume: str = found["spec"].get("volumeName", "")
    assert found["status"]["phase"] == ("Bound" if volume else "Pending")
    return volume


def test_a_claim_takes_the_smallest_volume_that_suits(cluster: Cluster) -> None:
    volume(cluster, "large", "9Gi")
    volume(cluster, "small", "512Mi")
    volume(cluster, "right", "2Gi")
    volume(cluster, "other", "1Gi", accessModes=["ReadOnlyMany"])
    volume(cluster, "class", "1Gi", storageClassName="fast")
    assert cluster.get(VOLUMES, "right")["status"]["phase"] == "Available"
    claim(cluster)
    assert bound_to(cluster) == "right"
    found = cluster.get(CLAIMS, "c")
    assert found["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    assert found["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    held = cluster.get(VOLUMES, "right")
    assert held["status"]["phase"] == "Bound"
    assert (held["spec"]["claimRef"]["name"], held["spec"]["claimRef"]["uid"]) == ("c", found["metadata"]["uid"])
    assert held["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


def test_a_volume_goes_to_the_claim_that_has_waited_longest_and_to_no_other(cluster: Cluster) -> None:
    claim(cluster, "first")
    cluster.api.now += 5_000_000
    claim(cluster, "another")
    assert cluster.told[0][1:] == (
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
    )
    volume(cluster, "v")
    assert [bound_to(cluster, "first"), bound_to(cluster, "another")] == ["v", ""]


def test_a_volume_is_made_for_a_claim_of_a_class_and_goes_with_it(cluster: Cluster) -> None:
    storage_class(cluster, "fast")
    claim(cluster, storageClassName="fast")
    name = f"pvc-{cluster.get(CLAIMS, 'c')['metadata']['uid']}"
    assert bound_to(cluster) == name
    assert ("c", "ProvisioningSucceeded", f"Successfully provisioned volume {name}") in cluster.told
    cluster.delete(CLAIMS, "c")
    cluster.settle()
    assert cluster.names(CLAIMS) == []
    assert cluster.names(VOLUMES) == []


def test_a_claim_waits_for_its_first_consumer_and_for_the_node_that_the_scheduler_has_chosen(cluster: Cluster) -> None:
    storage_class(cluster, "late", "WaitForFirstConsumer")
    claim(cluster, storageClassName="late")
    assert bound_to(cluster) == ""
    assert cluster.told == [("c", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")]
    cluster.create(NODES, {"metadata": {"name": "n"}})
    cluster.patch(CLAIMS, "c", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}})
    cluster.settle()
    assert bound_to(cluster).startswith("pvc-")


def test_a_volume_is_made_where_the_driver_reports_room_for_the_chosen_node(cluster: Cluster) -> None:
    storage_class(cluster, "disk", "WaitForFirstConsumer")
    for name in ("a", "b"):
        cluster.create(NODES, {"metadata": {"name": name, "labels": {"rack": name}}})
        topology = {"matchLabels": {"rack": name}}
        body = {"metadata": {"name": name}, "storageClassName": "disk", "nodeTopology": topology, "capacity": "9Gi"}
        cluster.create(CSI_CAPACITIES, body)
    claim(cluster, storageClassName="disk")
    cluster.patch(CLAIMS, "c", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}})
    cluster.settle()
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["b"]}]}]
    assert cluster.get(VOLUMES, bound_to(cluster))["spec"]["nodeAffinity"] == {"required": {"nodeSelectorTerms": terms}}


def test_a_local_volume_is_taken_only_for_the_node_where_it_is(cluster: Cluster) -> None:
    storage_class(cluster, "local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    for name in ("a", "b"):
        cluster.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]
        affinity = {"required": {"nodeSelectorTerms": terms}}
        volume(cluster, f"on-{name}", storageClassName="local", nodeAffinity=affinity)
    claim(cluster, storageClassName="local")
    assert bound_to(cluster) == ""
    cluster.patch(CLAIMS, "c", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}})
    cluster.settle()
    assert bound_to(cluster) == "on-b"


def test_a_claim_stays_while_a_pod_on_a_node_uses_it_and_a_volume_that_is_kept_is_released(cluster: Cluster) -> None:
    volume(cluster, "v")
    claim(cluster)
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    cluster.delete(CLAIMS, "c")
    cluster.settle()
    assert cluster.names(CLAIMS) == ["c"]
    cluster.delete(PODS, "p", grace=0)
    cluster.settle()
    assert cluster.names(CLAIMS) == []
    assert cluster.get(VOLUMES, "v")["status"]["phase"] == "Released"
    claim(cluster, "next")
    assert bound_to(cluster, "next") == ""


def test_a_class_of_attributes_stays_while_a_claim_or_a_volume_uses_it(cluster: Cluster) -> None:
    for name in ("gold", "silver", "idle"):
        cluster.create(ATTRIBUTES_CLASSES, {"metadata": {"name": name}, "driverName": "d", "parameters": {"a": "b"}})
    claim(cluster, volumeAttributesClassName="gold")
    driven = {"driver": "d.example.com", "volumeHandle": "h"}
    volume(cluster, "v", volumeAttributesClassName="silver", hostPath=None, csi=driven)
    for name in ("gold", "silver", "idle"):
        cluster.delete(ATTRIBUTES_CLASSES, name)
    cluster.settle()
    assert cluster.names(ATTRIBUTES_CLASSES) == ["gold", "silver"]
    cluster.delete(CLAIMS, "c")
    cluster.settle()
    assert cluster.names(ATTRIBUTES_CLASSES) == ["silver"]
    cluster.delete(VOLUMES, "v")
    cluster.settle()
    assert cluster.names(ATTRIBUTES_CLASSES) == []


def test_a_volume_is_kept_for_the_claim_that_it_names(cluster: Cluster) -> None:
    volume(cluster, "v", claimRef={"namespace": "default", "name": "mine"})
    claim(cluster, "other")
    claim(cluster, "mine")
    assert [bound_to(cluster, "other"), bound_to(cluster, "mine")] == ["", "v"]


def test_a_class_that_is_missing_is_said_and_looked_for_again(cluster: Cluster) -> None:
    claim(cluster, storageClassName="fast")
    assert cluster.told == [("c", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')]
    storage_class(cluster, "fast")
    cluster.wait(16)
    assert bound_to(cluster).startswith("pvc-")


def test_volumes_of_other_provisioners_can_be_left_to_them(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(ClaimController(provisioners=("mine",)), VolumeController())
    storage_class(cluster, "fast")
    claim(cluster, storageClassName="fast")
    assert bound_to(cluster) == ""
    assert cluster.told[0][1] == "ExternalProvisioning"


def test_two_claims_do_not_get_one_volume(cluster: Cluster) -> None:
    for name in ("a", "b"):
        asked = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
        cluster.create(CLAIMS, {"metadata": {"name": name}, "spec": asked})
    volume(cluster, "v")
    assert sorted([bound_to(cluster, "a"), bound_to(cluster, "b")]) == ["", "v"]


def test_a_cluster_without_a_class_gets_one_that_serves_claims_without_a_class(
    cluster_of: Callable[..., Cluster],
) -> None:
    cluster = cluster_of(DefaultClassController(), ClaimController(), VolumeController(), ConsumerController())
    cluster.settle()
    assert cluster.names(STORAGE_CLASSES) == ["standard"]
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create(CLAIMS, {"metadata": {"name": "c"}, "spec": asked})
    cluster.settle()
    assert bound_to(cluster) == ""
    cluster.create(NODES, {"metadata": {"name": "n"}})
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, "nodeName": "n"}
    cluster.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    cluster.settle()
    assert bound_to(cluster).startswith("pvc-")


def test_a_cluster_with_a_class_keeps_its_own(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(DefaultClassController())
    storage_class(cluster, "fast")
    cluster.settle()
    assert cluster.names(STORAGE_CLASSES) == ["fast"]


# --- ephemeral volumes


def ephemeral_pod(cluster: Cluster, name: str = "p") -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": asked}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    return cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def test_an_ephemeral_volume_gets_a_claim_that_belongs_to_its_pod(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(EphemeralVolumeController(), ClaimController())
    pod = ephemeral_pod(cluster)
    volume(cluster, "v")
    cluster.settle()
    claim = cluster.get(CLAIMS, "p-scratch")
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (pod["metadata"]["uid"], True)
    assert (claim["metadata"]["labels"], bound_to(cluster, "p-scratch")) == ({"app": "x"}, "v")


def test_the_claim_of_another_is_not_taken_for_an_ephemeral_volume(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(EphemeralVolumeController(), ClaimController())
    claim(cluster, "p-scratch")
    ephemeral_pod(cluster)
    cluster.settle()
    messages = [message for _, _, message in cluster.told]
    words = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert f"ephemeral volume scratch: {words}" in messages
    assert "ownerReferences" not in cluster.get(CLAIMS, "p-scratch")["metadata"]


def default_storage_class(cluster: Cluster, name: str) -> None:
    marked = {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    cluster.create(STORAGE_CLASSES, {"metadata": marked, "provisioner": "example.com/x"})


@pytest.mark.parametrize(("said", "given"), [(None, "late"), ("", "")], ids=["names no class", "wants no class"])
def test_a_claim_that_was_there_before_the_default_class_gets_it(
    cluster: Cluster, said: str | None, given: str
) -> None:
    claim(cluster, storageClassName=said)
    assert cluster.get(CLAIMS, "c")["spec"].get("storageClassName") == said
    default_storage_class(cluster, "late")
    cluster.wait(15)
    assert cluster.get(CLAIMS, "c")["spec"]["storageClassName"] == given


def test_a_claim_is_kept_by_its_own_pods_alone(cluster: Cluster) -> None:
    for name, uses in (("p", "c"), ("q", "d")):
        claim(cluster, uses)
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": uses}} for each in ("v", "w")]
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})
        cluster.delete(CLAIMS, uses)
    cluster.delete(PODS, "q", grace=0)
    cluster.settle()
    assert cluster.names(CLAIMS) == ["c"]
