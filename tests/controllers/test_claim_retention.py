"""Claims of stateful sets that go with the set or with their pods, or stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controllers.test_statefulsets import serve, stateful_set
from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, PODS, STATEFUL_SETS
from kilauea.controllers.statefulsets.controller import StatefulSetController
from support.controlled import Cluster

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(StatefulSetController())


def begin(cluster: Cluster, **policy: str) -> None:
    """A set of three pods that serve."""
    made = stateful_set(volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    cluster.create(STATEFUL_SETS, made)
    serve(cluster)


def scale(cluster: Cluster, replicas: int) -> None:
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": replicas}})
    cluster.settle()


def owners(cluster: Cluster) -> dict[str, list[str]]:
    """The kinds and names of the owners of each claim."""
    found = {}
    for claim in cluster.all(CLAIMS):
        references = claim["metadata"].get("ownerReferences") or []
        found[claim["metadata"]["name"]] = [f"{each['kind']} {each['name']}" for each in references]
    return found


@pytest.mark.parametrize(
    ("policy", "serving", "scaled"),
    [
        ({}, [], []),
        ({"whenDeleted": "Delete"}, ["StatefulSet db"], ["StatefulSet db"]),
        ({"whenScaled": "Delete"}, [], ["Pod db-2"]),
        ({"whenDeleted": "Delete", "whenScaled": "Delete"}, ["StatefulSet db"], ["Pod db-2"]),
    ],
)
def test_a_claim_is_owned_by_what_it_goes_with(
    cluster: Cluster, policy: dict[str, str], serving: list[str], scaled: list[str]
) -> None:
    """That is written before a pod beyond the number of replicas is deleted."""
    begin(cluster, **policy)
    assert owners(cluster) == {f"data-db-{number}": serving for number in range(3)}
    cluster.patch(PODS, "db-2", {"metadata": {"finalizers": ["example.com/wait"]}})
    scale(cluster, 2)
    assert cluster.get(PODS, "db-2")["metadata"]["deletionTimestamp"]
    assert owners(cluster) == {"data-db-0": serving, "data-db-1": serving, "data-db-2": scaled}


def test_a_policy_that_changes_changes_the_owners(cluster: Cluster) -> None:
    begin(cluster, whenDeleted="Delete")
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}})
    cluster.settle()
    assert set(map(tuple, owners(cluster).values())) == {()}


def test_a_claim_that_something_else_controls_is_left_alone(cluster: Cluster) -> None:
    begin(cluster)
    other = cluster.create(CONFIG_MAPS, {"metadata": {"name": "other"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "controller": True}
    reference["uid"] = other["metadata"]["uid"]
    cluster.patch(CLAIMS, "data-db-1", {"metadata": {"ownerReferences": [reference]}})
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})
    cluster.settle()
    kept, given = ["ConfigMap other"], ["StatefulSet db"]
    assert owners(cluster) == {"data-db-0": given, "data-db-1": kept, "data-db-2": given}
    told = [message for _, reason, message in cluster.told if reason == "ConflictingController"]
    assert told == [
        "PersistentVolumeClaim data-db-1 has another controller, so the retention policy does not apply to it"
    ]


def test_a_pod_does_not_use_a_claim_that_will_go_with_the_pod_before_it(cluster: Cluster) -> None:
    """The garbage collector has not come to the claim of the old pod yet."""
    begin(cluster, whenScaled="Delete")
    scale(cluster, 2)
    old: Any = cluster.get(CLAIMS, "data-db-2")
    assert owners(cluster)["data-db-2"] == ["Pod db-2"]
    scale(cluster, 3)
    assert cluster.names(PODS) == ["db-0", "db-1"]
    cluster.patch(CLAIMS, "data-db-2", {"metadata": {"finalizers": None}})
    cluster.delete(CLAIMS, "data-db-2")
    cluster.wait(2)
    assert cluster.names(PODS) == ["db-0", "db-1", "db-2"]
    assert cluster.get(CLAIMS, "data-db-2")["metadata"]["uid"] != old["metadata"]["uid"]


def test_a_claim_that_is_kept_is_used_again_even_if_a_pod_owned_it(cluster: Cluster) -> None:
    begin(cluster, whenScaled="Delete")
    scale(cluster, 2)
    old: Any = cluster.get(CLAIMS, "data-db-2")
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}})
    scale(cluster, 3)
    assert cluster.names(PODS) == ["db-0", "db-1", "db-2"]
    assert cluster.get(CLAIMS, "data-db-2")["metadata"]["uid"] == old["metadata"]["uid"]


def test_a_pod_waits_until_the_old_claim_of_its_name_is_gone(cluster: Cluster) -> None:
    begin(cluster, whenScaled="Delete")
    cluster.patch(CLAIMS, "data-db-2", {"metadata": {"finalizers": ["example.com/wait"]}})
    scale(cluster, 2)
    cluster.delete(CLAIMS, "data-db-2")
    scale(cluster, 3)
    assert cluster.names(PODS) == ["db-0", "db-1"]
    old: Any = cluster.get(CLAIMS, "data-db-2")
    cluster.patch(CLAIMS, "data-db-2", {"metadata": {"finalizers": None}})
    cluster.wait(2)
    assert cluster.names(PODS) == ["db-0", "db-1", "db-2"]
    assert cluster.get(CLAIMS, "data-db-2")["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.mark.parametrize(("policy", "owned"), [({}, []), ({"whenDeleted": "Delete"}, ["StatefulSet db"])])
def test_a_claim_that_a_pending_pod_lacks_is_made_again(
    cluster: Cluster, policy: dict[str, str], owned: list[str]
) -> None:
    begin(cluster, **policy)
    cluster.patch(PODS, "db-1", {"status": {"phase": "Pending", "conditions": []}}, "status")
    cluster.settle()
    for gone in ("data-db-0", "data-db-1"):
        cluster.patch(CLAIMS, gone, {"metadata": {"finalizers": None}})
        cluster.delete(CLAIMS, gone)
    assert list(owners(cluster)) == ["data-db-2"]
    cluster.patch(PODS, "db-1", {"metadata": {"labels": {"seen": "true"}}})
    cluster.settle()
    assert owners(cluster) == {"data-db-1": owned, "data-db-2": owned}, "db-0 runs with the claim that it had"
