"""Two schedulers and two controller managers: one takes over from another that dies, stands still or is cut off.

All processes are real, at `kilauea apiserver` in another process. That another one leads within 20 seconds is shown
at a virtual clock (`tests/client/test_lease.py`); here leases are shorter.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Endpoint, Server, running_server, start_server
from cluster.faulty_proxy import FaultyProxy, running_proxy
from cluster.test_scheduler_command import make_gang
from cluster.up_process import until

QUICK = ("--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms")
SLOW = ("--kube-api-qps=10", "--kube-api-burst=1")
"""Writes wait to be sent when a process is stopped or cut off."""
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CPUS = 12
MERGE = {"Content_Type": "application/merge-patch+json"}
ROOT = Path(__file__).resolve().parents[2]


class Process:
    """A command of ours and its log."""

    def __init__(self, command: str, kubeconfig: Path, log: Path, *options: str) -> None:
        self.log = log
        words = [sys.executable, "-m", "kilauea", command, "--kubeconfig", str(kubeconfig), *options]
        with log.open("ab") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=output)

    def leads(self) -> bool:
        """True once it has held the lease."""
        return "leads" in self.log.read_text()

    def has_ended(self) -> bool:
        """True if it does not run any more."""
        return self.process.poll() is not None

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with two nodes."""
    with running_server(tmp_path / "data", "--durability", "memory") as running:
        make_nodes(running.client())
        yield running


def make_nodes(client: Client) -> None:
    offer = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
    status = {"capacity": offer, "allocatable": offer, "conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("n1", "n2"):
        assert client.send("POST", NODES, {"metadata": {"name": name}, "status": status}).code == 201
        client.send("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}}, **MERGE)
    until(lambda: client.send("GET", "/apis/scheduling.volcano.sh/v1beta1/queues").code == 200, "definitions")


@contextmanager
def pair(
    server: Endpoint, proxy: FaultyProxy, folder: Path, command: str, *given: str, terms: Sequence[str] = QUICK
) -> Iterator[list[Process]]:
    """Two processes, of which the first leads, is slow, and reaches the server by the proxy only.

    Args:
        server: where they work.
        proxy: that of the first.
        folder: for logs.
        command: what they run.
        given: more options.
        terms: options with the terms of the lease.
    """
    first = Process(command, proxy.kubeconfig(folder / "config"), folder / "first", *terms, *SLOW, *given)
    processes = [first]
    try:
        until(first.leads, "the first to lead")
        processes.append(Process(command, server.kubeconfig, folder / "second", *terms, *given))
        until(lambda: "leads" not in processes[1].log.read_text() and first.leads(), "the first to lead alone")
        yield processes
    finally:
        for each in processes:
            each.end()


def fail(fault: str, first: Process, second: Process, proxy: FaultyProxy) -> list[str]:
    """Let the first process fail until the other leads, and then go on; returns what it had sent before."""
    if fault == "cut off":
        proxy.cut()
    else:
        first.process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    until(second.leads, "the other to lead")
    sent = list(proxy.writes)
    if fault == "cut off":
        proxy.heal()
    if fault == "paused":
        first.process.send_signal(signal.SIGCONT)
    return sent


def check_end(fault: str, first: Process, sent: list[str], proxy: FaultyProxy) -> None:
    """The process that had failed ends, and has sent nothing since the other leads, but for asking for the lease."""
    assert first.process.wait(60) == (-signal.SIGKILL if fault == "killed" else 1)
    assert fault == "killed" or "could not be renewed" in first.log.read_text()
    assert proxy.writes == sent


def bound(client: Client) -> Counter[str]:
    """The number of pods on each node."""
    nodes = [each["spec"].get("nodeName") for each in client.get(PODS)["items"]]
    return Counter(filter(None, nodes))


@pytest.mark.parametrize("fault", ["killed", "paused", "cut off"])
def test_another_scheduler_takes_over_and_no_node_is_filled_twice(server: Server, tmp_path: Path, fault: str) -> None:
    client = server.client()
    with (
        running_proxy(server) as proxy,
        pair(server, proxy, tmp_path, "scheduler", "--listen-address=127.0.0.1:0") as (first, second),
    ):
        make_gang(client, "first", 10, {"requests": {"cpu": "1"}})
        until(lambda: bound(client), "some pods to be bound")
        sent = fail(fault, first, second, proxy)
        make_gang(client, "second", 14, {"requests": {"cpu": "1"}})
        until(lambda: bound(client).total() == 2 * CPUS, "all room to be used", 120)
        check_end(fault, first, sent, proxy)
        make_gang(client, "beyond", 1, {"requests": {"cpu": "1"}})
        until(lambda: client.get(f"{PODS}/beyond-0")["status"].get("conditions"), "the last pod to wait")
        assert bound(client) == {"n1": CPUS, "n2": CPUS}
        assert second.process.poll() is None


@pytest.mark.parametrize("fault", ["killed", "paused", "cut off"])
def test_another_controller_manager_takes_over_and_makes_no_pod_twice(
    server: Server, tmp_path: Path, fault: str
) -> None:
    client, size = server.client(), 40
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": size, "selector": {"matchLabels": labels}, "template": template}
    web = {"metadata": {"name": "web"}, "spec": spec}
    with (
        running_proxy(server) as proxy,
        pair(server, proxy, tmp_path, "controllers", "--kubernetes-controllers=*") as (first, second),
    ):
        assert client.send("POST", "/apis/apps/v1/namespaces/default/replicasets", web).code == 201
        until(lambda: len(client.get(PODS)["items"]) > 5, "some pods")
        sent = fail(fault, first, second, proxy)
        check_end(fault, first, sent, proxy)
        path = "/apis/apps/v1/namespaces/default/replicasets/web"
        until(lambda: client.get(path).get("status", {}).get("replicas") == size, "all pods")
        assert len(client.get(PODS)["items"]) == size
        assert second.process.poll() is None


def job(name: str, size: int = 4) -> dict[str, Any]:
    """A job of pods that run for a second."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"annotations": {"kilauea.dev/run-time": "1s"}}
    template = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "schedulerName": "volcano",
        "minAvailable": size,
        "tasks": [{"name": "a", "replicas": size, "template": template}],
    }
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_jobs_complete_although_the_server_is_killed_and_answers_with_errors(tmp_path: Path) -> None:
    patient = ("--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s")
    server = start_server(tmp_path / "data")
    port = server.url.rpartition(":")[2]
    processes = []
    try:
        with running_proxy(server) as proxy:
            config = proxy.kubeconfig(tmp_path / "config")
            for number in (1, 2):
                pages = "--listen-address=127.0.0.1:0"
                processes.append(Process("scheduler", config, tmp_path / f"scheduler{number}", pages, *patient))
                processes.append(Process("controllers", config, tmp_path / f"controllers{number}", *patient))
            flags = ("--count", "3", "--node-cpu", "8")
            processes.append(Process("nodes", config, tmp_path / "nodes", *flags))
            client = server.client()
            until(lambda: len(client.get(NODES)["items"]) == 3, "the nodes")
            for node in client.get(NODES)["items"]:
                client.send("PATCH", f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": None}}, **MERGE)
            proxy.rate = 0.2
            for number in range(8):
                assert client.send("POST", JOBS, job(f"before-{number}")).code == 201
            until(lambda: "Completed" in phases(client), "a job to complete", 90)
            server.kill()
            server = start_server(tmp_path / "data", "--listen", f"127.0.0.1:{port}")
            client = server.client()
            for number in range(8):
                assert client.send("POST", JOBS, job(f"after-{number}")).code == 201
            until(lambda: phases(client) == {"Completed": 16}, "all jobs to complete", 120)
            assert proxy.seen == {"refused", "late", "lost", "unanswered", "outdated"}
        assert {each["status"]["succeeded"] for each in client.get(JOBS)["items"]} == {4}
        assert {each["status"].get("retryCount", 0) for each in client.get(JOBS)["items"]} == {0}
        assert [each.log.name for each in processes if each.process.poll() is not None] == []
        assert [each.log.name for each in processes if "Traceback" in each.log.read_text()] == []
    finally:
        for each in processes:
            each.end()
        server.kill()


def phases(client: Client) -> Counter[str]:
    """How many jobs are in which phase."""
    found = client.get(JOBS)["items"]
    return Counter(each.get("status", {}).get("state", {}).get("phase", "") for each in found)


def test_a_definition_that_is_deleted_and_comes_back_is_followed_again(server: Server, tmp_path: Path) -> None:
    client = server.client()
    scheduler = Process("scheduler", server.kubeconfig, tmp_path / "log", "--listen-address=127.0.0.1:0", *QUICK)
    try:
        make_gang(client, "before", 2)
        until(lambda: bound(client).total() == 2, "the first gang to be bound")
        name = "podgroups.scheduling.volcano.sh"
        definition = yaml.safe_load((ROOT / "deploy" / "crds" / f"{name}.yaml").read_text())
        assert client.send("DELETE", f"{DEFINITIONS}/{name}").code == 200
        groups = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
        until(lambda: client.send("GET", groups).code == 404, "the kind to be gone")
        assert client.send("POST", DEFINITIONS, definition).code == 201
        until(lambda: client.send("GET", groups).code == 200, "the kind to be back")
        make_gang(client, "after", 2)
        until(lambda: bound(client).total() == 4, "the second gang to be bound", 90)
        assert scheduler.process.poll() is None
        assert "Traceback" not in scheduler.log.read_text()
    finally:
        scheduler.end()
