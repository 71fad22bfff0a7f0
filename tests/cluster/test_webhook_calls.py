"""Webhooks at our own server, as processes: `kilauea webhooks` registered at `kilauea apiserver`, and kubectl."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Server, start_server
from cluster.up_process import until
from support.webhook_server import WebhookServer, deny, patching


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`kilauea apiserver`, which checks nothing of Volcano's itself."""
    made = start_server(tmp_path_factory.mktemp("hooks") / "data")
    yield made
    made.stop()


def kubectl(server: Server, *words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
    """Run kubectl, whatever comes of it."""
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.data_dir)}
    text = "" if given is None else json.dumps(given)
    return subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


@contextmanager
def volcano_webhooks(server: Server, log: Path) -> Iterator[None]:
    """`kilauea webhooks` for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["-m", "kilauea", "webhooks", "--kubeconfig", str(server.kubeconfig), "--listen-address", "127.0.0.1"]
    words += ["--port", str(port), "--webhook-url", f"https://127.0.0.1:{port}", "--webhook-namespace", "kube-system"]
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *words], stdout=out, stderr=out)
    try:
        until(lambda: "webhooks are ready" in log.read_text() or process.poll() is not None, "webhooks")
        assert process.poll() is None, log.read_text()
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_our_own_webhooks_complete_and_refuse_at_our_own_server(server: Server, tmp_path: Path) -> None:
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a", "namespace": "default"}}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    for name in ("root", "default"):
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        assert kubectl(server, "apply", "-f", "-", given=queue).returncode == 0
        words = ("--subresource=status", "--type=merge", "-p", '{"status": {"state": "Open"}}')
        assert kubectl(server, "patch", "queue", name, *words).returncode == 0
    with volcano_webhooks(server, tmp_path / "log"):
        done = kubectl(server, "create", "-f", "-", given={**job, "spec": {"tasks": [task]}})
        assert done.returncode == 0, done.stderr
        made = json.loads(kubectl(server, "get", "jobs.batch.volcano.sh", "a", "-o", "json").stdout)
        assert made["spec"]["queue"] == "default"
        wrong = {**job, "metadata": {"name": "b", "namespace": "default"}, "spec": {"tasks": [task, task]}}
        refused = kubectl(server, "create", "-f", "-", given=wrong)
        assert 'admission webhook "validatejob.volcano.sh" denied the request' in refused.stderr
    kubectl(server, "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")


def test_kubectl_sees_what_webhooks_and_policies_say(server: Server) -> None:
    hooks = WebhookServer(
        patch=patching({"op": "add", "path": "/data", "value": {"added": "yes"}}), deny=deny("not on my watch")
    )
    try:
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        group = "admissionregistration.k8s.io/v1"
        for kind, path in (("MutatingWebhookConfiguration", "patch"), ("ValidatingWebhookConfiguration", "deny")):
            webhook = {
                "name": f"{path}.example.com", "rules": [rule], "clientConfig": hooks.client(path),
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "objectSelector": {"matchLabels": {"hook": path}},
            }  # fmt: skip
            made = {"apiVersion": group, "kind": kind, "metadata": {"name": path}, "webhooks": [webhook]}
            assert kubectl(server, "apply", "-f", "-", given=made).returncode == 0
        config: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
        made = {**config, "metadata": {"name": "patched", "labels": {"hook": "patch"}}}
        assert kubectl(server, "apply", "-f", "-", given=made).returncode == 0
        assert kubectl(server, "get", "cm", "patched", "-o", "jsonpath={.data.added}").stdout == "yes"
        made = {**config, "metadata": {"name": "denied", "labels": {"hook": "deny"}}}
        refused = kubectl(server, "apply", "-f", "-", given=made)
        assert 'admission webhook "deny.example.com" denied the request: not on my watch' in refused.stderr
    finally:
        kubectl(server, "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")
        hooks.close()
