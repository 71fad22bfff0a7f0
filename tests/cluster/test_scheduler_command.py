"""`kilauea scheduler` as a process, at a server in another: it places, says how it is, and hands the lease on."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server, running_server

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
OFFER = {"cpu": "64", "memory": "64Gi", "pods": "110"}
QUICK = ("--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=200ms")
SECONDS = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one node."""
    with running_server(tmp_path_factory.mktemp("scheduled") / "data", "--durability", "memory") as running:
        status = {"capacity": OFFER, "allocatable": OFFER, "conditions": [{"type": "Ready", "status": "True"}]}
        client = running.client()
        client.send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
        merge = {"Content_Type": "application/merge-patch+json"}
        client.send("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}, **merge)
        until(lambda: client.send("GET", "/apis/scheduling.volcano.sh/v1beta1/queues").code == 200)
        yield running


class Process:
    """The command at work."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.log = log
        self.process = process

    def page(self, path: str) -> tuple[int, str]:
        """Code and text of one of its pages."""
        found = re.search(r"pages at http://127.0.0.1:(\d+)", self.log.read_text())
        if found is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self) -> None:
        """SIGTERM ends it cleanly."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()


@contextmanager
def scheduling(server: Server, log: Path, *options: str) -> Iterator[Process]:
    """The command for the length of a block."""
    pages = ("--kubeconfig", str(server.kubeconfig), "--listen-address", "127.0.0.1:0")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "kilauea", "scheduler", *pages, *options]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield Process(log, process)
    finally:
        process.kill()
        process.wait(30)


def until(true: Callable[[], Any]) -> None:
    """Wait for something that is to become true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)


def make_gang(client: Client, name: str, size: int, resources: dict[str, Any] | None = None) -> None:
    """A pod group with its pods."""
    path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    assert client.send("POST", path, {**group, "spec": {"minMember": size, "queue": "default"}}).code == 201
    for number in range(size):
        metadata = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        container = {"name": "c", "image": "busybox"} | ({"resources": resources} if resources else {})
        spec = {"schedulerName": "volcano", "containers": [container]}
        assert client.send("POST", PODS, {"metadata": metadata, "spec": spec}).code == 201


def is_placed(client: Client, name: str, size: int) -> bool:
    """Whether all pods of a gang are on the node."""
    return all(client.get(f"{PODS}/{name}-{n}")["spec"].get("nodeName") == "n1" for n in range(size))


def test_it_places_a_gang_and_shows_its_pages(server: Server, tmp_path: Path) -> None:
    client = server.client()
    flags = ("--leader-elect=false", "-v=3", "--percentage-nodes-to-find=50", "--enable-metrics", "--logtostderr")
    with scheduling(server, tmp_path / "log", *flags) as scheduler:
        until(lambda: scheduler.page("/readyz")[0] == 200)
        make_gang(client, "first", 3)
        until(lambda: is_placed(client, "first", 3))
        assert scheduler.page("/healthz") == (200, "ok")
        assert 'volcano_schedule_attempts_total{result="scheduled"} 3.0' in scheduler.page("/metrics")[1]
        until(lambda: "Scheduled" in str(client.get("/api/v1/namespaces/default/events")))
        assert "--percentage-nodes-to-find has no effect" in scheduler.log.read_text()
        scheduler.stop()


def test_a_second_one_takes_over_when_the_first_dies(server: Server, tmp_path: Path) -> None:
    client = server.client()
    with (
        scheduling(server, tmp_path / "one", *QUICK) as one,
        scheduling(server, tmp_path / "two", *QUICK) as two,
    ):
        until(lambda: client.send("GET", LEASE).code == 200 and client.get(LEASE)["spec"].get("holderIdentity"))
        make_gang(client, "before", 2)
        until(lambda: is_placed(client, "before", 2))
        leads = [each for each in (one, two) if "leads" in each.log.read_text()]
        assert len(leads) == 1
        leads[0].process.kill()
        make_gang(client, "after", 2)
        until(lambda: is_placed(client, "after", 2))
        (two if leads[0] is one else one).stop()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--scheduler-conf", "/no/such", "--disable-default-scheduler-config"), 2, "/no/such: No such file"),
        (("--schedule-period", "soon"), 2, "not a duration"),
        (("--listen-address", "nowhere"), 2, "use HOST:PORT"),
        (("--leader-elect-lease-duration", "1s"), 2, "each must be longer than the next"),
    ],
)
def test_what_cannot_be_used_is_said_at_once(
    server: Server, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    with scheduling(server, tmp_path / "log", *options) as scheduler:
        assert scheduler.process.wait(30) == code
        assert words in scheduler.log.read_text()
        assert "Traceback" not in scheduler.log.read_text()


def test_a_port_in_use_is_said_and_ends_it(server: Server, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with scheduling(server, tmp_path / "log", "--listen-address", address) as scheduler:
            assert scheduler.process.wait(30) == 1
            assert "choose another address with --listen-address" in scheduler.log.read_text()


def test_a_leader_that_was_stopped_binds_nothing_when_it_goes_on(server: Server, tmp_path: Path) -> None:
    client = server.client()
    slow = ("--kube-api-qps=5", "--kube-api-burst=1")  # its binds wait to be sent when it is stopped
    with (
        scheduling(server, tmp_path / "one", *QUICK, *slow) as one,
        scheduling(server, tmp_path / "two", *QUICK, *slow) as two,
    ):
        until(lambda: any("leads" in each.log.read_text() for each in (one, two)))
        first, second = (one, two) if "leads" in one.log.read_text() else (two, one)
        until(lambda: first.page("/readyz")[0] == 200)
        make_gang(client, "paused", 30)
        until(lambda: any(is_bound(client, "paused", n) for n in range(30)))
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: "leads" in second.log.read_text())
        second.process.send_signal(signal.SIGSTOP)
        time.sleep(1)  # what the first one had sent before has arrived
        bound = [n for n in range(30) if is_bound(client, "paused", n)]
        assert len(bound) < 30
        first.process.send_signal(signal.SIGCONT)
        assert first.process.wait(30) == 1
        assert "could not be renewed" in first.log.read_text()
        assert [n for n in range(30) if is_bound(client, "paused", n)] == bound
        second.process.send_signal(signal.SIGCONT)
        with scheduling(server, tmp_path / "three", *QUICK):
            until(lambda: is_placed(client, "paused", 30))


def is_bound(client: Client, gang: str, number: int) -> bool:
    """Whether one pod of a gang has a node."""
    return bool(client.get(f"{PODS}/{gang}-{number}")["spec"].get("nodeName"))
