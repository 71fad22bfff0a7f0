"""`kilauea up` ends and is started again on its folder: the cluster goes on, whatever way it ended."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server
from cluster.up_process import GROUPS, PODS, apply, gang, phases, pod, start_up, uids, until

NODES = ("--nodes", "3", "--node-cpu", "34")


@contextmanager
def at_work(data_dir: Path, *options: str) -> Iterator[Server]:
    """A cluster that may be gone when the block ends."""
    server = start_up(data_dir, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def status_of(client: Client, name: str) -> Any:
    return client.get(f"{PODS}/{name}")["status"]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_running_pods_go_on_and_a_waiting_gang_starts_when_room_comes(tmp_path: Path, way: str) -> None:
    options = ("--nodes", "1", "--node-cpu", "4")
    with at_work(tmp_path / "data", *options) as server:
        apply(server, pod("stays", cpu="2"), pod("ends", command="sleep 6; exit 3"))
        until(lambda: phases(server.client()) == {"Running": 2}, "both pods to run")
        apply(server, *gang("next", 2))
        group = f"{GROUPS}/next"
        until(lambda: server.client().get(group).get("status", {}).get("phase"), "the group to be seen")
        before = {name: status_of(server.client(), name) for name in ("stays", "ends")}
        known = uids(server.client())
        getattr(server, way)()
    with at_work(tmp_path / "data", *options) as server:
        client = server.client()
        assert uids(client) == known
        assert status_of(client, "stays") == before["stays"]
        until(lambda: phases(client, "next-") == {"Running": 2}, "the gang to start in the room of what ended")
        ended = status_of(client, "ends")
        assert (ended["phase"], ended["podIP"]) == ("Failed", before["ends"]["podIP"])
        assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert status_of(client, "stays")["containerStatuses"][0]["restartCount"] == 0
        assert uids(client) == known
        server.stop()


def test_ctrl_c_ends_it_cleanly_also_while_much_happens(tmp_path: Path) -> None:
    with at_work(tmp_path / "data", *NODES) as server:
        submit(server, range(100))
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0, server.log.read_text()
        assert "Traceback" not in server.log.read_text(), server.log.read_text()


def submit(server: Server, numbers: range) -> dict[str, str]:
    """Create single pods, four at a time; the uids of those that were acknowledged."""

    def create(number: int) -> tuple[str, str]:
        name = f"p-{number:03}"
        answer = server.client().send("POST", PODS, pod(name))
        assert answer.code == 201, answer.content
        return name, answer.json()["metadata"]["uid"]

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(create, numbers))


def watch_placements(pods: list[dict[str, Any]], nodes: dict[str, str]) -> None:
    """Note where pods are; one that was somewhere must still be there."""
    for each in pods:
        uid, node = each["metadata"]["uid"], each["spec"].get("nodeName", "")
        if uid in nodes:
            assert node == nodes[uid], f"{each['metadata']['name']} was on {nodes[uid]} and is on {node}"
        if node:
            nodes[uid] = node


@pytest.mark.parametrize("started", [1, 30, 70])
def test_kill_minus_nine_while_pods_start_runs_each_once_and_overfills_no_node(tmp_path: Path, started: int) -> None:
    """102 cpus for 80 single pods and a gang of 20, of one cpu each; killed when some run."""
    nodes: dict[str, str] = {}
    with at_work(tmp_path / "data", *NODES) as server:
        client = server.client()
        apply(server, *gang("team", 20))
        known = submit(server, range(80)) | uids(client, "team-")
        until(lambda: phases(client)["Running"] >= started, "some to run")
        watch_placements(client.get(PODS)["items"], nodes)
        server.kill()
    with at_work(tmp_path / "data", *NODES) as server:
        client = server.client()
        watch_placements(client.get(PODS)["items"], nodes)
        until(lambda: phases(client) == {"Running": 100}, "all to run")
        time.sleep(0.5)  # what is done twice would be done by now
        pods = client.get(PODS)["items"]
        watch_placements(pods, nodes)
        assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods} == known
        assert {each["status"]["containerStatuses"][0]["restartCount"] for each in pods} == {0}
        held = Counter(each["spec"]["nodeName"] for each in pods)
        assert held.keys() <= {"node-0", "node-1", "node-2"}
        assert max(held.values()) <= 34
        assert len({each["status"]["podIP"] for each in pods}) == 100
        server.stop()


def test_a_job_that_was_cut_off_makes_no_pod_too_many(tmp_path: Path) -> None:
    template = {
        "metadata": {"annotations": {"kilauea.dev/run-time": "2s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "demo"}]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "many"},
        "spec": {"parallelism": 20, "completions": 60, "template": template},
    }
    path = "/apis/batch/v1/namespaces/default/jobs/many"
    with at_work(tmp_path / "data", *NODES) as server:
        apply(server, job)
        until(lambda: phases(server.client())["Running"] >= 5, "some to run")
        server.kill()
    with at_work(tmp_path / "data", *NODES) as server:
        client = server.client()
        until(lambda: client.get(path)["status"].get("completionTime"), "the job to be complete")
        assert client.get(path)["status"]["succeeded"] == 60
        assert phases(client, "many-") == {"Succeeded": 60}
        server.stop()
