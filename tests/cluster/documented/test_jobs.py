"""Volcano's jobs at a whole cluster, as seed 002 tells: tasks, gangs, policies, plugins, queues, and one switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Server
from cluster.up_process import GROUPS, PODS, apply, ask, kubectl, phases, queue, running_up, said, uids, until

Obj = dict[str, Any]
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
CONF = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enableReclaimable: false}
  - {name: conformance}
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}, {name: network-topology-aware}]
"""
HALF = {"cpu": "8", "memory": "64Gi"}
RESTART_WHEN_EVICTED = [{"event": "PodEvicted", "action": "RestartJob"}]


def task(name: str, replicas: int, cpu: str = "1", command: str = "sleep 3600", **more: Any) -> Obj:
    """A task of a job."""
    container: Obj = {"name": "main", "image": f"demo:{name}", "command": ["sh", "-c", command]}
    container["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **more}


def job(name: str, *tasks: Obj, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A job that needs all of its pods, unless it says another number."""
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return {**head, "metadata": {"name": name, "annotations": annotations or {}}, "spec": {"tasks": [*tasks], **spec}}


def switch(name: str, *nodes: str) -> Obj:
    """Nodes that are near to each other."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    return {**head, "spec": {"tier": 1, "members": members}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Four nodes of four cores under two switches, and two queues that deserve a half each."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "scheduler.conf").write_text(CONF)
    (folder / "cluster.yaml").write_text(
        yaml.safe_dump_all(
            [
                switch("left", "node-0", "node-2"),
                switch("right", "node-1", "node-3"),
                queue("research", deserved=HALF),
                queue("production", deserved=HALF),
            ]
        )
    )
    size = ("--nodes", "4", "--node-cpu", "4", "--node-memory", "32Gi")
    files = ("--scheduler-conf", str(folder / "scheduler.conf"), "-f", str(folder / "cluster.yaml"))
    with running_up(folder / "data", *size, *files) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """The administrator; all work is gone afterwards."""
    client = server.client()
    yield client
    kubectl(server, "delete", "vcjob,job", "--all")
    until(lambda: not client.get(PODS)["items"] and not client.get(GROUPS)["items"], "all work to be gone")


def phase(client: Client, name: str) -> str:
    """How a job stands."""
    return str(client.get(f"{JOBS}/{name}").get("status", {}).get("state", {}).get("phase"))


def group_of(client: Client, name: str) -> Obj:
    """The pod group of a job; empty as long as there is none."""
    found = [each for each in client.get(GROUPS)["items"] if each["metadata"]["ownerReferences"][0]["name"] == name]
    return found[0] if found else {}


def test_a_job_of_two_tasks_is_one_gang_with_names_keys_and_variables(server: Server, client: Client) -> None:
    plugins: Obj = {"svc": [], "ssh": [], "env": []}
    apply(server, job("train", task("ps", 1), task("worker", 2, "2"), queue="research", plugins=plugins))
    until(lambda: phases(client, "train-") == {"Running": 3}, "the gang to run")
    until(lambda: phase(client, "train") == "Running", "the job to say so")
    group = group_of(client, "train")
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (3, {"ps": 1, "worker": 2})
    assert (group["spec"]["queue"], group["spec"]["minResources"]["cpu"]) == ("research", "5")
    pods = {each["metadata"]["name"]: each["spec"] for each in client.get(PODS)["items"]}
    assert {name: spec["containers"][0]["image"] for name, spec in pods.items()} == {
        "train-ps-0": "demo:ps",
        "train-worker-0": "demo:worker",
        "train-worker-1": "demo:worker",
    }
    assert client.get("/api/v1/namespaces/default/services/train")["spec"]["clusterIP"] == "None"
    assert "id_rsa" in client.get("/api/v1/namespaces/default/secrets/train-ssh")["data"]
    variables = {each["name"]: each.get("value") for each in pods["train-worker-1"]["containers"][0]["env"]}
    assert variables["VC_TASK_INDEX"] == "1"
    assert (pods["train-worker-1"]["hostname"], pods["train-worker-1"]["subdomain"]) == ("train-worker-1", "train")
    kubectl(server, "get", "vcjob", "train")


def test_no_pod_is_made_before_the_queue_has_room(server: Server, client: Client) -> None:
    apply(server, queue("small", capability={"cpu": "2"}))
    waiting = "sla-waiting-time", "1h2m3s4ms5us6ns"
    apply(server, job("later", task("a", 3), queue="small", annotations=dict([waiting])))
    until(lambda: "QueueQuotaInsufficient" in str(group_of(client, "later").get("status")), "a word on why it waits")
    group = group_of(client, "later")
    assert (group["status"].get("phase"), phases(client)) == ("Pending", {})
    assert group["metadata"]["annotations"].items() >= {waiting}
    assert "PodGroupPending" in said(client, "Job", "later")
    kubectl(server, "patch", "queue", "small", "--type=merge", "-p", '{"spec": {"capability": {"cpu": "3"}}}')
    until(lambda: phases(client, "later-") == {"Running": 3}, "the job to run once there is room")
    until(lambda: group_of(client, "later")["status"]["phase"] == "Running", "the group to say so")


def test_a_job_without_a_queue_is_in_the_default_one_and_one_in_no_queue_is_refused(
    server: Server, client: Client
) -> None:
    apply(server, job("plain", task("a", 1)))
    assert client.get(f"{JOBS}/plain")["spec"]["queue"] == "default"
    words = ask(server, "apply", "-f", "-", given=yaml.safe_dump(job("lost", task("a", 1), queue="nowhere"))).stderr
    assert 'admission webhook "validatejob.volcano.sh" denied the request' in words
    assert "nowhere" in words


def test_a_manifest_can_be_applied_again(server: Server, client: Client) -> None:
    manifest = job("twice", task("a", 1), task("b", 1))
    apply(server, manifest)
    before = client.get(f"{JOBS}/twice")["spec"]
    apply(server, manifest)
    assert client.get(f"{JOBS}/twice")["spec"] == before


def test_a_job_of_kubernetes_starts_in_part_where_a_job_of_volcano_waits_whole(server: Server, client: Client) -> None:
    template = task("a", 1, "3")["template"]
    spec = {"completions": 6, "parallelism": 6, "template": template}
    apply(server, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "native"}, "spec": spec})
    until(lambda: phases(client, "native-") == {"Running": 4, "Pending": 2}, "a part of it to start")
    kubectl(server, "delete", "jobs.batch", "native")
    until(lambda: not phases(client), "it to be gone")
    apply(server, job("whole", task("a", 6, "3")))
    until(lambda: "Unschedulable" in str(group_of(client, "whole").get("status")), "the group to say why it waits")
    assert not phases(client, "whole-")["Running"]


@pytest.mark.parametrize(
    ("action", "again", "phase_after"),
    [("RestartJob", ["m-bad-0", "m-good-0"], "Failed"), ("RestartTask", ["m-bad-0"], "Failed"),
     ("AbortJob", [], "Aborted"), ("TerminateJob", [], "Terminated")],
)  # fmt: skip
def test_when_a_pod_fails_the_policy_says_who_starts_again_and_where_it_ends(
    server: Server, client: Client, action: str, again: list[str], phase_after: str
) -> None:
    policy = [{"event": "PodFailed", "action": action}]
    tasks = task("bad", 1, command="sleep 4; exit 3"), task("good", 1)
    apply(server, job("m", *tasks, maxRetry=2, policies=policy))
    until(lambda: phases(client, "m-") == {"Running": 2}, "the job to run")
    first = uids(client)
    restarted: set[str] = set()

    def is_over() -> bool:
        restarted.update(name for name, uid in uids(client).items() if uid != first[name])
        return phase(client, "m") == phase_after

    until(is_over, "the policy to end the job")
    assert sorted(restarted) == again


def test_reclaim_of_one_pod_restarts_the_whole_job_which_gets_what_room_there_is(
    server: Server, client: Client
) -> None:
    apply(server, job("sweep", task("a", 4, "4", minAvailable=2), queue="research", policies=RESTART_WHEN_EVICTED))
    until(lambda: phases(client, "sweep-") == {"Running": 4}, "the job to borrow everything")
    until(lambda: phase(client, "sweep") == "Running", "the job to say so")
    before = uids(client)
    apply(server, job("serving", task("a", 1, "4"), queue="production"))
    until(lambda: phases(client, "serving-") == {"Running": 1}, "production to take back a node")
    until(lambda: phases(client, "sweep-") == {"Running": 3, "Pending": 1}, "the job to go on with the rest")
    until(lambda: not set(uids(client, "sweep-").values()) & set(before.values()), "all pods to be new")
    assert len([name for name in before if "Evict" in said(client, "Pod", name)]) == 1, "the others went by the policy"
    assert client.get(f"{JOBS}/sweep")["status"]["retryCount"] == 1
    kubectl(server, "delete", "vcjob/serving")
    until(lambda: phases(client, "sweep-") == {"Running": 4}, "the last pod to start when there is room")


def test_reclaim_sends_a_gang_back_whole_and_it_comes_back_when_there_is_room(server: Server, client: Client) -> None:
    apply(server, queue("guest"), job("gang", task("a", 4, "4"), queue="guest", policies=RESTART_WHEN_EVICTED))
    until(lambda: phases(client, "gang-") == {"Running": 4}, "the gang to borrow everything")
    until(lambda: phase(client, "gang") == "Running", "the job to say so")
    apply(server, job("serving", task("a", 1, "4"), queue="production"))
    until(lambda: phases(client, "serving-") == {"Running": 1}, "production to take back a node")
    until(lambda: phase(client, "gang") == "Pending", "the job to wait again")
    until(lambda: "Unschedulable" in str(group_of(client, "gang").get("status")), "the group to say why it waits")
    assert not phases(client, "gang-")["Running"], "three nodes are free, and no one holds them"
    kubectl(server, "delete", "vcjob/serving")
    until(lambda: phases(client, "gang-") == {"Running": 4}, "the gang to come back")


def test_workers_that_talk_to_each_other_run_under_one_switch(server: Server, client: Client) -> None:
    near = {"mode": "hard", "highestTierAllowed": 1}
    apply(server, job("allreduce", task("worker", 4, "2"), networkTopology=near))
    until(lambda: phases(client, "allreduce-") == {"Running": 4}, "the workers to run")
    nodes = {each["spec"]["nodeName"] for each in client.get(PODS)["items"]}
    assert nodes in ({"node-0", "node-2"}, {"node-1", "node-3"})
    apply(server, job("wider", task("worker", 6, "2"), networkTopology=near))
    until(lambda: "Unschedulable" in str(group_of(client, "wider").get("status")), "what fits under no switch to wait")
    assert "Running" not in phases(client, "wider-")
