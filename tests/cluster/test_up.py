"""`kilauea up` as a user has it: kubectl and the official client submit work, and it is done."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server
from cluster.test_scheduler_command import scheduling
from cluster.up_process import (
    EXAMPLES,
    GROUPS,
    PODS,
    apply,
    ask,
    gang,
    kubectl,
    phases,
    pod,
    queue,
    running_up,
    said,
    uids,
    until,
)
from kubernetes import client as k8s
from kubernetes import config

NGINX = "nginx-{}-7c5ddbdf54-x2wql"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three nodes of 4 cpus and a GPU."""
    folder = tmp_path_factory.mktemp("up") / "data"
    with running_up(folder, "--nodes", "3", "--node-cpu", "4", "--node-memory", "8Gi", "--node-gpu", "1") as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[k8s.ApiClient]:
    """The official client."""
    with config.new_client_from_config(str(server.kubeconfig)) as client:
        yield client


def test_when_it_says_ready_its_nodes_and_queues_are_there(server: Server) -> None:
    assert kubectl(server, "get", "--raw", "/readyz") == "ok"
    nodes = kubectl(server, "get", "nodes", "--no-headers", "-o", "custom-columns=:.metadata.name,:.status.allocatable")
    assert [line.split()[0] for line in nodes.splitlines()] == ["node-0", "node-1", "node-2"]
    assert nodes.count("cpu:4 ") == nodes.count("memory:8Gi ") == nodes.count("nvidia.com/gpu:1 ") == 3
    assert kubectl(server, "get", "queues", "-o", "name").split() == [
        "queue.scheduling.volcano.sh/default",
        "queue.scheduling.volcano.sh/root",
    ]
    words = server.log.read_text()
    assert f"export KUBECONFIG={server.kubeconfig}" in words
    assert f"The cluster is ready at {server.url}." in words


def test_metrics_are_those_of_the_server_and_of_the_scheduler(server: Server) -> None:
    found = kubectl(server, "get", "--raw", "/metrics")
    for name in (
        "apiserver_request_total",
        "apiserver_resource_objects",
        "volcano_queue_weight",
        "volcano_open_session",
    ):
        assert f"\n{name}" in found, name


def runs(client: Client, path: str) -> bool:
    return bool(client.get(path)["status"]["phase"] == "Running")


def test_a_deployment_comes_up_and_follows_its_size(server: Server) -> None:
    kubectl(server, "create", "deployment", "web", "--image=demo", "--replicas=3")
    kubectl(server, "rollout", "status", "deployment/web", "--timeout=50s")
    assert phases(server.client(), "web-") == {"Running": 3}
    kubectl(server, "scale", "deployment/web", "--replicas=1")
    until(lambda: phases(server.client(), "web-") == {"Running": 1}, "two pods to go")
    kubectl(server, "delete", "deployment/web")
    until(lambda: not phases(server.client(), "web-"), "everything of the deployment to go with it")


def test_a_job_completes_and_its_logs_are_there(server: Server) -> None:
    kubectl(server, "create", "job", "hello", "--image=demo", "--", "sh", "-c", "echo good morning; sleep 1")
    kubectl(server, "wait", "--for=condition=Complete", "job/hello", "--timeout=50s")
    lines = kubectl(server, "logs", "job/hello").splitlines()
    assert "good morning" in "\n".join(lines)
    assert "ended with exit code 0" in lines[-1]


def test_a_log_is_followed_line_by_line_until_the_end(server: Server) -> None:
    script = "for i in 1 2 3; do echo step $i; sleep 1; done"
    kubectl(server, "run", "steps", "--image=demo", "--restart=Never", "--", "sh", "-c", script)
    until(lambda: phases(server.client(), "steps") == {"Running": 1}, "the pod to run")
    lines = kubectl(server, "logs", "-f", "--timestamps", "steps").splitlines()
    assert [line.partition(" ")[2] for line in lines[1:]] == [
        "step 1",
        "step 2",
        "step 3",
        "ended with exit code 0 (Completed)",
    ]
    moments = [line.partition(" ")[0] for line in lines]
    assert moments == sorted(moments)
    assert len(set(moments[1:])) == 4
    last = kubectl(server, "logs", "--tail=2", f"--since-time={moments[-1]}", "steps")
    assert last == "ended with exit code 0 (Completed)\n"


def test_kubectl_says_what_a_simulated_pod_is_not(server: Server) -> None:
    kubectl(server, "run", "quiet", "--image=demo", "--", "sleep", "600")
    until(lambda: phases(server.client(), "quiet") == {"Running": 1}, "the pod to run")
    for words in (("exec", "quiet", "--", "ls"), ("attach", "quiet"), ("port-forward", "quiet", "18080:80")):
        ended = ask(server, *words)
        assert ended.returncode == 1
        assert "pod default/quiet is simulated" in ended.stderr
    kubectl(server, "delete", "pod", "quiet", "--now")


def test_a_gang_starts_together_by_the_official_client(server: Server, api: k8s.ApiClient) -> None:
    group, *members = gang("trio", 3, command="sleep 1")
    place = ("scheduling.volcano.sh", "v1beta1", "default", "podgroups")
    custom: Any = k8s.CustomObjectsApi(api)
    core: Any = k8s.CoreV1Api(api)
    custom.create_namespaced_custom_object(*place, group)
    for member in members[:2]:
        core.create_namespaced_pod("default", member)
    until(lambda: said(server.client(), "Pod", "trio-0"), "a word on why the first waits")
    assert phases(server.client(), "trio-") == {"Pending": 2}
    core.create_namespaced_pod("default", members[2])
    until(lambda: phases(server.client(), "trio-") == {"Succeeded": 3}, "the gang to run and end")
    nodes = [core.read_namespaced_pod(f"trio-{number}", "default").spec.node_name for number in range(3)]
    assert set(nodes) <= {"node-0", "node-1", "node-2"}

    def phase() -> Any:
        return custom.get_namespaced_custom_object(*place, "trio")["status"]["phase"]

    until(lambda: phase() == "Completed", "the group to be completed")


def test_a_gang_without_room_waits_whole_and_says_why(server: Server) -> None:
    client = server.client()
    apply(server, *gang("wide", 4, cpu="3"))
    until(lambda: client.get(f"{GROUPS}/wide").get("status", {}).get("conditions"), "a condition of the group")
    until(lambda: "FailedScheduling" in said(client, "Pod", "wide-0"), "a word on the pod")
    assert phases(client, "wide-") == {"Pending": 4}
    assert not any(each["spec"].get("nodeName") for each in client.get(PODS)["items"] if "wide" in str(each))
    kubectl(server, "delete", "podgroup/wide", *(f"pod/wide-{number}" for number in range(4)))


def test_a_node_applied_by_a_user_is_simulated(tmp_path: Path) -> None:
    with running_up(tmp_path / "data", "--nodes", "0") as server:
        client = server.client()
        assert client.get("/api/v1/nodes")["items"] == []
        apply(server, pod("early"))
        until(lambda: "FailedScheduling" in said(client, "Pod", "early"), "a word on why it waits")
        apply(
            server,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "mine", "labels": {"disk": "fast"}},
                "status": {"allocatable": {"cpu": "2"}},
            },
        )
        until(lambda: phases(client) == {"Running": 1}, "the pod to run")
        node = client.get("/api/v1/nodes/mine")
        assert node["metadata"]["labels"]["disk"] == "fast"
        assert ("Ready", "True") in [(each["type"], each["status"]) for each in node["status"]["conditions"]]


def test_a_queue_takes_back_what_it_deserves_from_the_one_that_borrowed(tmp_path: Path) -> None:
    options = ("--nodes", "2", "--node-cpu", "4", "--scheduler-conf", str(EXAMPLES / "sharing" / "scheduler.conf"))
    with running_up(tmp_path / "data", *options) as server:
        client = server.client()
        half = {"cpu": "4", "memory": "64Gi"}
        apply(server, queue("research", deserved=half), queue("production", deserved=half))
        apply(server, *gang("sweep", 8, queue="research", least=1))
        until(lambda: phases(client, "sweep-") == {"Running": 8}, "the borrower to have everything")
        apply(server, *gang("serving", 2, queue="production", cpu="2"))
        until(lambda: phases(client, "serving-") == {"Running": 2}, "production to have its half")
        left = uids(client, "sweep-")
        assert phases(client, "sweep-") == {"Running": 4}
        assert len(left) == 4
        gone = {f"sweep-{number}" for number in range(8)} - left.keys()
        assert all("Evict" in said(client, "Pod", name) for name in gone)

        def held() -> dict[str, str]:
            queues = client.get("/apis/scheduling.volcano.sh/v1beta1/queues")["items"]
            return {each["metadata"]["name"]: each["status"].get("allocated", {}).get("cpu", "") for each in queues}

        until(lambda: (held()["research"], held()["production"]) == ("4", "4"), "the queues to say what they hold")


def test_the_action_of_a_user_places_each_pod_on_the_emptiest_node(tmp_path: Path) -> None:
    """The two checks of the tutorial, live: one pod after the other, each with its group."""
    folder = EXAMPLES / "plugins"
    own = ("--scheduler-conf", str(folder / "scheduler.conf"), "--plugins-dir", str(folder), "--leader-elect=false")
    options = ("--nodes", "0", "--no-scheduler", "-f", str(folder / "nodes.yaml"))
    with running_up(tmp_path / "data", *options) as server, scheduling(server, tmp_path / "log", *own) as scheduler:
        client = server.client()
        for number, node in ((1, "node-2"), (2, "node-3")):
            kubectl(server, "apply", "-f", str(folder / f"nginx-{number}.yaml"))
            path = f"{PODS}/{NGINX.format(number)}"
            until(partial(runs, client, path), "the pod to run")
            assert client.get(path)["spec"]["nodeName"] == node
        scheduler.stop()
