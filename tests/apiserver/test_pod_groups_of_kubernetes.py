"""The API server completes and checks Workloads and PodGroups of scheduling.k8s.io.

`tests/kubernetes/requests/workloads.yaml` compares the same with the real server.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import Api

GROUP = "scheduling.k8s.io/v1alpha2"
PATH = f"/apis/{GROUP}/namespaces/default"
MERGE = "application/merge-patch+json"
GANG = {"gang": {"minCount": 3}}


def workload(**spec: Any) -> dict[str, Any]:
    spec = {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": GANG}], **spec}
    return {"apiVersion": GROUP, "kind": "Workload", "metadata": {"name": "train"}, "spec": spec}


def group(**spec: Any) -> dict[str, Any]:
    spec = {"schedulingPolicy": GANG, **spec}
    return {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec}


def of(name: str, template: str) -> dict[str, Any]:
    return {"podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": template}}}


def refused(api: Api, plural: str, body: dict[str, Any]) -> str:
    answer = api.ask("POST", f"{PATH}/{plural}", body)
    assert answer.code in (403, 422), answer.body
    return str(answer.body["message"])


def test_a_group_of_a_template_gets_its_defaults_and_is_held_by_a_finalizer(api: Api) -> None:
    api.good("POST", f"{PATH}/workloads", workload())
    made = api.good("POST", f"{PATH}/podgroups", group(**of("train", "workers")))
    assert made["spec"]["disruptionMode"] == "Pod"
    assert made["spec"]["priority"] == 0
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (workload(podGroupTemplates=[]), "spec.podGroupTemplates: Required value"),
        (workload(podGroupTemplates=[{"name": "a", "schedulingPolicy": {}}]), "must specify one of: `basic`, `gang`"),
        (workload(podGroupTemplates=[{"name": "A", "schedulingPolicy": GANG}]), "podGroupTemplates[0].name: Invalid"),
        (workload(podGroupTemplates=[{"name": "a", "schedulingPolicy": GANG}] * 2), "[1]: Duplicate value"),
        (workload(controllerRef={"kind": "Job"}), "spec.controllerRef.name: Required value"),
        (group(schedulingPolicy={"gang": {"minCount": -1}}), "must be greater than or equal to 1"),
        (group(schedulingPolicy={"basic": {}, **GANG}), "must specify exactly one of: `basic`, `gang`"),
        (group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "must have at most 1 item"),
        (group(disruptionMode="Half"), 'supported values: "Pod", "PodGroup"'),
        (group(priority=5), "priority set in the pod group (5) must match the priority computed (0)"),
        (group(priorityClassName="x"), "no PriorityClass with name x was found"),
        (group(**of("none", "workers")), 'PodGroup rejected: Workload "none" not found'),
        (group(**of("there", "none")), 'PodGroup rejected: PodGroupTemplate "none" not found in Workload "there"'),
    ],
)
def test_what_is_wrong_is_refused_with_the_field(api: Api, body: dict[str, Any], message: str) -> None:
    api.good("POST", f"{PATH}/workloads", {**workload(), "metadata": {"name": "there"}})
    assert message in refused(api, "workloads" if body["kind"] == "Workload" else "podgroups", body)


def test_a_group_never_changes_but_its_status_does(api: Api) -> None:
    api.good("POST", f"{PATH}/podgroups", group())
    changed = group(schedulingPolicy={"gang": {"minCount": 2}})
    answer = api.ask("PUT", f"{PATH}/podgroups/train", changed)
    assert (answer.code, "spec.schedulingPolicy: Invalid value: null: field is immutable" in str(answer.body)) == (
        422,
        True,
    )
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    written = {**group(), "status": {"conditions": [condition | now]}}
    assert api.good("PUT", f"{PATH}/podgroups/train/status", written)["status"]["conditions"] == [condition | now]
    wrong = {**group(), "status": {"conditions": [condition | now | {"status": "Maybe"}]}}
    assert api.ask("PUT", f"{PATH}/podgroups/train/status", wrong).code == 422


def test_a_pod_names_its_group_as_a_name(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "A b"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    answer = api.ask("POST", "/api/v1/namespaces/default/pods", pod)
    assert answer.code == 422
    assert "spec.schedulingGroup.podGroupName: Invalid value" in answer.body["message"]


def test_claims_of_groups_are_dropped_as_with_the_gate_that_is_off(api: Api) -> None:
    claims = [{"name": "a", "resourceClaimName": "b"}]
    assert "resourceClaims" not in api.good("POST", f"{PATH}/podgroups", group(resourceClaims=claims))["spec"]
    changed = api.good("PATCH", f"{PATH}/podgroups/train", {"spec": {"resourceClaims": claims}}, content_type=MERGE)
    assert "resourceClaims" not in changed["spec"]
    templates = [{"name": "workers", "schedulingPolicy": GANG, "resourceClaims": claims}]
    made = api.good("POST", f"{PATH}/workloads", workload(podGroupTemplates=templates))
    assert "resourceClaims" not in made["spec"]["podGroupTemplates"][0]


def test_each_type_of_condition_is_there_once_and_has_a_name(api: Api) -> None:
    api.good("POST", f"{PATH}/podgroups", group())
    well = {"status": "True", "reason": "B", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "", **well}, {"type": "A", **well}, {"type": "A", **well}]
    body = {"status": {"conditions": conditions}}
    answer = api.ask("PATCH", f"{PATH}/podgroups/train/status", body, content_type=MERGE)
    assert answer.code == 422
    causes = [(each["field"], each["message"].partition(",")[0]) for each in answer.body["details"]["causes"]]
    assert causes == [
        ("status.conditions[0].type", 'Invalid value: "": name part must be non-empty'),
        ("status.conditions[0].type", 'Invalid value: "": name part must consist of alphanumeric characters'),
        ("status.conditions[2].type", 'Duplicate value: "A"'),
    ]


def test_names_that_are_there_twice_are_told_before_what_is_in_templates(api: Api) -> None:
    templates = [{"name": "a", "schedulingPolicy": {"gang": {}}}, {"name": "a", "schedulingPolicy": GANG}]
    answer = api.ask("POST", f"{PATH}/workloads", workload(podGroupTemplates=templates))
    assert [each["field"] for each in answer.body["details"]["causes"]] == [
        "spec.podGroupTemplates[1]",
        "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount",
    ]
