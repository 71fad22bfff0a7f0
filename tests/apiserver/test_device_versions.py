"""Objects with devices in the versions of `resource.k8s.io`, and rules for taints of devices.

What the answers contain was compared with those of Kubernetes v1.36 (`tests/kubernetes/requests/beta.yaml`).
"""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import Api, causes

MERGE = "application/merge-patch+json"
GROUP = "/apis/resource.k8s.io"
RULES = f"{GROUP}/v1beta2/devicetaintrules"


def claims(version: str, name: str = "") -> str:
    return f"{GROUP}/{version}/namespaces/default/resourceclaims{name}"


def claim(version: str, *requests: dict[str, Any], name: str = "c") -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec
    }  # fmt: skip


def rule(taint: dict[str, Any], **selector: str) -> dict[str, Any]:
    spec = {"deviceSelector": selector, "taint": taint}
    return {
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec
    }  # fmt: skip


def requests_of(answer: dict[str, Any]) -> Any:
    return answer["spec"]["devices"]["requests"]


FLAT = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
EXACT = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
WAYS = [{"name": "large", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}]


@pytest.mark.parametrize(
    ("written", "flat", "exact"),
    [
        ({"name": "r", "deviceClassName": "gpu"}, FLAT, EXACT),
        (
            {"name": "r", "firstAvailable": [{"name": "large", "deviceClassName": "gpu", "count": 2}]},
            {"name": "r", "deviceClassName": "", "firstAvailable": WAYS},
            {"name": "r", "firstAvailable": WAYS},
        ),
    ],
)
def test_a_claim_has_the_form_of_the_version_that_is_asked_for(
    api: Api, written: dict[str, Any], flat: dict[str, Any], exact: dict[str, Any]
) -> None:
    assert requests_of(api.good("POST", claims("v1beta1"), claim("v1beta1", written))) == [flat]
    for version, expected in (("v1", exact), ("v1beta2", exact), ("v1beta1", flat)):
        answer = api.good("GET", claims(version, "/c"))
        assert (answer["apiVersion"], requests_of(answer)) == (f"resource.k8s.io/{version}", [expected])
        listed = api.good("GET", claims(version))
        assert [requests_of(each) for each in listed["items"]] == [[expected]]


def test_a_slice_of_v1beta1_has_its_devices_in_the_newest_form_too(api: Api) -> None:
    basic = {"attributes": {"model": {"string": "a100"}}, "capacity": {"memory": {"value": "40Gi"}}}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}
    devices = [{"name": "d0", "basic": basic}, {"name": "d1"}]
    body = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {**spec, "devices": devices}}
    api.good("POST", f"{GROUP}/v1beta1/resourceslices", {"apiVersion": "resource.k8s.io/v1beta1", **body})
    newest = api.good("GET", f"{GROUP}/v1/resourceslices/s")["spec"]["devices"]
    assert newest == [{"name": "d0", **basic}, {"name": "d1"}]
    older = api.good("GET", f"{GROUP}/v1beta1/resourceslices/s")["spec"]["devices"]
    assert older == [{"name": "d0", "basic": basic}, {"name": "d1", "basic": {}}]


def test_faults_of_an_older_claim_are_named_where_they_are_in_the_newest_form(api: Api) -> None:
    both = {"name": "r", "deviceClassName": "A_B"}
    answer = api.ask("POST", claims("v1beta1"), claim("v1beta1", both))
    assert answer.code == 422
    assert [field for field, *_ in causes(answer)] == ["spec.devices.requests[0].exactly.deviceClassName"]


def test_what_an_older_claim_asks_cannot_change(api: Api) -> None:
    api.good("POST", claims("v1beta1"), claim("v1beta1", FLAT))
    other = {"spec": {"devices": {"requests": [{**FLAT, "count": 2}]}}}
    assert api.ask("PATCH", claims("v1beta1", "/c"), other, content_type=MERGE).code == 422
    api.good("PATCH", claims("v1beta1", "/c"), {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert requests_of(api.good("GET", claims("v1", "/c"))) == [EXACT]


def test_administrators_access_needs_its_namespace_in_every_version(api: Api) -> None:
    answer = api.ask("POST", claims("v1beta1"), claim("v1beta1", {**FLAT, "adminAccess": True}))
    assert answer.code == 422
    assert "admin-access: true` label" in answer.body["message"]


def test_a_rule_for_taints_gets_the_time_of_its_write(api: Api) -> None:
    made = api.good("POST", RULES, rule({"key": "k", "effect": "NoSchedule"}, driver="d"))
    assert made["spec"]["taint"]["timeAdded"] == made["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    ("change", "kept"), [({"value": "x"}, True), ({"key": "x"}, True), ({"effect": "NoExecute"}, False)]
)
def test_another_effect_of_a_rule_counts_from_its_write(api: Api, change: dict[str, str], kept: bool) -> None:
    added = "2020-01-01T00:00:00Z"
    api.good("POST", RULES, rule({"key": "k", "effect": "NoSchedule", "timeAdded": added}))
    changed = api.good("PATCH", f"{RULES}/r", {"spec": {"taint": change}}, content_type=MERGE)
    assert (changed["spec"]["taint"]["timeAdded"] == added) == kept


def test_faults_of_a_rule_are_named(api: Api) -> None:
    answer = api.ask("POST", RULES, rule({"key": "a b", "effect": "Never"}, driver="", pool="-p", device="a.b"))
    assert sorted({field for field, *_ in causes(answer)}) == [
        "spec.deviceSelector.device",
        "spec.deviceSelector.driver",
        "spec.deviceSelector.pool",
        "spec.taint.effect",
        "spec.taint.key",
    ]


def test_conditions_of_a_rule_are_checked(api: Api) -> None:
    api.good("POST", RULES, rule({"key": "k", "effect": "None"}))
    wrong = {"type": "a b", "status": "Maybe", "reason": "1", "message": "", "observedGeneration": -1}
    answer = api.ask("PATCH", f"{RULES}/r/status", {"status": {"conditions": [wrong]}}, content_type=MERGE)
    assert sorted({field.rpartition(".")[2] for field, *_ in causes(answer)}) == [
        "lastTransitionTime",
        "observedGeneration",
        "reason",
        "status",
        "type",
    ]


def test_a_rule_is_shown_with_its_taint(api: Api) -> None:
    api.good("POST", RULES, rule({"key": "k", "value": "v", "effect": "NoExecute"}))
    table = api.good("GET", RULES, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    assert table["rows"][0]["cells"][:4] == ["r", "k", "v", "NoExecute"]


@pytest.mark.parametrize(("version", "end"), [("v1beta1", "v1.38"), ("v1beta2", "v1.39"), ("v1", "")])
def test_answers_warn_of_versions_that_will_go(api: Api, version: str, end: str) -> None:
    warnings = api.ask("GET", claims(version)).headers.get("Warning", "")
    assert (f"unavailable in {end}+" in warnings) == bool(end)
