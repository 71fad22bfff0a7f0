"""Autoscalers in `autoscaling/v1` and `autoscaling/v2`: one object, much of it in annotations of the older version.

The annotations are as Kubernetes v1.36 wrote them for the same autoscaler.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import Api, causes

MERGE = "application/merge-patch+json"
OLD, NEW = (f"/apis/autoscaling/{each}/namespaces/default/horizontalpodautoscalers" for each in ("v1", "v2"))
OWN = "autoscaling.alpha.kubernetes.io/"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "s"}


def of_resource(name: str, **target: Any) -> dict[str, Any]:
    """A metric of a resource of pods."""
    return {"type": "Resource", "resource": {"name": name, "target": target}}


METRICS: list[dict[str, Any]] = [
    of_resource("memory", type="AverageValue", averageValue="100Mi"),
    of_resource("cpu", type="Utilization", averageUtilization=60),
    of_resource("cpu", type="AverageValue", averageValue="500m"),
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "3"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": SERVICE,
            "metric": {"name": "o"},
            "target": {"type": "Value", "value": "10k"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": SERVICE,
            "metric": {"name": "o2"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "7"}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "memory",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 44},
        },
    },
]
RECORDED_METRICS = (
    '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"100Mi"}},'
    '{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"500m"}},'
    '{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"3","selector":{"matchLabels":{"a":"b"}}}},'
    '{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"o",'
    '"targetValue":"10k"}},'
    '{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"o2",'
    '"targetValue":"0","averageValue":"10"}},'
    '{"type":"External","external":{"metricName":"e","targetValue":"7"}},'
    '{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageUtilization":44,"container":"c"}}]'
)
RULES = {"stabilizationWindowSeconds": 10, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}
RECORDED_BEHAVIOR = (
    '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":['
    '{"Type":"Pods","Value":4,"PeriodSeconds":15},{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null},'
    '"ScaleDown":{"StabilizationWindowSeconds":10,"SelectPolicy":"Max","Policies":['
    '{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null}}'
)
STATUS = {
    "observedGeneration": 1,
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 33, "averageValue": "330m"}},
        },
        {"type": "External", "external": {"metric": {"name": "e"}, "current": {"averageValue": "3"}}},
    ],
    "conditions": [
        {
            "type": "AbleToScale",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "R",
            "message": "m <x>",
        }
    ],
}
RECORDED_CURRENT = (
    '[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":33,"currentAverageValue":"330m"}},'
    '{"type":"External","external":{"metricName":"e","currentValue":"0","currentAverageValue":"3"}}]'
)
RECORDED_CONDITIONS = (
    '[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R",'
    '"message":"m \\u003cx\\u003e"}]'
)


@pytest.fixture
def whole(api: Api) -> dict[str, Any]:
    """An autoscaler of the newer version that uses all that the older one has no fields for."""
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 5, "metrics": METRICS, "behavior": {"scaleDown": RULES}}
    api.good("POST", NEW, {"metadata": {"name": "h", "annotations": {"mine": "x"}}, "spec": spec})
    made: dict[str, Any] = api.good("PATCH", f"{NEW}/h/status", {"status": STATUS}, content_type=MERGE)
    return made


def test_the_older_version_has_the_rest_in_annotations(api: Api, whole: dict[str, Any]) -> None:
    served = api.good("GET", f"{OLD}/h")
    assert served["apiVersion"] == "autoscaling/v1"
    assert served["metadata"]["annotations"] == {
        "mine": "x",
        f"{OWN}behavior": RECORDED_BEHAVIOR,
        f"{OWN}conditions": RECORDED_CONDITIONS,
        f"{OWN}current-metrics": RECORDED_CURRENT,
        f"{OWN}metrics": RECORDED_METRICS,
    }
    assert served["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 60,
    }
    assert served["status"] == {
        "observedGeneration": 1,
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentCPUUtilizationPercentage": 33,
    }


def test_what_is_written_in_the_older_version_keeps_the_rest(api: Api, whole: dict[str, Any]) -> None:
    served = api.good("GET", f"{OLD}/h")
    served["spec"]["maxReplicas"] = 9
    api.good("PUT", f"{OLD}/h", served)
    changed = api.good("GET", f"{NEW}/h")
    share = METRICS[1]
    assert changed["spec"] == whole["spec"] | {
        "maxReplicas": 9,
        "metrics": [*(each for each in METRICS if each is not share), share],
    }
    assert changed["status"] == whole["status"]
    assert changed["metadata"]["annotations"] == {"mine": "x"}


def test_an_annotation_that_cannot_be_read_counts_for_nothing(api: Api, whole: dict[str, Any]) -> None:
    for text in ("x", '[{"type":1}]', '{"a":1}', "[1]", '[{"type":"Resource","resource":"x"}]', "null"):
        patch = {"metadata": {"annotations": {f"{OWN}metrics": text, f"{OWN}behavior": text}}}
        changed = api.good("PATCH", f"{OLD}/h", patch, content_type=MERGE)
        assert changed["metadata"]["annotations"].keys() == {"mine", f"{OWN}conditions", f"{OWN}current-metrics"}
        assert api.good("GET", f"{NEW}/h")["spec"]["metrics"] == [METRICS[1]]


def test_annotations_that_a_client_wrote_in_the_newer_version_are_not_taken_for_content(api: Api) -> None:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [METRICS[1]]}
    api.good(
        "POST", NEW, {"metadata": {"name": "o", "annotations": {f"{OWN}metrics": "[]", "mine": "x"}}, "spec": spec}
    )
    assert api.good("GET", f"{OLD}/o")["metadata"]["annotations"] == {"mine": "x"}


def test_an_autoscaler_of_the_older_version_gets_its_defaults(api: Api) -> None:
    made = api.good("POST", OLD, {"metadata": {"name": "o"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
    assert made["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 80,
    }
    metric = of_resource("cpu", type="Utilization", averageUtilization=80)
    assert api.good("GET", f"{NEW}/o")["spec"]["metrics"] == [metric]
    status = {"status": {"currentReplicas": 1, "currentCPUUtilizationPercentage": 12}}
    api.good("PATCH", f"{OLD}/o/status", status, content_type=MERGE)
    current = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12}}}
    assert api.good("GET", f"{NEW}/o")["status"]["currentMetrics"] == [current]


def test_errors_of_the_older_version_name_fields_of_the_newer_as_in_kubernetes(api: Api) -> None:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": -1}
    refused = api.ask("POST", OLD, {"metadata": {"name": "bad"}, "spec": spec})
    path = "spec.metrics[0].resource.target.averageUtilization"
    assert (refused.code, causes(refused)) == (422, [(path, "FieldValueInvalid")])


def test_both_versions_are_listed_watched_and_shown_alike(api: Api, whole: dict[str, Any]) -> None:
    older, newer = api.good("GET", OLD), api.good("GET", NEW)
    assert (older["apiVersion"], newer["apiVersion"]) == ("autoscaling/v1", "autoscaling/v2")
    assert older["items"][0]["spec"]["targetCPUUtilizationPercentage"] == 60
    assert older["items"][0]["metadata"]["uid"] == newer["items"][0]["metadata"]["uid"]
    rows = [api.good("GET", each, accept=TABLE)["rows"][0]["cells"] for each in (OLD, NEW)]
    assert rows[0] == rows[1]
    watch = api.watch(f"{OLD}?resourceVersion=0")
    assert watch.next()["object"]["apiVersion"] == "autoscaling/v1"
    api.good("PATCH", f"{NEW}/h", {"spec": {"maxReplicas": 6}}, content_type=MERGE)
    assert watch.next()["object"]["spec"]["maxReplicas"] == 6
    watch.close()


def test_discovery_prefers_the_newer_version_of_autoscalers(api: Api) -> None:
    group = api.good("GET", "/apis/autoscaling")
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"
    resources = api.good("GET", "/apis/autoscaling/v1")["resources"]
    assert [each["name"] for each in resources] == ["horizontalpodautoscalers", "horizontalpodautoscalers/status"]


def test_an_apply_in_the_older_version_owns_its_fields(api: Api) -> None:
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
    }
    apply = "application/apply-patch+yaml"
    api.good("PATCH", f"{OLD}/a?fieldManager=me", body, content_type=apply)
    del body["spec"]["targetCPUUtilizationPercentage"]  # type: ignore[attr-defined]
    assert (
        api.good("PATCH", f"{OLD}/a?fieldManager=me", body, content_type=apply)["spec"][
            "targetCPUUtilizationPercentage"
        ]
        == 80
    )
