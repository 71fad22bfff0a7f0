"""`kilauea controllers` as a process beside a server: killed in the midst of its work, the next one ends it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cluster.api_process import Client, Server
from cluster.up_process import until

PODS = 300


@contextmanager
def running_controllers(server: Server, log: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command with all controllers."""
    command = [sys.executable, "-m", "kilauea", "controllers", "--kubeconfig", str(server.kubeconfig)]
    options = ["--kubernetes-controllers", "*", "--leader-elect=false"]
    with log.open("ab") as output:
        process = subprocess.Popen([*command, *options, *more], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def items(client: Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.send("GET", path).json()["items"]
    return found


def test_what_a_killed_process_has_started_the_next_one_ends(
    server: Server, client: Client, namespace: str, tmp_path: Path
) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    assert client.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body).code == 201
    pods = f"/api/v1/namespaces/{namespace}/pods"
    log = tmp_path / "log"
    with running_controllers(server, log) as process:
        until(lambda: len(items(client, pods)) > PODS // 10, "some pods")
        process.kill()
        process.wait()
    started = len(items(client, pods))
    with running_controllers(server, log) as process:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        until(lambda: client.send("GET", path).json().get("status", {}).get("replicas") == PODS, "all pods")
        names = {each["metadata"]["name"] for each in items(client, "/apis/scheduling.volcano.sh/v1beta1/queues")}
        assert {"root", "default"} <= names
        process.terminate()
        assert process.wait(10) == 0
    assert len(items(client, pods)) == PODS >= started
    assert len(items(client, f"/apis/apps/v1/namespaces/{namespace}/replicasets")) == 1
    assert "Traceback" not in log.read_text()


def test_flags_of_the_original_are_taken_and_pages_served(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ["--worker-threads=3", "--worker-threads-for-gc=5", "--logtostderr", "-v=4", "--max-requeue-num=15"]
    pages = ["--enable-healthz=true", "--enable-metrics=true"]
    addresses = ["--healthz-address=127.0.0.1:0", "--listen-address=127.0.0.1:0"]
    with running_controllers(server, log, *flags, *pages, *addresses) as process:
        until(lambda: log.read_text().count("pages at") == 2, "two addresses")
        found = re.findall(r"pages at (http://[^:]+:[0-9]+)", log.read_text())
        assert [urlopen(f"{address}/healthz").read() for address in found] == [b"ok", b"ok"]
        series = 'volcano_queue_pod_group_pending_count{queue_name="root"}'
        until(lambda: series in urlopen(f"{found[1]}/metrics").read().decode(), "figures of queues")
        process.terminate()
        assert process.wait(10) == 0
    assert "warning: --worker-threads has no effect here" in log.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--controllers", "queue"],
            '--controllers: invalid controller "queue": use * or ',
        ),
        (
            ["--controllers=-pg-controller"],
            "--controllers selects no controller: use * or a name, for example queue-controller",
        ),
        (["--enable-metrics", "--listen-address", "here"], '--listen-address: invalid address "here": use HOST:PORT'),
        (["--leader-elect-renew-deadline", "20s"], "--leader-elect: "),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: list[str], words: str) -> None:
    command = [sys.executable, "-m", "kilauea", "controllers", *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert words in ended.stderr
