"""Endpoints, metrics, autoscaling and certificates in a cluster of `kilauea up`, with kubectl."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cluster.api_process import Server
from cluster.up_process import apply, ask, kubectl, running_up, until

LABELS = {"app": "web"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_up(tmp_path_factory.mktemp("up"), "--nodes", "2") as running:
        requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        container = {"name": "main", "image": "nginx:1", "resources": requests, "ports": [{"containerPort": 80}]}
        metadata = {"labels": LABELS, "annotations": {"kilauea.dev/cpu-usage": "160m"}}
        template = {"metadata": metadata, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
        apply(
            running,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": LABELS, "ports": [{"port": 80}]},
            },
        )
        kubectl(running, "rollout", "status", "deployment/web", "--timeout=60s")
        yield running


def test_a_service_has_endpoints_and_slices(server: Server) -> None:
    def count() -> int:
        found = json.loads(
            kubectl(server, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "json")
        )
        return sum(len(each["endpoints"] or []) for each in found["items"])

    until(lambda: count() >= 2, "two endpoints")
    assert kubectl(server, "get", "ep", "web", "--no-headers").count(":80") >= 2
    assert "Endpoints:" in kubectl(server, "describe", "service", "web")


def test_top_shows_the_usage_of_pods_and_nodes(server: Server) -> None:
    lines = kubectl(server, "top", "pods", "--no-headers").split("\n")
    assert lines[0].split()[1:] == ["160m", "64Mi"]
    assert len(kubectl(server, "top", "nodes", "--no-headers").splitlines()) == 2


def test_an_autoscaler_scales_a_deployment(server: Server) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": 2, "maxReplicas": 4, "scaleTargetRef": target}
    version = "autoscaling/v2"
    apply(server, {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec})
    until(
        lambda: kubectl(server, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "4", "four replicas"
    )
    until(lambda: "cpu: 160%/80%" in kubectl(server, "get", "hpa", "web"), "the metric")


def test_an_approved_request_gives_a_user_who_is_known_by_the_certificate(server: Server, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "team"), x509.NameAttribute(NameOID.COMMON_NAME, "jane")]
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    text = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": text}
    version = "certificates.k8s.io/v1"
    metadata = {"name": "jane"}
    apply(server, {"apiVersion": version, "kind": "CertificateSigningRequest", "metadata": metadata, "spec": spec})
    kubectl(server, "certificate", "approve", "jane")
    until(lambda: "Approved,Issued" in kubectl(server, "get", "csr", "jane"), "the certificate")
    issued = kubectl(server, "get", "csr", "jane", "-o", "jsonpath={.status.certificate}")
    (tmp_path / "crt").write_bytes(base64.b64decode(issued))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    config = tmp_path / "config"
    config.write_text(kubectl(server, "config", "view", "--raw"))
    options = ["--client-certificate", str(tmp_path / "crt"), "--client-key", str(tmp_path / "key")]
    for words in (["set-credentials", "jane", *options], ["set-context", "--current", "--user=jane"]):
        subprocess.run(["kubectl", "--kubeconfig", str(config), "config", *words], check=True, capture_output=True)
    said = ask(server, "--kubeconfig", str(config), "auth", "whoami", "-o", "json")
    assert said.returncode == 0, said.stderr
    user = json.loads(said.stdout)["status"]["userInfo"]
    assert (user["username"], "team" in user["groups"]) == ("jane", True)
