"""Autoscalers give a workload the replicas that the usage of its pods asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import AUTOSCALERS, DEPLOYMENTS, PODS
from kilauea.api.ports import Key, Obj, finished
from kilauea.api.times import SECOND
from kilauea.api.usage import CPU_USAGE
from kilauea.controllers import autoscalers
from kilauea.controllers.autoscalers import AutoscalerController
from kilauea.controllers.pods import is_ready
from support.controlled import Cluster

LABELS = {"app": "web"}
REQUESTS = {"requests": {"cpu": "100m"}}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(AutoscalerController())


def workload(cluster: Cluster, replicas: int, usage: str, *, resources: Any = REQUESTS) -> None:
    """A deployment, and pods of it that run and use so much."""
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    given = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    cluster.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": given})
    for number in range(replicas):
        metadata = {"name": f"p{number}", "labels": LABELS, "annotations": {CPU_USAGE: usage}}
        pod = cluster.create(PODS, {"metadata": metadata, "spec": spec})
        state = {"running": {"startedAt": "2023-11-14T00:00:00Z"}}
        entry = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        cluster.say(pod, "Running", containerStatuses=[entry])


def scaler(cluster: Cluster, **spec: Any) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    given = {"minReplicas": 1, "maxReplicas": 10, "scaleTargetRef": target, **spec}
    cluster.create(AUTOSCALERS, {"metadata": {"name": "web"}, "spec": given})
    cluster.settle()


def replicas(cluster: Cluster) -> int:
    return int(cluster.get(DEPLOYMENTS, "web")["spec"]["replicas"])


def condition(cluster: Cluster, kind: str) -> tuple[str, str]:
    conditions = cluster.get(AUTOSCALERS, "web")["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in conditions if each["type"] == kind)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("160m", 4),  # 160% of 80%: twice as many
        ("80m", 2),
        ("87m", 2),  # within a tenth
        ("89m", 3),
        ("40m", 1),
        ("0", 1),
        ("2", 6),  # four more pods at a time
    ],
)
def test_replicas_follow_the_usage_relative_to_the_target(cluster: Cluster, usage: str, expected: int) -> None:
    workload(cluster, 2, usage)
    scaler(cluster)
    assert replicas(cluster) == expected


def test_the_status_says_what_was_found_and_done(cluster: Cluster) -> None:
    workload(cluster, 2, "160m")
    scaler(cluster)
    state = cluster.get(AUTOSCALERS, "web")["status"]
    assert state["desiredReplicas"] == 4
    current = {"averageUtilization": 160, "averageValue": "160m"}
    assert state["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    assert condition(cluster, "ScalingActive") == ("True", "ValidMetricFound")
    assert ("web", "SuccessfulRescale", "New size: 4; reason: resource utilization above target") in cluster.told


def test_replicas_stay_within_the_bounds(cluster: Cluster) -> None:
    workload(cluster, 2, "160m")
    scaler(cluster, maxReplicas=3)
    assert replicas(cluster) == 3
    assert condition(cluster, "ScalingLimited") == ("True", "TooManyReplicas")


@pytest.mark.parametrize(
    ("bounds", "expected", "words"),
    [
        ({"minReplicas": 4}, 4, "below Spec.MinReplicas"),
        ({"maxReplicas": 1}, 1, "above Spec.MaxReplicas"),
    ],
)
def test_replicas_come_within_the_bounds_even_without_metrics(
    cluster: Cluster, bounds: dict[str, int], expected: int, words: str
) -> None:
    workload(cluster, 2, "0", resources={})
    scaler(cluster, **bounds)
    assert replicas(cluster) == expected
    told = f"New size: {expected}; reason: Current number of replicas {words}"
    assert ("web", "SuccessfulRescale", told) in cluster.told


def test_replicas_are_not_reduced_soon_after_a_change(cluster: Cluster) -> None:
    workload(cluster, 2, "160m")
    scaler(cluster)
    assert replicas(cluster) == 4
    for name in cluster.names(PODS):
        cluster.patch(PODS, name, {"metadata": {"annotations": {CPU_USAGE: "10m"}}})
    cluster.wait(200)
    assert replicas(cluster) == 4
    cluster.wait(150)
    assert replicas(cluster) == 1


def test_policies_of_the_behavior_limit_a_change(cluster: Cluster) -> None:
    workload(cluster, 2, "160m")
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 60}]
    scaler(cluster, behavior={"scaleUp": {"policies": policies}})
    assert replicas(cluster) == 3
    cluster.wait(31)
    assert replicas(cluster) == 3
    cluster.wait(31)
    assert replicas(cluster) == 4


@pytest.mark.parametrize(
    ("metrics", "resources", "reason"),
    [
        (None, {}, "FailedGetResourceMetric"),
        (
            [
                {
                    "type": "Pods",
                    "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1"}},
                }
            ],
            REQUESTS,
            "FailedGetPodsMetric",
        ),
    ],
)
def test_a_metric_that_cannot_be_read_changes_nothing_and_is_told(
    cluster: Cluster, metrics: Any, resources: Any, reason: str
) -> None:
    workload(cluster, 2, "160m", resources=resources)
    scaler(cluster, **({"metrics": metrics} if metrics else {}))
    assert replicas(cluster) == 2
    assert condition(cluster, "ScalingActive") == ("False", reason)


POD_METRIC = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "1"}}
OBJECT_METRIC = {
    "metric": {"name": "hits"},
    "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
    "target": {"type": "Value", "value": "1"},
}
NOT_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
NOT_EXTERNAL = (
    "unable to fetch metrics from external metrics API: "
    "the server could not find the requested resource (get qps.external.metrics.k8s.io)"
)


@pytest.mark.parametrize(
    ("metric", "reason", "message"),
    [
        ({"type": "Pods", "pods": POD_METRIC}, "FailedGetPodsMetric", f"unable to get metric qps: {NOT_CUSTOM}"),
        (
            {"type": "Object", "object": OBJECT_METRIC},
            "FailedGetObjectMetric",
            f"unable to get metric hits: Ingress on default main/{NOT_CUSTOM}",
        ),
        (
            {"type": "External", "external": POD_METRIC},
            "FailedGetExternalMetric",
            f"unable to get external metric default/qps: {NOT_EXTERNAL}",
        ),
    ],
)
def test_a_metric_of_no_adapter_is_told_as_by_kubernetes(
    cluster: Cluster, metric: Any, reason: str, message: str
) -> None:
    workload(cluster, 2, "160m")
    scaler(cluster, metrics=[metric])
    assert condition(cluster, "AbleToScale") == ("True", "SucceededGetScale")
    assert condition(cluster, "ScalingActive") == ("False", reason)
    written = cluster.get(AUTOSCALERS, "web")["status"]["conditions"]
    messages = [each["message"] for each in written if each["type"] == "ScalingActive"]
    assert messages == [f"the HPA was unable to compute the replica count: {message}"]


def test_an_autoscaler_of_a_missing_workload_says_so(cluster: Cluster) -> None:
    scaler(cluster)
    assert condition(cluster, "AbleToScale") == ("False", "FailedGetScale")


def test_pods_are_read_once_and_in_steps_however_many_metrics_ask(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoscalers, "READ_PER_STEP", 2)
    read: list[str] = []

    def is_noted(pod: Obj) -> bool:
        read.append(pod["metadata"]["name"])
        return is_ready(pod)

    monkeypatch.setattr(autoscalers, "is_ready", is_noted)
    workload(cluster, 4, "160m")
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 10, "scaleTargetRef": reference, "metrics": [metric] * 100}
    cluster.create(AUTOSCALERS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.refresh()
    steps = AutoscalerController().reconcile(Key("default", "web"), cluster.cache, cluster.api.now)
    assert list(steps) == [(), ()]
    assert read == ["p0", "p1", "p2", "p3"]
    cluster.settle()
    assert replicas(cluster) == 8


def test_the_autoscalers_of_a_namespace_share_what_was_read_for_one_of_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoscalers, "READ_PER_STEP", 2)
    reads = 0

    def is_noted(pod: Obj) -> bool:
        nonlocal reads
        reads += 1
        return is_ready(pod)

    monkeypatch.setattr(autoscalers, "is_ready", is_noted)
    workload(cluster, 4, "160m")
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for name in ("a", "b"):
        cluster.create(
            AUTOSCALERS, {"metadata": {"name": name}, "spec": {"maxReplicas": 9, "scaleTargetRef": reference}}
        )
    cluster.refresh()
    controller, now = AutoscalerController(), cluster.api.now

    def reconciled(name: str, after: int = 0) -> Any:
        return controller.reconcile(Key("default", name), cluster.cache, now + after * SECOND)

    first = reconciled("a")
    next(first)
    assert finished(reconciled("b")).again == autoscalers.READ_SOON, "the first one is still reading"
    finished(first)
    assert finished(reconciled("b", after=4)).operations
    assert reads == 4
    finished(reconciled("b", after=11))
    assert reads == 8
    finished(reconciled("b", after=-60))  # the clock was set back
    assert reads == 12
    given_up = reconciled("a", after=60)
    next(given_up)
    given_up.close()
    assert finished(reconciled("b", after=60)).operations, "a reconciliation that ended early holds up no other"
