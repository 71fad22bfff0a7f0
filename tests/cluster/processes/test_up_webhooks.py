"""A webhook that runs as a pod of `kilauea up --runtime process`, behind its service."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from cluster.api_process import Server
from cluster.processes.process_cluster import pod, process_cluster
from cluster.up_process import apply, ask, until

WEBHOOK = """if True:
    import http.server, json, os, ssl

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = review["request"]
            good = "owner" in (asked["object"]["metadata"].get("labels") or {})
            answer = {"uid": asked["uid"], "allowed": good, "status": {"message": "name an owner"}}
            body = json.dumps({**review, "request": None, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8443), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain("/certificates/tls.crt", "/certificates/tls.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
"""
HOOKS = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process_cluster(tmp_path_factory.mktemp("up")) as cluster:
        running = cluster.start("--simulated-nodes", "1")
        yield running
        running.stop()


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def service(name: str) -> dict[str, Any]:
    """A service for the pods with its name as label."""
    spec = {"selector": {"app": name}, "ports": [{"port": 443, "targetPort": 8443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def configuration(name: str, bundle: str) -> dict[str, Any]:
    """A webhook behind a service, which looks at config maps with its name as label."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    address = {"namespace": "default", "name": name, "path": "/"}
    webhook = {
        "name": f"{name}.example.com", "rules": [rule], "clientConfig": {"service": address, "caBundle": bundle},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"asks": name}},
    }  # fmt: skip
    kind = "ValidatingWebhookConfiguration"
    return {"apiVersion": HOOKS, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]}


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def refusal(server: Server, made: dict[str, Any]) -> str:
    """What kubectl says of an object that is not taken; empty if it is."""
    return ask(server, "create", "-f", "-", given=json.dumps(made)).stderr


def test_a_webhook_in_a_pod_is_asked_over_tls(server: Server, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("hooks.default.svc")
    data = {
        "tls.crt": encoded(certificate.cert_chain_pems[0].bytes()),
        "tls.key": encoded(certificate.private_key_pem.bytes()),
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hooks"}, "data": data}
    main = {
        "command": [os.path.realpath(sys.executable), "-c", WEBHOOK],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        "volumeMounts": [{"name": "certificates", "mountPath": "/certificates"}],
    }
    volumes = [{"name": "certificates", "secret": {"secretName": "hooks"}}]
    hooks = pod("hooks", "", main=main, volumes=volumes, nodeName=socket.gethostname().lower())
    hooks["metadata"]["labels"] = {"app": "hooks"}
    apply(server, secret, service("hooks"), configuration("hooks", encoded(authority.cert_pem.bytes())))
    none = refusal(server, config_map("early", asks="hooks"))
    assert 'no endpoints available for service "hooks"' in none
    apply(server, hooks)
    denied = 'admission webhook "hooks.example.com" denied the request: name an owner'
    until(lambda: denied in refusal(server, config_map("nobodys", asks="hooks")), "the webhook to be asked")
    assert refusal(server, config_map("somebodys", asks="hooks", owner="me")) == ""
    other = configuration("hooks", encoded(trustme.CA().cert_pem.bytes()))
    apply(server, other)
    assert "failed to verify certificate: x509" in refusal(server, config_map("other", asks="hooks", owner="me"))


def test_a_webhook_in_a_simulated_pod_is_said_to_serve_nothing(server: Server) -> None:
    simulated = pod("idle", "sleep 1000", nodeName="node-0")
    simulated["metadata"]["labels"] = {"app": "idle"}
    apply(server, simulated, service("idle"), configuration("idle", encoded(trustme.CA().cert_pem.bytes())))
    words = "pod default/idle is simulated and serves nothing"
    assert words in refusal(server, config_map("asks", asks="idle"))
