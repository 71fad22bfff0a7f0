"""`kilauea up --runtime process`: pods are processes of this machine, whatever becomes of the cluster."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cluster.processes.process_cluster import (
    ProcessCluster,
    main_of,
    pod,
    process_cluster,
    processes,
    status_of,
    until_phase,
)
from cluster.up_process import PODS, apply, ask, kubectl, said, until

VC_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path) as made:
        yield made


def test_a_pod_is_a_process_with_its_output_and_its_exit_code(cluster: ProcessCluster) -> None:
    server = cluster.start()
    client = server.client()
    kubectl(server, "run", "hello", "--image=x", "--restart=Never", "--", "sh", "-c", "echo hi; exit 3")
    until_phase(client, "hello", "Failed")
    ended = main_of(client, "hello")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert kubectl(server, "logs", "hello") == "hi\n"
    until(lambda: "Started: Container started" in said(client, "Pod", "hello"), "the events of the start")
    (node,) = client.get("/api/v1/nodes")["items"]
    assert node["metadata"]["name"] == socket.gethostname().lower()
    assert node["metadata"]["annotations"]["kilauea.dev/runtime"] == "process"
    apply(server, pod("nothing", "true", main={"command": ["no-such-command"]}))
    until_phase(client, "nothing", "Failed")
    assert main_of(client, "nothing")["state"]["terminated"]["reason"] == "StartError"
    server.stop()


def test_a_gang_of_processes_completes(cluster: ProcessCluster) -> None:
    server = cluster.start("--nodes", "2")
    template = {
        "spec": pod("w", "echo $VC_TASK_INDEX; sleep 1", main={"resources": {"requests": {"cpu": "100m"}}})["spec"]
    }
    spec = {
        "minAvailable": 2,
        "plugins": {"env": []},
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "tasks": [{"name": "w", "replicas": 2, "template": template}],
    }
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"}, "spec": spec}
    apply(server, job)
    client = server.client()

    def completed() -> bool:
        status = client.get(f"{VC_JOBS}/gang").get("status") or {}
        return bool((status.get("state") or {}).get("phase") == "Completed")

    until(completed, "the job to complete")
    assert sorted(kubectl(server, "logs", f"gang-w-{number}") for number in (0, 1)) == ["0\n", "1\n"]
    server.stop()


def test_simulated_nodes_stand_beside_the_machine(cluster: ProcessCluster) -> None:
    server = cluster.start("--simulated-nodes", "2")
    client = server.client()
    simulated = pod("s", "exit 1", nodeName="node-0", main={"command": ["sleep", "1"]})
    apply(server, simulated, pod("real", "exit 4", nodeName=socket.gethostname().lower()))
    until_phase(client, "s", "Succeeded")
    until_phase(client, "real", "Failed")
    assert main_of(client, "s")["containerID"].startswith("simulated://")
    assert main_of(client, "real")["containerID"].startswith("processes://")
    server.stop()
    again = cluster.start()
    words = "2 simulated nodes of earlier runs remain, and pods on them are not executed"
    until(lambda: words in again.log.read_text(), "the warning about them")
    assert "kubectl delete node node-0 node-1" in again.log.read_text()
    again.stop()


def seconds_of(test: int) -> str:
    """An argument of `sleep` that no other process of this machine has."""
    return f"10000{test}.{os.getpid()}"


def test_processes_outlive_a_killed_cluster_and_are_found_again(cluster: ProcessCluster, tmp_path: Path) -> None:
    own = seconds_of(1)
    server = cluster.start()
    client = server.client()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    apply(
        server,
        pod("stays", f"echo start >> {tmp_path}/starts; exec sleep {own}", sees=tmp_path),
        pod("ends", f"read line < {gate}; exit 7", sees=tmp_path),
        pod("deleted", "exec sleep 1000"),
    )
    for name in ("stays", "ends", "deleted"):
        until_phase(client, name, "Running")
    until(lambda: processes(own), "the process")
    before = main_of(client, "stays")
    server.kill()
    gate.write_text("go\n")
    server = cluster.start()
    client = server.client()
    until_phase(client, "ends", "Failed")
    assert main_of(client, "ends")["state"]["terminated"]["exitCode"] == 7
    after = main_of(client, "stays")
    assert (after["restartCount"], after["containerID"]) == (0, before["containerID"])
    assert (tmp_path / "starts").read_text() == "start\n"
    assert len(processes(own)) == 1
    kubectl(server, "delete", "pod", "stays", "deleted")
    until(lambda: not processes(own), "the process to end with its pod")
    server.stop()


def test_a_folder_in_memory_outlives_a_killed_cluster_and_goes_with_its_pod(cluster: ProcessCluster) -> None:
    server = cluster.start()
    volumes = [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    main = {"volumeMounts": [{"name": "m", "mountPath": "/m"}], "command": ["sh", "-c", "exec sleep 1000"]}
    apply(server, pod("keeps", "", main=main, volumes=volumes))
    until_phase(server.client(), "keeps", "Running")
    kubectl(server, "exec", "keeps", "--", "sh", "-c", "echo text > /m/file")
    uid = server.client().get(f"{PODS}/keeps")["metadata"]["uid"]
    server.kill()
    again = cluster.start()
    assert kubectl(again, "exec", "keeps", "--", "cat", "/m/file") == "text\n"
    assert main_of(again.client(), "keeps")["restartCount"] == 0
    folder = Path("/dev/shm", f"kilauea-{uid}")
    assert folder.exists()
    kubectl(again, "delete", "pod", "keeps", "--grace-period", "1")
    until(lambda: not folder.exists(), "the folder in memory to be removed")
    assert uid not in Path("/proc/self/mountinfo").read_text()
    again.stop()


def test_a_folder_of_an_earlier_version_starts_and_its_processes_are_found_again(cluster: ProcessCluster) -> None:
    server = cluster.start()
    client = server.client()
    apply(server, pod("stays", "exec sleep 1000"))
    until_phase(client, "stays", "Running")
    before = status_of(client, "stays")
    server.stop()
    # The first versions had this format of the store, and did not write down the addresses of a cluster.
    with closing(sqlite3.connect(cluster.folder / "store" / "store.db")) as store:
        assert store.execute("pragma user_version").fetchone()[0] > 1
        store.execute("pragma user_version = 1")
        store.commit()
    (cluster.folder / "kubelet" / "network").unlink()
    server = cluster.start()
    client = server.client()
    after = status_of(client, "stays")
    assert (after["phase"], after["podIP"]) == ("Running", before["podIP"])
    assert main_of(client, "stays")["containerID"] == before["containerStatuses"][0]["containerID"]
    until(lambda: ask(server, "exec", "stays", "--", "true").returncode == 0, "its container to be found")
    server.stop()


def test_a_process_that_ignores_its_end_is_killed_with_its_children(cluster: ProcessCluster) -> None:
    own = seconds_of(2)
    server = cluster.start()
    client = server.client()
    apply(server, pod("stubborn", f"trap '' TERM; setsid sleep {own} & while true; do sleep 1; done"))
    until_phase(client, "stubborn", "Running")
    until(lambda: processes(own), "the child to be started")
    kubectl(server, "delete", "pod", "stubborn", "--grace-period=2", "--timeout=60s")
    until(lambda: not processes(own), "the child to end")
    server.stop()


def test_a_command_restarts_with_its_policy(cluster: ProcessCluster) -> None:
    server = cluster.start()
    client = server.client()
    apply(server, pod("again", "exit 1", restart="Always"))
    until(lambda: main_of(client, "again").get("restartCount", 0) >= 1, "a restart")

    def waits() -> bool:
        waiting = main_of(client, "again")["state"].get("waiting") or {}
        return waiting.get("reason") == "CrashLoopBackOff"

    until(waits, "the back-off")
    assert status_of(client, "again")["phase"] == "Running"
    server.stop()


def test_a_node_refuses_what_does_not_fit(cluster: ProcessCluster) -> None:
    server = cluster.start()
    client = server.client()
    big = {"resources": {"requests": {"cpu": "4096"}}}
    apply(server, pod("big", "true", nodeName=socket.gethostname().lower(), main=big))
    until_phase(client, "big", "Failed")
    assert status_of(client, "big")["reason"] == "OutOfcpu"
    server.stop()


def test_a_missing_object_is_named_until_it_is_there(cluster: ProcessCluster) -> None:
    server = cluster.start()
    client = server.client()
    source = {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}
    apply(server, pod("asks", 'echo "$MODE"', main={"env": [{"name": "MODE", **source}]}))

    def reason() -> str:
        waiting = (main_of(client, "asks").get("state") or {}).get("waiting") or {}
        return str(waiting.get("message"))

    until(lambda: reason() == 'configmap "settings" not found', "the reason")
    kubectl(server, "create", "configmap", "settings", "--from-literal=mode=fast")
    until_phase(client, "asks", "Succeeded")
    assert kubectl(server, "logs", "asks") == "fast\n"
    server.stop()


def test_exec_runs_a_command_beside_the_container(cluster: ProcessCluster) -> None:
    server = cluster.start()
    apply(server, pod("a", "exec sleep 1000", main={"env": [{"name": "WHO", "value": "me"}]}))
    until_phase(server.client(), "a", "Running")
    done = ask(server, "exec", "a", "--", "sh", "-c", "echo $WHO; exit 5")
    assert (done.stdout, done.returncode) == ("me\n", 5)
    server.stop()


def test_processes_do_not_see_the_folder_with_the_credentials_of_the_cluster(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    server = cluster.start()
    assert list(cluster.folder.iterdir())
    for name, seen in (("alone", None), ("beside", tmp_path)):
        apply(
            server, pod(name, f"ls -A {cluster.folder}; touch {cluster.folder}/x 2>/dev/null || echo kept", sees=seen)
        )
        until_phase(server.client(), name, "Succeeded")
        assert kubectl(server, "logs", name) == "kept\n"
    volumes = [{"name": "machine", "hostPath": {"path": "/"}}]
    main = {"volumeMounts": [{"name": "machine", "mountPath": "/machine"}]}
    apply(server, pod("through-a-volume", f"ls -A /machine{cluster.folder}; echo listed", main=main, volumes=volumes))
    until_phase(server.client(), "through-a-volume", "Succeeded")
    assert kubectl(server, "logs", "through-a-volume") == "listed\n"
    assert stat.S_IMODE((cluster.folder / "kubelet").stat().st_mode) == 0o700
    server.stop()


def test_the_process_runtime_does_not_listen_to_other_machines_unasked(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "kilauea", "up", "--runtime", "process", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run([*words, "--listen", "0.0.0.0:0"], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "--allow-remote-processes" in done.stderr
    assert not (tmp_path / "data").exists()
