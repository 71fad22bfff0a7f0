"""`kilauea nodes` as a process beside a server: killed in the midst of pods' lives, the next one goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server
from cluster.up_process import until


@contextmanager
def running_nodes(server: Server, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, from when it has registered its nodes."""
    command = [sys.executable, "-m", "kilauea", "nodes", "--kubeconfig", str(server.kubeconfig), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        until(lambda: "simulating" in log.read_text() or process.poll() is not None, "the nodes to be registered")
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.kill()
        process.wait()


def create(client: Client, namespace: str, name: str, command: str, **spec: Any) -> None:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    body = {"metadata": {"name": name}, "spec": {"nodeName": "node-0", "containers": [container], **spec}}
    answer = client.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert answer.code == 201, answer.content


def phase(client: Client, namespace: str, name: str) -> str:
    return str(client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]["phase"])


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_pods_go_on_where_the_last_process_left_them(
    server: Server, client: Client, namespace: str, tmp_path: Path, end: str
) -> None:
    with running_nodes(server, tmp_path / "first.log", "--count", "2", "--node-cpu", "3") as process:
        create(client, namespace, "stays", "sleep 3600")
        until(lambda: phase(client, namespace, "stays") == "Running", "the pod that stays to run")
        create(client, namespace, "ends", "sleep 3; exit 4", restartPolicy="Never")
        until(lambda: phase(client, namespace, "ends") == "Running", "the pod that ends to run")
        getattr(process, end)()
        code = process.wait()
        assert end == "kill" or code == 0, (tmp_path / "first.log").read_text()
    address = client.get(f"/api/v1/namespaces/{namespace}/pods/stays")["status"]["podIP"]
    with running_nodes(server, tmp_path / "second.log", "--node-cpu", "64"):
        until(lambda: phase(client, namespace, "ends") == "Failed", "the pod to end")
        stays = client.get(f"/api/v1/namespaces/{namespace}/pods/stays")
        assert stays["status"]["podIP"] == address
        assert stays["status"]["containerStatuses"][0]["restartCount"] == 0
        assert client.get("/api/v1/nodes/node-1")["status"]["capacity"]["cpu"] == "3"
    ended = client.get(f"/api/v1/namespaces/{namespace}/pods/ends")["status"]["containerStatuses"][0]["state"]
    assert ended["terminated"]["exitCode"] == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kubeconfig", "/nowhere/at-all"), "no such file"),
        (("--node-cpu", "lots"), '"lots" is not a quantity'),
        (("--node-memory", "0"), 'invalid amount "0": must be above 0'),
        (("--start-delay", "soon"), '"soon" is not a duration'),
    ],
)
def test_bad_options_are_refused_with_the_fix(options: tuple[str, ...], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kilauea", "nodes", *options], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert words in done.stderr
