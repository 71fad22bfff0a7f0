"""Stateful sets at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, PODS, REVISIONS, STATEFUL_SETS
from kilauea.api.ports import Create, Key, finished
from kilauea.controllers.statefulsets.controller import BURST, StatefulSetController
from support.controlled import Cluster, template


def stateful_set(**spec: Any) -> dict[str, Any]:
    labels = {"app": "db"}
    made = {
        "serviceName": "db",
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": template(labels, "a:1"),
    }
    return {"metadata": {"name": "db"}, "spec": {**made, **spec}}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(StatefulSetController())


def renew(cluster: Cluster, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"template": {"spec": {"containers": containers}}}})


def serve(cluster: Cluster, rounds: int = 8) -> None:
    """Let pods start, and those that go be gone, until nothing changes any more."""
    for _ in range(rounds):
        cluster.settle()
        cluster.say_all("Running")
    cluster.settle()


def images(cluster: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in cluster.all(PODS)]


def test_pods_are_made_one_after_the_other_with_names_claims_and_labels(cluster: Cluster) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.create(STATEFUL_SETS, stateful_set(volumeClaimTemplates=[claim]))
    for count in (1, 2, 3, 3):
        cluster.settle()
        assert cluster.names(PODS) == [f"db-{number}" for number in range(count)]
        assert cluster.names(CLAIMS) == [f"data-db-{number}" for number in range(count)]
        cluster.say_all("Running")
    cluster.settle()
    (revision,) = cluster.names(REVISIONS)
    pod = cluster.get(PODS, "db-1")
    assert pod["metadata"]["labels"] == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "1",
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "db-1",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    assert cluster.get(STATEFUL_SETS, "db")["status"] == {
        "availableReplicas": 3,
        "collisionCount": 0,
        "currentReplicas": 3,
        "currentRevision": revision,
        "observedGeneration": 1,
        "readyReplicas": 3,
        "replicas": 3,
        "updateRevision": revision,
        "updatedReplicas": 3,
    }
    assert cluster.told[:2] == [
        ("db", "SuccessfulCreate", "Create Claim data-db-0 Pod db-0 in StatefulSet db success"),
        ("db", "SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
    ]


def test_parallel_pods_are_made_at_once(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
    cluster.settle()
    assert len(cluster.all(PODS)) == 3


def test_very_many_parallel_pods_are_made_in_parts(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel", replicas=1_000_000))
    cluster.refresh()
    outcome = finished(StatefulSetController().reconcile(Key("default", "db"), cluster.cache, cluster.api.now))
    made = [each for each in outcome.operations if isinstance(each, Create) and each.resource == PODS]
    assert [each.body["metadata"]["name"] for each in made] == [f"db-{number}" for number in range(BURST)]


def test_fewer_pods_are_left_from_the_highest_number_down_and_claims_stay(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set())
    serve(cluster)
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    serve(cluster)
    assert cluster.names(PODS) == ["db-0"]
    assert [words for _, reason, words in cluster.told if reason == "SuccessfulDelete"] == [
        "delete Pod db-2 in StatefulSet db successful",
        "delete Pod db-1 in StatefulSet db successful",
    ]


def test_an_update_goes_from_the_last_pod_to_the_first(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set())
    serve(cluster)
    renew(cluster, "a:2")
    seen = []
    for _ in range(4):
        cluster.settle()
        seen.append(images(cluster))
        cluster.say_all("Running")
    cluster.settle()
    assert seen == [["a:1", "a:1", "a:2"], ["a:1", "a:2", "a:2"], ["a:2", "a:2", "a:2"], ["a:2", "a:2", "a:2"]]
    status = cluster.get(STATEFUL_SETS, "db")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert len(cluster.all(REVISIONS)) == 2


def test_an_update_stops_at_the_partition_and_pods_before_it_come_back_as_they_were(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set(updateStrategy={"rollingUpdate": {"partition": 2}}))
    serve(cluster)
    renew(cluster, "a:2")
    serve(cluster)
    assert images(cluster) == ["a:1", "a:1", "a:2"]
    cluster.delete(PODS, "db-0", grace=0)
    serve(cluster)
    assert images(cluster) == ["a:1", "a:1", "a:2"]
    status = cluster.get(STATEFUL_SETS, "db")["status"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)


def test_on_delete_updates_only_what_is_deleted(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set(updateStrategy={"type": "OnDelete"}))
    serve(cluster)
    renew(cluster, "a:2")
    serve(cluster)
    assert images(cluster) == ["a:1", "a:1", "a:1"]
    cluster.delete(PODS, "db-1", grace=0)
    serve(cluster)
    assert images(cluster) == ["a:1", "a:2", "a:1"]


def test_a_pod_that_has_failed_is_replaced(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set())
    serve(cluster)
    before = cluster.get(PODS, "db-1")
    cluster.say(before, "Failed")
    serve(cluster)
    after = cluster.get(PODS, "db-1")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["status"]["phase"] == "Running"


def test_going_back_takes_the_old_revision_again(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, stateful_set())
    serve(cluster)
    for image in ("a:2", "a:1"):
        renew(cluster, image)
        serve(cluster)
    assert images(cluster) == ["a:1", "a:1", "a:1"]
    assert sorted(each["revision"] for each in cluster.all(REVISIONS)) == [2, 3]


def test_a_look_at_a_set_that_serves_asks_for_nothing(cluster: Cluster) -> None:
    made = cluster.create(STATEFUL_SETS, stateful_set())
    serve(cluster)
    key = next(iter(StatefulSetController.interests[0].keys(made)))
    assert not finished(StatefulSetController().reconcile(key, cluster.cache, cluster.api.now)).operations
