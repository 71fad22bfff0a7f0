"""Daemons in faulty clusters: they name the fault and what to do, live on, and work once it is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Server, running_server

SECONDS = 90.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = ("--webhook-url=https://127.0.0.1:9", "--listen-address=127.0.0.1", "--port=18443")
DAEMONS = {
    "scheduler": ("--listen-address=127.0.0.1:0", "--leader-elect=false"),
    "controllers": ("--leader-elect=false",),
    "webhooks": HOOKS,
}
FAULTS = {
    "unreachable": "check that the server runs, and clusters[].cluster.server",
    "certificate": "set clusters[].cluster.certificate-authority-data to the cluster's authority",
    "credentials": "renew users[].user of the kubeconfig",
    "rights": "grant this user get, list and watch on",
}
"""Faults, each with the advice of the log."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in memory."""
    with running_server(tmp_path_factory.mktemp("faults") / "data", "--durability", "memory") as running:
        yield running


def until(true: Callable[[], Any], log: Path) -> None:
    """Wait for something that is to become true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


@contextmanager
def running(command: str, kubeconfig: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon for the length of a block, which ends well when told to."""
    words = [sys.executable, "-m", "kilauea", command, "--kubeconfig", str(kubeconfig), *DAEMONS[command], *options]
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
    try:
        yield process
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


def faulty(server: Server, fault: str, path: Path) -> Path:
    """A kubeconfig with a fault."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]
    if fault == "unreachable":
        cluster["server"] = "https://127.0.0.1:1"
    elif fault == "certificate":
        del cluster["certificate-authority-data"]
    elif fault == "credentials":
        user["user"] = {"token": "nonsense"}
    else:
        user["user"] = {"token": token_without_rights(server.client())}
    path.write_text(yaml.safe_dump(config))
    return path


def token_without_rights(client: Client) -> str:
    """The token of a service account that may do nothing."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    client.send("POST", accounts, {"metadata": {"name": "powerless"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(client.send("POST", f"{accounts}/powerless/token", request).json()["status"]["token"])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", DAEMONS)
def test_a_daemon_names_the_fault_and_the_fix_and_lives_on(
    server: Server, tmp_path: Path, command: str, fault: str
) -> None:
    log = tmp_path / "log"
    with running(command, faulty(server, fault, tmp_path / "kubeconfig"), log):
        until(lambda: FAULTS[fault] in log.read_text(), log)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_doctor_says_the_same(server: Server, tmp_path: Path, fault: str) -> None:
    kubeconfig = faulty(server, fault, tmp_path / "kubeconfig")
    words = [sys.executable, "-m", "kilauea", "doctor", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == (0 if fault == "rights" else 1), done.stderr
    wanted = "ask an administrator for a role" if fault == "rights" else FAULTS[fault]
    assert wanted in " ".join(done.stdout.split())


def test_a_scheduler_waits_for_a_definition_and_starts_when_it_is_installed(server: Server, tmp_path: Path) -> None:
    client, name, log = server.client(), "podgroups.scheduling.volcano.sh", tmp_path / "log"
    definition = client.get(f"{CRDS}/{name}")
    assert client.send("DELETE", f"{CRDS}/{name}").code == 200
    until(lambda: client.send("GET", f"{CRDS}/{name}").code == 404, server.log)
    with running("scheduler", server.kubeconfig, log):
        until(lambda: f"install its definition, `kubectl apply -f deploy/crds/{name}.yaml`" in log.read_text(), log)
        made = {"metadata": {"name": name}, "spec": definition["spec"]}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        assert client.send("POST", CRDS, {**head, **made}).code == 201
        until(lambda: "scheduling starts" in log.read_text(), log)


def test_webhooks_without_the_right_to_register_wait_for_it(server: Server, tmp_path: Path) -> None:
    client, log = server.client(), tmp_path / "log"
    kubeconfig = faulty(server, "rights", tmp_path / "kubeconfig")
    subjects = [{"kind": "ServiceAccount", "name": "powerless", "namespace": "default"}]
    readable = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    grant(client, "reads", readable, subjects)
    with running("webhooks", kubeconfig, log):
        until(lambda: "grant the webhooks get, list, create and update on secrets" in log.read_text(), log)
        grant(client, "writes", {**readable, "verbs": ["*"]}, subjects)
        until(lambda: "webhooks are ready at" in log.read_text(), log)
    for name in ("reads", "writes"):
        client.send("DELETE", f"{RBAC}/clusterrolebindings/{name}")


def grant(client: Client, name: str, rule: dict[str, Any], subjects: list[dict[str, Any]]) -> None:
    """Bind a role with one rule."""
    client.send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    client.send("POST", f"{RBAC}/clusterrolebindings", body)
