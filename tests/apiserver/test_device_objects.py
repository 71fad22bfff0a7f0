"""The API server completes and checks the objects of dynamic resource allocation.

`tests/kubernetes/requests/devices.yaml` compares the same with the real server.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import Api

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
CLASS = {"deviceClassName": "c"}


def claim(name: str = "x", **devices: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": [{"name": "r", "exactly": dict(CLASS)}], **devices}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def slice_of(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": list(devices), **more}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}


def problem(api: Api, path: str, body: dict[str, Any]) -> str:
    answer = api.ask("POST", path, body)
    assert answer.code == 422, answer.body
    return str(answer.body["message"]).partition(" is invalid: ")[2]


def test_requests_ask_for_exactly_one_device_unless_they_say_otherwise(api: Api) -> None:
    made = api.good("POST", CLAIMS, claim())
    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        **CLASS, "allocationMode": "ExactCount", "count": 1
    }  # fmt: skip
    every = claim("all", requests=[{"name": "r", "exactly": {**CLASS, "allocationMode": "All"}}])
    assert "count" not in api.good("POST", CLAIMS, every)["spec"]["devices"]["requests"][0]["exactly"]


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({"requests": [{"name": "r", "exactly": {}}]}, "requests[0].exactly.deviceClassName: Required value"),
        ({"requests": [{"name": "r", "exactly": {**CLASS, "count": -1}}]}, "must be greater than zero"),
        ({"requests": [{"name": "r", "exactly": CLASS}] * 2}, 'requests[1]: Duplicate value: "r"'),
        ({"requests": [{"name": "r", "exactly": CLASS}] * 33}, "requests: Too many: 33: must have at most 32 items"),
        ({"constraints": [{"requests": ["s"], "matchAttribute": "a.b/c"}]}, "must be the name of a request"),
        ({"constraints": [{"matchAttribute": "numa"}]}, "must be a domain and a name separated by a slash"),
        ({"config": [{"opaque": {"parameters": {}}}]}, "config[0].opaque.driver: Required value"),
        (
            {"requests": [{"name": "r", "exactly": {**CLASS, "tolerations": [{"operator": "Is"}]}}]},
            'tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"',
        ),
    ],
)
def test_claims_with_an_error_are_refused(api: Api, devices: dict[str, Any], message: str) -> None:
    assert message in problem(api, CLAIMS, claim(**devices))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (slice_of({"name": "a"}, {"name": "a"}), 'devices[1]: Duplicate value: "a"'),
        (
            slice_of({"name": "a", "attributes": {"x": {"version": "v1"}}}),
            "must be a string compatible with semver.org",
        ),
        (slice_of({"name": "a", "taints": [{"key": "k", "effect": "Never"}]}), "taints[0].effect: Unsupported value"),
        (slice_of({"name": "a"}, allNodes=True), "{`nodeName`, `allNodes`}"),
        (slice_of({"name": "a", "bindingConditions": ["Ready"]}), "required to use bindingConditions"),
        (slice_of({"name": "a", "capacity": {"m": {"value": "1", "requestPolicy": {}}}}), "allowMultipleAllocations"),
    ],
)
def test_slices_with_an_error_are_refused(api: Api, body: dict[str, Any], message: str) -> None:
    assert message in problem(api, f"{GROUP}/resourceslices", body)


def test_only_namespaces_with_the_label_have_access_of_an_administrator(api: Api) -> None:
    asked = claim(requests=[{"name": "r", "exactly": {**CLASS, "adminAccess": True}}])
    assert "requires the `resource.kubernetes.io/admin-access: true` label" in problem(api, CLAIMS, asked)
    labels = {"resource.kubernetes.io/admin-access": "true"}
    api.good(
        "PATCH",
        "/api/v1/namespaces/default",
        {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )
    assert api.good("POST", CLAIMS, asked)["metadata"]["name"] == "x"


def test_an_allocation_names_requests_of_the_claim_and_does_not_change(api: Api) -> None:
    made = api.good("POST", CLAIMS, claim())
    result = {"request": "s", "driver": "d.example.com", "pool": "n", "device": "a"}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    answer = api.ask("PUT", f"{CLAIMS}/x/status", made)
    assert "results[0].request: Invalid value" in answer.body["message"]
    result["request"] = "r"
    given = api.good("PUT", f"{CLAIMS}/x/status", made)
    given["status"]["allocation"]["devices"]["results"][0]["device"] = "b"
    assert "field is immutable" in api.ask("PUT", f"{CLAIMS}/x/status", given).body["message"]
