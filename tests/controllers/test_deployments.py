"""Deployments and replica sets at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, RESOURCE_QUOTAS
from kilauea.api.ports import Create, Outcome, Together, finished, key_of
from kilauea.controllers.deployments.controller import DeploymentController
from kilauea.controllers.replicasets import ReplicaSetController
from support.controlled import Cluster, template

Make = Callable[..., Cluster]


def deployment(image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    made = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template(labels, image), **spec}
    return {"metadata": {"name": "web"}, "spec": made}


@pytest.fixture
def cluster(cluster_of: Make) -> Cluster:
    return cluster_of(DeploymentController(), ReplicaSetController())


def creations(outcome: Outcome) -> list[Create]:
    """What an outcome creates side by side."""
    chains = [chain for each in outcome.operations if isinstance(each, Together) for chain in each.chains]
    return [each for chain in chains for each in chain if isinstance(each, Create)]


def renew(cluster: Cluster, image: str) -> None:
    """Give the deployment another image."""
    containers = [{"name": "main", "image": image}]
    cluster.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": containers}}}})


def sizes(cluster: Cluster) -> list[int]:
    """What replica sets are asked for, the oldest revision first."""
    found = sorted(cluster.all(REPLICA_SETS), key=lambda each: int(revision(each)))
    return [each["spec"]["replicas"] for each in found]


def revision(obj: Any) -> str:
    return str(obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def reasons(cluster: Cluster) -> dict[str, tuple[str, str]]:
    conditions = cluster.get(DEPLOYMENTS, "web")["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


def test_a_deployment_makes_a_replica_set_with_pods_and_says_when_they_serve(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    (made,) = cluster.all(REPLICA_SETS)
    assert made["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
        "deployment.kubernetes.io/revision": "1",
    }
    assert made["metadata"]["name"] == f"web-{made['metadata']['labels']['pod-template-hash']}"
    assert made["status"] == {
        "fullyLabeledReplicas": 3,
        "observedGeneration": 1,
        "replicas": 3,
        "terminatingReplicas": 0,
    }
    assert reasons(cluster) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    cluster.say_all("Running")
    cluster.settle()
    status = cluster.get(DEPLOYMENTS, "web")["status"]
    assert {name: value for name, value in status.items() if name != "conditions"} == {
        "availableReplicas": 3,
        "observedGeneration": 1,
        "readyReplicas": 3,
        "replicas": 3,
        "terminatingReplicas": 0,
        "updatedReplicas": 3,
    }
    assert reasons(cluster) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


def test_a_rolling_update_keeps_enough_pods_serving_and_never_has_too_many(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    cluster.told.clear()
    renew(cluster, "nginx:2")
    seen = []
    for _ in range(6):
        cluster.settle()
        seen.append(sizes(cluster))
        cluster.say_all("Running")
    assert seen == [[3, 1], [2, 2], [1, 3], [0, 3], [0, 3], [0, 3]]
    old, new = sorted(cluster.all(REPLICA_SETS), key=lambda each: int(revision(each)))
    assert [
        (reason, words.replace(new["metadata"]["name"], "NEW").replace(old["metadata"]["name"], "OLD"))
        for name, reason, words in cluster.told
        if name == "web"
    ] == [
        ("ScalingReplicaSet", "Scaled up replica set NEW from 0 to 1"),
        ("ScalingReplicaSet", "Scaled down replica set OLD from 3 to 2"),
        ("ScalingReplicaSet", "Scaled up replica set NEW from 1 to 2"),
        ("ScalingReplicaSet", "Scaled down replica set OLD from 2 to 1"),
        ("ScalingReplicaSet", "Scaled up replica set NEW from 2 to 3"),
        ("ScalingReplicaSet", "Scaled down replica set OLD from 1 to 0"),
    ]
    found = cluster.get(DEPLOYMENTS, "web")
    assert (revision(found), found["metadata"]["generation"]) == ("2", 2)


def test_going_back_to_an_old_template_uses_its_replica_set_under_a_new_number(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    for image in ("nginx:2", "nginx:1"):
        cluster.settle()
        renew(cluster, image)
    for _ in range(6):
        cluster.settle()
        cluster.say_all("Running")
    assert sorted(map(revision, cluster.all(REPLICA_SETS))) == ["2", "3"]
    assert sizes(cluster) == [0, 3]
    newest = max(cluster.all(REPLICA_SETS), key=lambda each: int(revision(each)))
    assert newest["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_recreate_waits_until_the_old_pods_are_gone(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
    cluster.settle()
    for pod in cluster.all(PODS):
        cluster.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/held"]}})
    cluster.say_all("Running")
    cluster.settle()
    renew(cluster, "nginx:2")
    cluster.settle()
    assert sizes(cluster) == [0]
    assert len(cluster.all(PODS)) == 3
    for pod in cluster.all(PODS):
        cluster.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    cluster.say_all("Running")
    cluster.settle()
    assert sizes(cluster) == [0, 3]


def test_another_number_of_pods_in_the_midst_of_a_rollout_is_shared_in_proportion(cluster: Cluster) -> None:
    cluster.create(
        DEPLOYMENTS, deployment(replicas=10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    )
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    renew(cluster, "nginx:2")
    cluster.settle()
    assert sizes(cluster) == [8, 5]
    cluster.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
    cluster.settle()
    assert sum(sizes(cluster)) == 18
    assert sizes(cluster) == [11, 7]


def test_a_rollout_without_progress_is_late(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment(progressDeadlineSeconds=30))
    cluster.settle()
    cluster.wait(29)
    assert reasons(cluster)["Progressing"] == ("True", "ReplicaSetUpdated")
    cluster.wait(2)
    assert reasons(cluster)["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_a_paused_deployment_is_scaled_but_not_rolled_out(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    change = {"containers": [{"name": "main", "image": "nginx:2"}]}
    cluster.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 5, "template": {"spec": change}}})
    cluster.settle()
    assert sizes(cluster) == [5]
    assert reasons(cluster)["Progressing"] == ("Unknown", "DeploymentPaused")


def test_old_revisions_are_forgotten(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment(revisionHistoryLimit=1))
    for number in range(2, 5):
        for _ in range(6):
            cluster.settle()
            cluster.say_all("Running")
        renew(cluster, f"nginx:{number}")
    for _ in range(6):
        cluster.settle()
        cluster.say_all("Running")
    assert sizes(cluster) == [0, 3]


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 1200])
def test_a_replica_set_makes_as_many_pods_as_are_wanted(cluster: Cluster, count: int) -> None:
    labels = {"app": "web"}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template(labels)}
    cluster.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.settle()
    assert len(cluster.all(PODS)) == count
    assert cluster.get(REPLICA_SETS, "web")["status"]["replicas"] == count


def test_what_would_be_missed_least_goes_first(cluster: Cluster) -> None:
    labels = {"app": "web"}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template(labels)}
    cluster.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.settle()
    cheap, waiting, *kept = cluster.all(PODS)
    cluster.patch(
        PODS,
        cheap["metadata"]["name"],
        {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}},
    )
    for pod in (cheap, *kept):
        cluster.say(pod, "Running")
    left = {each["metadata"]["name"] for each in (cheap, waiting, *kept)}
    for gone in (waiting, cheap):
        left.discard(gone["metadata"]["name"])
        cluster.patch(REPLICA_SETS, "web", {"spec": {"replicas": len(left)}})
        cluster.settle()
        cluster.say_all("Running")
        assert set(cluster.names(PODS)) == left


def test_a_pod_that_matches_and_belongs_to_no_one_is_adopted_and_one_that_does_not_match_any_more_let_go(
    cluster: Cluster,
) -> None:
    labels = {"app": "web"}
    cluster.create(PODS, {"metadata": {"name": "stray", "labels": labels}, "spec": template(labels)["spec"]})
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template(labels)}
    cluster.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.settle()
    assert len(cluster.all(PODS)) == 2
    assert cluster.get(PODS, "stray")["metadata"]["ownerReferences"][0]["name"] == "web"
    cluster.patch(PODS, "stray", {"metadata": {"labels": {"app": "other"}}})
    cluster.settle()
    assert "ownerReferences" not in cluster.get(PODS, "stray")["metadata"]
    assert len(cluster.all(PODS)) == 3


def test_the_name_of_a_pod_that_is_gone_does_not_come_back(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    before = cluster.names(PODS)
    cluster.delete(PODS, before[0], grace=0)
    cluster.settle()
    after = cluster.names(PODS)
    assert len(after) == 3
    assert before[0] not in after


def test_what_failed_half_way_is_tried_again_with_the_same_names(cluster: Cluster) -> None:
    labels = {"app": "web"}
    spec = {"replicas": 5, "selector": {"matchLabels": labels}, "template": template(labels)}
    made = cluster.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.refresh()
    controller = ReplicaSetController()
    key = next(iter(controller.interests[0].keys(made)))
    wanted = creations(finished(controller.reconcile(key, cluster.cache, cluster.api.now)))
    for each in wanted[:2]:
        cluster.create(PODS, each.body)
    again = creations(finished(controller.reconcile(key, cluster.cache, cluster.api.now)))
    assert again == wanted
    cluster.settle()
    assert cluster.names(PODS) == sorted(each.body["metadata"]["name"] for each in wanted)


def test_an_unchanged_object_is_left_alone(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    for controller, resource in ((DeploymentController(), DEPLOYMENTS), (ReplicaSetController(), REPLICA_SETS)):
        for obj in cluster.all(resource):
            assert not finished(controller.reconcile(key_of(obj), cluster.cache, cluster.api.now)).operations


def test_a_refused_pod_is_a_condition_until_pods_can_be_made(cluster: Cluster) -> None:
    """Of the replica set and of its deployment, with the message of the server."""
    cluster.create(RESOURCE_QUOTAS, {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}})
    cluster.create(DEPLOYMENTS, deployment())
    cluster.settle()
    (made,) = cluster.all(REPLICA_SETS)
    (failure,) = made["status"]["conditions"]
    assert (failure["type"], failure["status"], failure["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2" in failure["message"]
    assert (made["status"]["replicas"], made["status"]["observedGeneration"]) == (2, 1)
    assert reasons(cluster)["ReplicaFailure"] == ("True", "FailedCreate")
    cluster.patch(RESOURCE_QUOTAS, "two", {"spec": {"hard": {"pods": "5"}}})
    cluster.wait(2)
    (made,) = cluster.all(REPLICA_SETS)
    assert "conditions" not in made["status"]
    assert "ReplicaFailure" not in reasons(cluster)
