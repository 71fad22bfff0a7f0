"""`kilauea plan`, `explain` and `queues` at a live cluster, and what they leave as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.api_process import Server
from cluster.up_process import apply, gang, kubectl, phases, queue, running_up, said, until

CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes of 4 cpus; a queue of 2, which is full."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "scheduler.yaml").write_text(CONF)
    options = ("--nodes", "2", "--node-cpu", "4", "--scheduler-conf", str(folder / "scheduler.yaml"))
    with running_up(folder / "data", *options) as running:
        apply(running, queue("small", capability={"cpu": "2"}), *gang("first", 2, queue="small"))
        until(lambda: phases(running.client(), "first")["Running"] == 2, "the first gang to run")
        yield running


def kilauea(server: Server, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kilauea", *words, "--kubeconfig", str(server.kubeconfig)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def test_what_is_not_submitted_yet_is_planned_for_and_changes_nothing(server: Server) -> None:
    manifest = yaml.safe_dump_all([*gang("fits", 3), *gang("waits", 1, queue="small")])
    before = kubectl(server, "get", "pods,podgroups,queues", "-A", "-o", "name")
    done = kilauea(server, "plan", "-f", "-", "-o", "json", given=manifest)
    assert done.returncode == 0, done.stderr
    fits, waits = json.loads(done.stdout)["submitted"]
    assert (fits["podGroup"], fits["starting"], fits["waiting"]) == ("default/fits", 3, 0)
    assert (waits["podGroup"], waits["starting"], waits["waiting"]) == ("default/waits", 0, 1)
    assert "small" in waits["reason"]
    assert kubectl(server, "get", "pods,podgroups,queues", "-A", "-o", "name") == before


@pytest.mark.parametrize("command", ["plan", "queues"])
def test_files_without_nodes_are_added_to_the_cluster_of_kubeconfig(
    server: Server, tmp_path: Path, command: str
) -> None:
    (tmp_path / "gang.yaml").write_text(yaml.safe_dump_all(gang("fits", 3)))
    words = [sys.executable, "-m", "kilauea", command, "-f", str(tmp_path / "gang.yaml"), "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert f"adding them to the cluster of KUBECONFIG ({server.kubeconfig})" in done.stderr
    answer = json.loads(done.stdout)
    if command == "plan":
        (fits,) = answer["submitted"]
        assert (fits["podGroup"], fits["starting"]) == ("default/fits", 3)
    else:
        assert '"small"' in done.stdout


def test_files_with_nodes_are_a_cluster_of_their_own_whatever_kubeconfig_says(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
    for name, text in (("c.yaml", yaml.safe_dump(node)), ("c.json", json.dumps({"kind": "List", "items": [node]}))):
        (tmp_path / name).write_text(text)
        words = [sys.executable, "-m", "kilauea", "plan", "-f", str(tmp_path / name)]
        environment = {**os.environ, "KUBECONFIG": "/does/not/exist"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("1 node, ")


def test_the_table_begins_with_what_is_submitted(server: Server) -> None:
    done = kilauea(server, "plan", "-f", "-", given=yaml.safe_dump_all(gang("fits", 3)))
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[2].split()
        == "SUBMITTED QUEUE PODS STARTING WAITING ON NODES EVICTS WAITS BECAUSE".split()
    )
    assert done.stdout.splitlines()[3].split()[:4] == ["default/fits", "default", "3", "0"]


def test_a_group_that_waits_is_explained_with_the_cluster_s_own_words(server: Server) -> None:
    apply(server, *gang("second", 2, queue="small"))
    done = kilauea(server, "explain", "pg", "second", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verdict"], told["change"]["what"], told["change"]["object"]) == ("waits", "quota", "small")
    assert [holder["podGroup"] for holder in told["holders"]] == ["default/first"]


def test_a_name_that_is_not_there_comes_with_the_nearest(server: Server) -> None:
    done = kilauea(server, "explain", "pod", "first-3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pod default/first-3 does not exist; did you mean 'default/first-" in done.stderr


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kilauea", "plan", "--kubeconfig", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert f"{tmp_path / 'none'}: no such file" in done.stderr


def test_without_a_file_the_scheduler_follows_the_config_map(tmp_path: Path) -> None:
    with running_up(tmp_path / "data", "--nodes", "1") as running:
        client = running.client()
        patch = json.dumps({"data": {"volcano-scheduler.conf": CONF}})
        edit = ("patch", "configmap", "-n", "volcano-system", "volcano-scheduler-configmap", "--type=merge", "-p")
        kubectl(running, *edit, patch)
        until(lambda: "ConfigurationLoaded" in said(client, "Queue", "root"), "the new configuration to be used")
        kubectl(running, *edit, json.dumps({"data": {"volcano-scheduler.conf": "actions: alocate"}}))
        until(lambda: "ConfigurationRefused" in said(client, "Queue", "root"), "the bad one to be refused")
        assert "ConfigMap volcano-system/volcano-scheduler-configmap:1: actions: unknown action" in said(
            client, "Queue", "root"
        )
        done = kilauea(running, "plan")
        assert (done.returncode, done.stdout) == (2, "")
        assert "unknown action 'alocate'" in done.stderr
        assert "Fix it with `kubectl edit`, or give another one with --scheduler-conf." in done.stderr
        apply(running, *gang("after", 2))
        until(lambda: phases(client, "after")["Running"] == 2, "work to go on by the last good one")
