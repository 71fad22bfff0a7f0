"""Endpoints, ingresses, autoscalers, replication controllers, signing requests and other kinds around workloads.

The words are those that the real server says to the same objects (`tests/kubernetes/requests/services.yaml`).
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kilauea.apiserver.admission import service_addresses
from support.api_core import Api, causes

CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
MERGE = "application/merge-patch+json"
POD = {"containers": [{"name": "a", "image": "x"}]}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def signing_request(name: str = "jane") -> str:
    """A request for a certificate, in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def table(api: Api, path: str) -> list[Any]:
    """The cells of an object."""
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    return list(api.good("GET", path, accept=accept)["rows"][0]["cells"])


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (f"{CORE}/endpoints", {"subsets": [{"ports": [{"port": 80}]}]}, [("subsets[0]", "FieldValueRequired")]),
        (
            f"{CORE}/endpoints",
            {"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0}]}]},
            [("subsets[0].addresses[0].ip", "FieldValueInvalid"), ("subsets[0].ports[0].port", "FieldValueInvalid")],
        ),
        (SLICES, {"endpoints": []}, [("addressType", "FieldValueRequired")]),
        (
            SLICES,
            {"addressType": "IPv6", "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": []}]},
            [("endpoints[0].addresses", "FieldValueInvalid"), ("endpoints[1].addresses", "FieldValueRequired")],
        ),
        (
            f"{CORE}/replicationcontrollers",
            {"spec": {"selector": {"a": "c"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}},
            [("spec.template.metadata.labels", "FieldValueInvalid")],
        ),
        (f"{CORE}/podtemplates", {"template": {"spec": {}}}, [("template.spec.containers", "FieldValueRequired")]),
        (
            SCALERS,
            {"spec": {"minReplicas": 5, "maxReplicas": 2, "scaleTargetRef": {**TARGET, "apiVersion": ""}}},
            [("spec.maxReplicas", "FieldValueInvalid"), ("spec.scaleTargetRef.apiVersion", "FieldValueInvalid")],
        ),
        (
            SCALERS,
            {"spec": {"maxReplicas": 2, "scaleTargetRef": TARGET, "metrics": [{"type": "Resource"}]}},
            [("spec.metrics[0].resource", "FieldValueRequired")],
        ),
        (INGRESSES, {"spec": {}}, [("spec", "FieldValueInvalid")]),
        (
            INGRESSES,
            {"spec": {"rules": [{"host": "A_", "http": {"paths": [{"backend": BACKEND}]}}]}},
            [
                ("spec.rules[0].host", "FieldValueInvalid"),
                ("spec.rules[0].http.paths[0].pathType", "FieldValueRequired"),
            ],
        ),
        ("/apis/node.k8s.io/v1/runtimeclasses", {}, [("handler", "FieldValueRequired")]),
        (f"{FLOWS}/prioritylevelconfigurations", {"spec": {"type": "X"}}, [("spec.type", "FieldValueNotSupported")]),
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            {"spec": {"cidrs": ["10.7.0.1/24"]}},
            [("spec.cidrs[0]", "FieldValueInvalid")],
        ),
        (
            REQUESTS,
            {"spec": {"signerName": "example.com/a", "request": "YQ==", "usages": ["client auth", "x"]}},
            [("spec.request", "FieldValueInvalid"), ("spec.usages[1]", "FieldValueNotSupported")],
        ),
    ],
)
def test_an_invalid_object_is_refused_with_its_fields(
    api: Api, path: str, body: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    answer = api.ask("POST", path, {"metadata": {"name": "x"}, **body})
    assert (answer.code, causes(answer)) == (422, expected)


def test_an_autoscaler_without_metrics_is_for_80_percent_of_the_requested_processors(api: Api) -> None:
    made = api.good("POST", SCALERS, {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}})
    target = {"type": "Utilization", "averageUtilization": 80}
    assert made["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert "generation" not in made["metadata"]
    assert table(api, f"{SCALERS}/h")[1:5] == ["Deployment/web", "cpu: <unknown>/80%", "1", 3]


def test_endpoints_are_answered_with_a_warning_that_they_are_deprecated(api: Api) -> None:
    subsets = [{"addresses": [{"ip": f"10.0.0.{number}"} for number in range(1, 6)], "ports": [{"port": 80}]}]
    api.good("POST", f"{CORE}/endpoints", {"metadata": {"name": "web"}, "subsets": subsets})
    answer = api.ask("GET", f"{CORE}/endpoints/web")
    assert "v1 Endpoints is deprecated in v1.33+" in answer.headers["Warning"]
    assert table(api, f"{CORE}/endpoints/web")[1] == "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."


def test_a_replication_controller_takes_its_selector_from_the_template_and_scales(api: Api) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
    path = f"{CORE}/replicationcontrollers"
    made = api.good("POST", path, {"metadata": {"name": "web"}, "spec": {"template": template}})
    assert (made["spec"]["replicas"], made["spec"]["selector"]) == (1, {"app": "web"})
    scale = api.good("PATCH", f"{path}/web/scale", {"spec": {"replicas": 3}}, content_type=MERGE)
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 3}, "app=web")


def test_only_an_approval_approves_a_signing_request_and_its_author_is_noted(api: Api) -> None:
    spec = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "username": "other"}
    body = {"metadata": {"name": "jane"}, "spec": {**spec, "request": signing_request()}}
    made = api.good("POST", REQUESTS, body)
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("admin", ["system:masters"])
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "a", "message": "b"}]}}
    refused = api.ask("PATCH", f"{REQUESTS}/jane/status", approved, content_type=MERGE)
    assert causes(refused) == [("status.conditions", "FieldValueForbidden")]
    api.good("PATCH", f"{REQUESTS}/jane", approved, content_type=MERGE)
    assert table(api, f"{REQUESTS}/jane")[5] == "Pending"
    stored = api.good("PATCH", f"{REQUESTS}/jane/approval", approved, content_type=MERGE)
    assert stored["status"]["conditions"][0]["lastUpdateTime"]
    assert table(api, f"{REQUESTS}/jane")[5] == "Approved"
    denied = {"status": {"conditions": [{"type": "Denied", "status": "True"}]}}
    again = api.ask("PATCH", f"{REQUESTS}/jane/approval", denied, content_type=MERGE)
    assert causes(again) == [("status.conditions", "FieldValueForbidden")]


def test_the_handler_of_a_runtime_class_stays(api: Api) -> None:
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    api.good("POST", path, {"metadata": {"name": "gvisor"}, "handler": "runsc"})
    refused = api.ask("PATCH", f"{path}/gvisor", {"handler": "other"}, content_type=MERGE)
    assert causes(refused) == [("handler", "FieldValueInvalid")]
    assert table(api, f"{path}/gvisor")[1] == "runsc"


def test_a_request_for_a_certificate_of_the_masters_is_refused(api: Api) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")]
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    text = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": text}
    answer = api.ask("POST", REQUESTS, {"metadata": {"name": "root"}, "spec": spec})
    assert answer.code == 403
    assert "with system:masters group is not allowed" in answer.body["message"]


def test_a_new_cluster_has_the_range_of_the_addresses_of_its_services(api: Api) -> None:
    assert table(api, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")[:2] == ["kubernetes", "10.96.0.0/12"]


@pytest.mark.parametrize("role", ["admin", "edit", "view"])
def test_roles_of_a_namespace_contain_its_endpoints_ingresses_autoscalers_and_metrics(api: Api, role: str) -> None:
    rules = api.good("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")["rules"]
    readable = {(rule["apiGroups"][0], each) for rule in rules if "list" in rule["verbs"] for each in rule["resources"]}
    writable = {
        (rule["apiGroups"][0], each) for rule in rules if "create" in rule["verbs"] for each in rule["resources"]
    }
    kept = {
        ("", "replicationcontrollers"),
        ("networking.k8s.io", "ingresses"),
        ("autoscaling", "horizontalpodautoscalers"),
    }
    seen = {("", "endpoints"), ("discovery.k8s.io", "endpointslices"), ("metrics.k8s.io", "pods")}
    assert kept | seen <= readable
    assert bool(kept <= writable) is (role != "view")
    assert not seen & writable


def ported(name: str, ports: int, **spec: Any) -> dict[str, Any]:
    """A service with ports of the nodes."""
    given = [{"name": f"p{number}", "port": number, "targetPort": 80} for number in range(1, ports + 1)]
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": given, **spec}}


def test_a_service_that_asks_for_more_ports_of_the_nodes_than_there_are_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_addresses, "LAST_PORT", service_addresses.FIRST_PORT + 19)
    refused = api.ask("POST", f"{CORE}/services", ported("many", 21))
    assert refused.code == 500
    assert refused.body["message"] == "Internal error occurred: failed to allocate a nodePort: range is full"
    made = api.good("POST", f"{CORE}/services", ported("all", 20))
    assert len({each["nodePort"] for each in made["spec"]["ports"]}) == 20
    assert api.ask("POST", f"{CORE}/services", ported("one", 1)).code == 500
    local = {"allocateLoadBalancerNodePorts": False, "externalTrafficPolicy": "Local", "type": "LoadBalancer"}
    refused = api.ask("POST", f"{CORE}/services", ported("checked", 1, **local))
    assert refused.body["message"].endswith("failed to allocate a HealthCheck NodePort: range is full")


def test_each_version_of_a_service_is_read_once_for_its_addresses(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    allocated = service_addresses.allocated

    def noted(value: bytes) -> service_addresses.Allocated:
        read.append(value)
        return allocated(value)

    monkeypatch.setattr(service_addresses, "allocated", noted)
    for number in range(6):
        api.good("POST", f"{CORE}/services", {"metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}})
    assert len(read) <= 6
    assert len(read) == len(set(read))
