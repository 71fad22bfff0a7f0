"""Seed 003 at a whole cluster: its samples are applied as they are written, and what it tells comes about.

The manifests are those that the tests of the plugin read; here the controllers make their pod groups and pods.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Server
from cluster.up_process import GROUPS, PODS, apply, kubectl, phases, queue, running_up, said, until
from engine.documented.test_card_quota_samples import H200, MIG, SLICE
from engine.documented.test_card_quota_samples import SERVICE as SLICES
from engine.documented.test_card_quota_samples import TRAINING as WHOLE_CARDS
from engine.test_capacity_card_reclaim import CARD, QUEUES, SERVICE, TRAINING
from support.card_objects import CARDS_RECLAIMED, labelled

Obj = dict[str, Any]
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PREEMPTABLE = "volcano.sh/preemptable"


def node(name: str, card: str, memory: int, **slices: str) -> Obj:
    """A node with eight cards, and slices of others."""
    offer = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"} | slices
    labels = labelled(card, memory)
    status = {"allocatable": offer, "capacity": offer}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def level(name: str, value: int) -> Obj:
    """A priority class."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"}


LEVELS = [level(f"pc-{name}", value) for name, value in (("high", 80000), ("mid", 60000), ("low", 20000))]


def training(policy: str, **more: Any) -> Obj:
    """The sample of a training job, with what it does when one of its pods is taken away."""
    job: Obj = copy.deepcopy(TRAINING)
    job["spec"]["policies"][1]["action"] = policy
    job["spec"].update(more)
    return job


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node of eight cards, the sample's configuration, queues and levels of priority."""
    folder = tmp_path_factory.mktemp("cards")
    (folder / "scheduler.conf").write_text(yaml.safe_dump(CARDS_RECLAIMED))
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([node("n1", CARD, 24576), *QUEUES, *LEVELS]))
    options = ("--nodes", "0", "--scheduler-conf", str(folder / "scheduler.conf"), "-f", str(folder / "cluster.yaml"))
    with running_up(folder / "data", *options) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """The administrator; all work is gone before and after."""
    client = server.client()
    yield client
    kubectl(server, "delete", "deployments,vcjob", "--all", "--wait=true")
    until(lambda: not client.get(PODS)["items"] and not client.get(GROUPS)["items"], "all work to be gone")


def job_phase(client: Client) -> str:
    """How the training job stands."""
    status: Obj = client.get(f"{JOBS}/training-low").get("status", {})
    return str(status.get("state", {}).get("phase"))


def group_of(client: Client, owner: str) -> Obj:
    """The pod group that was made for a workload; empty as long as there is none."""
    found = [each for each in client.get(GROUPS)["items"] if each["metadata"]["ownerReferences"][0]["kind"] == owner]
    return found[0] if found else {}


def in_the_midst_of_training(server: Server, client: Client, job: Obj) -> None:
    """Apply a training job and wait until it has all the cards."""
    apply(server, job)
    until(lambda: phases(client, "training-low") == {"Running": 2}, "the job to have all the cards")
    until(lambda: job_phase(client) == "Running", "the job to say so")


def half_a_gang(client: Client) -> bool:
    """Whether one of the two pods of the job stands alone, as those that are going do not."""
    pods = [each for each in client.get(PODS)["items"] if each["metadata"]["name"].startswith("training-low")]
    return len([each for each in pods if "deletionTimestamp" not in each["metadata"]]) == 1


def test_with_abort_job_a_service_takes_cards_back_and_the_whole_job_is_aborted(server: Server, client: Client) -> None:
    in_the_midst_of_training(server, client, training("AbortJob"))
    apply(server, SERVICE)
    until(lambda: phases(client, "inference-high") == {"Running": 1}, "the service to have its cards")
    until(lambda: job_phase(client) == "Aborted", "the job to be aborted")
    assert not phases(client, "training-low"), "no pod of the gang is left, though one would have room"
    assert {name.rpartition("-worker")[0] for name in evicted(client)} == {"training-low"}


def evicted(client: Client) -> list[str]:
    """Names of the pods whose eviction was told."""
    events = client.get("/api/v1/events")["items"]
    found = [each["involvedObject"] for each in events if each["reason"] == "Evict"]
    return sorted({each["name"] for each in found if each["kind"] == "Pod"})


def test_with_restart_job_the_gang_waits_whole_and_comes_back_when_there_is_room(
    server: Server, client: Client
) -> None:
    in_the_midst_of_training(server, client, training("RestartJob"))
    apply(server, SERVICE)
    until(lambda: phases(client, "inference-high") == {"Running": 1}, "the service to have its cards")
    until(lambda: job_phase(client) == "Pending", "the job to wait again")
    until(lambda: "Unschedulable" in str(group_of(client, "Job").get("status")), "the group to say why it waits")
    assert not phases(client, "training-low")["Running"]
    assert client.get(f"{JOBS}/training-low")["status"]["retryCount"] == 1
    kubectl(server, "scale", "deployment/inference-high", "--replicas=0")
    until(lambda: phases(client, "training-low") == {"Running": 2}, "the gang to come back")
    until(lambda: job_phase(client) == "Running", "the job to say so")


@pytest.mark.parametrize(("policy", "phase"), [("AbortJob", "Aborted"), ("RestartJob", "Running")])
def test_a_pod_that_an_administrator_takes_away_takes_its_gang_with_it(
    server: Server, client: Client, policy: str, phase: str
) -> None:
    in_the_midst_of_training(server, client, training(policy))
    before = {each["metadata"]["uid"] for each in client.get(PODS)["items"]}
    kubectl(server, "delete", "pod/training-low-worker1-0", "--wait=false")
    until(lambda: not before & {each["metadata"]["uid"] for each in client.get(PODS)["items"]}, "both pods to go")
    until(lambda: job_phase(client) == phase, "the job to follow")
    assert not half_a_gang(client)


def test_a_task_that_is_done_completes_the_job(server: Server, client: Client) -> None:
    job = training("AbortJob")
    job["spec"]["tasks"] = [copy.deepcopy(each) for each in job["spec"]["tasks"]]
    first = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    first["command"] = ["sh", "-c", "sleep 1"]
    apply(server, job)
    until(lambda: job_phase(client) == "Completed", "the first task to end, and the job with it")
    until(lambda: phases(client, "training-low") == {"Succeeded": 1}, "the other task to be ended")


def test_training_does_not_take_cards_back_however_important_it_is(server: Server, client: Client) -> None:
    service = copy.deepcopy(SERVICE)
    service["spec"]["replicas"] = 2
    apply(server, service)
    until(lambda: phases(client, "inference-high") == {"Running": 2}, "the services to have all cards")
    apply(server, training("RestartJob", priorityClassName="pc-high"))
    until(lambda: "Unschedulable" in str(group_of(client, "Job").get("status")), "the group to say why it waits")
    assert phases(client, "inference-high") == {"Running": 2}


def test_a_service_beyond_its_quota_is_told_so_at_its_pod_and_takes_nothing(server: Server, client: Client) -> None:
    in_the_midst_of_training(server, client, training("RestartJob"))
    # What no node could give would be said before what the queue may use.
    apply(server, node("large", CARD, 24576, **{"nvidia.com/gpu": "16"}))
    service = copy.deepcopy(SERVICE)
    service["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        kind: {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "12"} for kind in ("requests", "limits")
    }
    apply(server, service)

    def words() -> str:
        pods = [each["metadata"]["name"] for each in client.get(PODS)["items"]]
        return "".join(said(client, "Pod", name) for name in pods if name.startswith("inference-high"))

    until(lambda: "12000" in words(), "a word at the pod")
    assert words() == (
        f"FailedScheduling: Queue <queue-inference> has insufficient <{CARD}> quota: requested <12000>, "
        "total would be <12000>, but capability is <8000>"
    )
    assert phases(client, "training-low") == {"Running": 2}
    kubectl(server, "delete", "node", "large")


def test_annotations_of_both_kinds_of_work_reach_their_pod_groups(server: Server, client: Client) -> None:
    apply(server, SERVICE, training("AbortJob"))
    until(lambda: group_of(client, "ReplicaSet") and group_of(client, "Job"), "both groups")
    service, job = group_of(client, "ReplicaSet"), group_of(client, "Job")
    assert service["metadata"]["annotations"][PREEMPTABLE] == "false"
    assert job["metadata"]["annotations"][PREEMPTABLE] == "true"
    assert (service["spec"]["queue"], service["spec"]["priorityClassName"]) == ("queue-inference", "pc-high")
    assert (job["spec"]["queue"], job["spec"]["priorityClassName"]) == ("queue-training", "pc-low")
    assert (service["spec"]["minMember"], job["spec"]["minMember"]) == (1, 2)
    assert job["spec"]["minTaskMember"] == {"worker1": 1, "worker2": 1}


def test_what_the_two_short_samples_say_of_cards_reaches_their_pod_groups_and_they_run(
    server: Server, client: Client
) -> None:
    quota = "volcano.sh/card.quota"
    apply(
        server,
        node("n2", H200, 143771, **{SLICE: "4"}),
        *(
            queue(name, capability={"cpu": "4", "memory": "4Gi"})
            | {"metadata": {"name": name, "annotations": {quota: f'{{"{card}":2}}'}}}
            for name, card in (("slices", MIG), ("wholes", H200))
        ),
    )
    labels = {"app": "ai-service"}
    service = copy.deepcopy(SLICES)
    marks = {"volcano.sh/card.name": MIG, "scheduling.volcano.sh/queue-name": "slices"}
    template = {"metadata": {"labels": labels, "annotations": marks}, "spec": pod_of(SLICE)}
    service["spec"] = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    job = copy.deepcopy(WHOLE_CARDS)
    template = {"metadata": {"annotations": {"volcano.sh/card.name": H200}}, "spec": pod_of("nvidia.com/gpu")}
    task = {"name": "worker", "replicas": 2, "template": template}
    job["spec"] = {"minAvailable": 2, "queue": "wholes", "tasks": [task]}
    apply(server, service, job)
    until(lambda: phases(client, "ai-") == {"Running": 4}, "both to run")
    for sample, owner in ((SLICES, "ReplicaSet"), (WHOLE_CARDS, "Job")):
        assert group_of(client, owner)["metadata"]["annotations"].items() >= sample["metadata"]["annotations"].items()
    kubectl(server, "delete", "deployment/ai-service", "vcjob/ai-job")
    until(lambda: not phases(client), "both to be gone")
    kubectl(server, "delete", "node/n2")


def pod_of(resource: str) -> Obj:
    """The spec of a pod that asks for one card, or slice of one."""
    amounts = {"cpu": "100m", "memory": "100Mi", resource: "1"}
    container: Obj = {"name": "main", "image": "demo", "command": ["sh", "-c", "sleep 1d"]}
    container["resources"] = {"requests": amounts, "limits": amounts}
    return {"schedulerName": "volcano", "containers": [container]}
