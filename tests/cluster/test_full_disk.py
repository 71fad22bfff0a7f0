"""A disk that is full at the start, or becomes so while the cluster runs: clear words, nothing broken, on it goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.api_process import Client
from cluster.up_process import apply, phases, pod, running_up, until

MAPS = "/api/v1/namespaces/default/configmaps"
ONE_NODE = ("--nodes", "1")
ROOM = 12 * 1024 * 1024
FULL = "Internal error occurred: the write could not be stored: database or disk is full"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A data folder that is a small disk of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk of its own can be had only where file systems may be mounted")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Fill a disk but for so many bytes; returns the file that does."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with ballast.open("wb") as file:
        file.write(bytes(max(0, free - leave)))
    return ballast


def write(client: Client, name: str, path: str = MAPS) -> str:
    """Create an object of some size; empty, or why not."""
    body = {"metadata": {"name": name}, "data": {"text": "x" * 50_000}}
    answer = client.send("POST", path, body)
    return "" if answer.code == 201 else f"{answer.code} {answer.json()['message']}"


def names(client: Client) -> set[str]:
    """Those that users made."""
    return {each["metadata"]["name"] for each in client.get(MAPS)["items"]} - {"kube-root-ca.crt"}


def failed_start(folder: Path) -> str:
    """What is said by a cluster that cannot start, in which it exits with 1."""
    words = [sys.executable, "-m", "kilauea", "up", "--listen", "127.0.0.1:0", "--data-dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_writes_are_refused_while_there_is_no_room_and_the_cluster_goes_on_when_there_is(disk: Path) -> None:
    with running_up(disk, *ONE_NODE) as server:
        client = server.client()
        apply(server, pod("before", command="sleep 1"))
        ballast = fill(disk, leave=300_000)
        results = {name: write(client, name) for name in (f"map-{number}" for number in range(20))}
        stored = {name for name, fault in results.items() if not fault}
        assert set(results.values()) == {"", f"500 {FULL}"}
        assert names(client) == stored
        assert client.send("GET", "/readyz").code == 200
        ballast.unlink()
        until(lambda: not write(client, "after"), "room to be used")
        apply(server, pod("late", command="sleep 1"))
        until(lambda: phases(client) == {"Succeeded": 2}, "both pods to run")
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
    with running_up(disk, *ONE_NODE) as server:
        assert names(server.client()) == stored | {"after"}


def test_a_pod_that_fills_the_disk_is_evicted_and_writes_go_on(disk: Path) -> None:
    def container(command: str, *mounts: dict[str, str]) -> dict[str, object]:
        return {"name": "main", "image": "host", "command": ["sh", "-c", command], "volumeMounts": mounts}

    def made(name: str, main: dict[str, object], *volumes: dict[str, object]) -> dict[str, object]:
        spec = {"containers": [main], "restartPolicy": "Never", "volumes": volumes}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    fills = container("yes > /scratch/file; sleep 600", {"name": "scratch", "mountPath": "/scratch"})
    with running_up(disk, "--runtime", "process") as server:
        client = server.client()
        apply(server, made("beside", container("sleep 600")))
        apply(server, made("filling", fills, {"name": "scratch", "emptyDir": {}}))
        until(lambda: phases(client) == {"Running": 1, "Failed": 1}, "the eviction")
        until(lambda: not write(client, "after"), "room to be used")
        status = client.get("/api/v1/namespaces/default/pods/filling")["status"]
        assert status["reason"] == "Evicted"
        assert status["message"].startswith("The node was low on resource: ephemeral-storage. ")
        client.send("DELETE", "/api/v1/namespaces/default/pods/beside?gracePeriodSeconds=0")
        until(lambda: phases(client) == {"Failed": 1}, "the end of the other pod")


def test_a_namespace_that_stores_all_it_can_leaves_room_for_the_others(disk: Path) -> None:
    team = MAPS.replace("default", "team")
    with running_up(disk, *ONE_NODE) as server:
        client = server.client()
        client.send("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        results = [write(client, f"map-{number}", team) for number in range(ROOM // 50_000)]
        stored = results.index(next(filter(None, results)))
        assert set(results[:stored]) == {""}
        assert stored * 50_000 > ROOM // 10
        assert {each.partition(": ")[2].partition(" take ")[0] for each in results[stored:]} == {
            "the objects of namespace team"
        }
        assert not write(client, "other")
    with running_up(disk, *ONE_NODE) as server:  # with all that it had
        client = server.client()
        assert write(client, "more", team).startswith('403 configmaps "more" is forbidden: ')
        assert not write(client, "another")
        apply(server, pod("after", command="sleep 1"))
        until(lambda: phases(client) == {"Succeeded": 1}, "the pod to run")
        for number in range(5):
            client.send("DELETE", f"{team}/map-{number}")
        assert not write(client, "more", team)


@pytest.mark.parametrize("leave", [0, 100_000, 300_000, 650_000, 700_000])
def test_a_start_without_room_says_so(disk: Path, leave: int) -> None:
    fill(disk, leave)
    said = failed_start(disk)
    assert said.startswith(f"kilauea up: {disk}")
    assert "No space left on device" in said or "disk is full" in said
    assert len(said.splitlines()) == 1


def test_a_cluster_whose_disk_is_full_says_so_and_starts_when_there_is_room(disk: Path) -> None:
    with running_up(disk, *ONE_NODE) as server:
        assert not write(server.client(), "kept")
    ballast = fill(disk)
    said = failed_start(disk)
    assert said.startswith(f"kilauea up: {disk}")
    assert "No space left on device" in said or "disk is full" in said
    ballast.unlink()
    with running_up(disk, *ONE_NODE) as server:
        assert "kept" in names(server.client())
