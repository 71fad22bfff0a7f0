"""Simulated nodes at the real API server, client and cache, with a time that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.api.kinds import LEASES, NODES, PODS
from kilauea.apiserver.schema import kubernetes_version
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.logs import PodLogs
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.registration import Registration
from support.controlled import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    machine = Machine(gpu=2)
    made = Cluster(Registration(3, machine), Heartbeats(machine), Pods())
    made.settle()
    yield made
    made.close()


def pod(command: str, name: str = "p", node: str = "node-1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container], **spec}}


def test_nodes_with_leases_are_there_at_once(cluster: Cluster) -> None:
    assert cluster.names(NODES) == cluster.names(LEASES) == ["node-0", "node-1", "node-2"]
    assert cluster.get(NODES, "node-0")["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_nodes_are_of_the_version_of_kubernetes_that_the_server_has(cluster: Cluster) -> None:
    found = cluster.get(NODES, "node-0")["status"]["nodeInfo"]["kubeletVersion"]
    assert found.partition("-")[0] == kubernetes_version()


@pytest.mark.slow
def test_heartbeats_are_taken_for_an_hour(cluster: Cluster) -> None:
    before = cluster.get(NODES, "node-0")["status"]["conditions"]
    cluster.wait(3600)
    after = cluster.get(NODES, "node-0")["status"]["conditions"]
    assert [each["lastTransitionTime"] for each in after] == [each["lastTransitionTime"] for each in before]
    assert after[-1]["lastHeartbeatTime"] > before[-1]["lastHeartbeatTime"]


def test_a_pod_goes_from_pending_to_its_end(cluster: Cluster) -> None:
    cluster.create(PODS, pod("echo hello; sleep 5; exit 3", restartPolicy="Never"))
    cluster.settle()
    assert cluster.get(PODS, "p")["status"]["phase"] == "Running"
    cluster.wait(5)
    status = cluster.get(PODS, "p")["status"]
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert status["qosClass"] == "BestEffort"


def test_the_server_gives_the_lines_of_a_container(cluster: Cluster) -> None:
    cluster.create(PODS, pod("echo hello; sleep 5"))
    cluster.settle()
    cluster.api.server.backend.logs = PodLogs(cluster.cache)
    answer = cluster.api.ask("GET", "/api/v1/namespaces/default/pods/p/log?tailLines=1")
    assert (answer.code, answer.body) == (200, "hello\n")


def test_a_deleted_pod_takes_its_time_and_is_gone(cluster: Cluster) -> None:
    slow = pod("sleep 100")
    slow["metadata"]["annotations"] = {"kilauea.dev/stop-time": "10s"}
    cluster.create(PODS, slow)
    cluster.settle()
    cluster.delete(PODS, "p")
    cluster.wait(8)
    assert cluster.names(PODS) == ["p"]
    cluster.wait(2)
    assert cluster.names(PODS) == []


def test_a_node_that_a_user_applies_runs_pods(cluster: Cluster) -> None:
    cluster.create(NODES, {"metadata": {"name": "mine"}, "status": {"capacity": {"cpu": "2"}}})
    cluster.create(PODS, pod("sleep 100", node="mine"))
    cluster.wait(2)
    assert cluster.get(PODS, "p")["status"]["phase"] == "Running"
    assert cluster.get(NODES, "mine")["status"]["allocatable"] == {"cpu": "2", "pods": "110"}


def test_a_node_that_is_deleted_stays_away(cluster: Cluster) -> None:
    cluster.delete(NODES, "node-1")
    cluster.wait(60)
    assert cluster.names(NODES) == ["node-0", "node-2"]


def test_the_server_takes_a_resize_and_what_the_node_says_about_it(cluster: Cluster) -> None:
    made = pod("sleep 100")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    cluster.create(PODS, made)
    cluster.settle()

    def resized(cpu: str) -> Any:
        wanted = {"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
        path, patch = "/api/v1/namespaces/default/pods/p/resize", {"spec": {"containers": [wanted]}}
        cluster.api.good("PATCH", path, patch, content_type="application/strategic-merge-patch+json")
        cluster.settle()
        status = cluster.get(PODS, "p")["status"]
        waits = [each["reason"] for each in status["conditions"] if each["type"] == "PodResizePending"]
        return status["containerStatuses"][0]["allocatedResources"]["cpu"], waits, status["observedGeneration"]

    assert resized("1500m") == ("1500m", [], 2)
    assert resized("1000") == ("1500m", ["Infeasible"], 3)
    assert resized("1") == ("1", [], 4)


def test_the_server_takes_the_restart_of_a_container_by_its_own_rule(cluster: Cluster) -> None:
    made = pod("sleep 5; exit 3", restartPolicy="Never")
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}
    made["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    cluster.create(PODS, made)
    cluster.wait(7)
    status = cluster.get(PODS, "p")["status"]
    assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Running", 1)
