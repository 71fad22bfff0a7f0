"""Kubernetes' own PodGroups on `kilauea up`, with kubectl: gangs start whole, wait with a reason, and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.api_process import Server
from cluster.up_process import EXAMPLES, Obj, apply, gang, kubectl, running_up, until
from kilauea.cli.main import main

OWN = "podgroups.scheduling.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes of four cpus."""
    with running_up(tmp_path_factory.mktemp("workloads") / "data", "--nodes", "2", "--node-cpu", "4") as server:
        yield server


def pods(server: Server, job: str) -> list[Obj]:
    found = json.loads(kubectl(server, "get", "pods", "-l", f"job-name={job}", "-o", "json"))
    items: list[Obj] = found["items"]
    return items


def running(server: Server, job: str) -> int:
    return sum(each["status"]["phase"] == "Running" for each in pods(server, job))


def condition(server: Server, group: str) -> dict[str, Any]:
    found = json.loads(kubectl(server, "get", OWN, group, "-o", "json"))
    return next(iter(found.get("status", {}).get("conditions") or ()), {})


def row(server: Server, group: str) -> list[str]:
    """What `kubectl get` shows of a group: policy, workload and state."""
    return kubectl(server, "get", OWN, group, "--no-headers").split()[1:4]


def test_a_gang_starts_whole_one_that_is_too_large_says_why_and_both_go(server: Server) -> None:
    kubectl(server, "apply", "-f", str(EXAMPLES / "workloads/train.yaml"))
    kubectl(server, "label", OWN, "train-workers", "scheduling.volcano.sh/queue-name=default", "--overwrite")
    until(lambda: running(server, "train") == 3, "the gang to run")
    until(lambda: row(server, "train-workers") == ["Gang", "train", "Scheduled"], "its condition")
    kubectl(server, "apply", "-f", str(EXAMPLES / "workloads/wider.yaml"))
    kubectl(server, "label", OWN, "wider", "scheduling.volcano.sh/queue-name=default", "--overwrite")
    until(lambda: condition(server, "wider").get("reason") == "Unschedulable", "the reason why the other waits")
    assert running(server, "wider") == 0
    said = CliRunner().invoke(main, ["explain", "job", "wider", "--kubeconfig", str(server.kubeconfig)])
    assert "Pod group default/k8s:wider waits." in said.output
    kubectl(server, "delete", "job", "train")
    until(lambda: running(server, "wider") == 4, "the other gang to run in its place")
    kubectl(server, "delete", OWN, "wider", "--wait=false")
    assert "wider" in kubectl(server, "get", OWN, "-o", "name"), "its pods hold it"
    kubectl(server, "delete", "job", "wider")
    until(lambda: "wider" not in kubectl(server, "get", OWN, "-o", "name"), "the group to go with its pods")


def test_the_short_name_of_pod_groups_is_volcanos(server: Server) -> None:
    apply(server, *gang("plain", 1))
    until(lambda: "plain" in kubectl(server, "get", "podgroups", "-o", "name"), "the group of Volcano")
    assert "podgroup.scheduling.volcano.sh/plain" in kubectl(server, "get", "podgroup", "plain", "-o", "name")
