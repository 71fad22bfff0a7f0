"""What workloads become that are planned for: the pods and groups that a cluster would make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.engine.cycle import default_conf
from kilauea.runtime.inputs.objects import Cluster, read_cluster
from kilauea.runtime.inputs.snapshot import Snapshot
from kilauea.simulator.planning import Result, plan_cycles

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}},
}
NOW = 1_700_000_000_000_000


def template(cpu: str = "1", scheduler: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "demo", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": ({"schedulerName": scheduler} if scheduler else {}) | {"containers": [container]} | spec}


def vcjob(name: str = "train", replicas: int = 3, cpu: str = "1", **more: Any) -> dict[str, Any]:
    task = {"name": "worker", "replicas": replicas, "template": template(cpu)}
    spec = {"tasks": [task]} | more.pop("spec", {})
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec} | more


def workload(kind: str, version: str, name: str = "web", scheduler: str = "volcano", **spec: Any) -> dict[str, Any]:
    about = {"name": name, "annotations": {"volcano.sh/preemptable": "false"}}
    whole = {"selector": {"matchLabels": {"app": name}}, "template": template(scheduler=scheduler)} | spec
    return {"apiVersion": version, "kind": kind, "metadata": about, "spec": whole}


def read(folder: Path, *objects: dict[str, Any]) -> Cluster:
    (folder / "objects.yaml").write_text(yaml.safe_dump_all([NODE, *objects]))
    return read_cluster([str(folder / "objects.yaml")])


def planned(cluster: Cluster) -> Result:
    return plan_cycles(cluster.scenario(default_conf(), NOW))


def test_a_job_in_a_file_starts_with_all_its_pods_as_one_gang(tmp_path: Path) -> None:
    cluster = read(tmp_path, vcjob())
    assert cluster.warnings == []
    result = planned(cluster)
    assert [bind.pod for bind in result.plan.binds] == [f"default/train-worker-{i}" for i in range(3)]
    job = result.state.jobs[cluster.groups_of_jobs["default/train"]]
    assert (job.min_available, job.queue, len(job.tasks)) == (3, "default", 3), "admission fills in minimum and queue"


def test_fields_that_a_kind_does_not_have_are_named_as_a_server_names_them(tmp_path: Path) -> None:
    task = {"name": "worker", "replcas": 2, "template": template(nodeSelect={})}
    wrong = vcjob(spec={"tasks": [task], "minAvail": 2})
    web = workload("Deployment", "apps/v1", replcas=2)
    stored = vcjob("stored", metadata={"name": "stored", "uid": "u"}, spec={"tasks": [task]})
    assert read(tmp_path, wrong, web, stored).warnings == [
        'Job default/train: unknown field "spec.minAvail"',
        'Job default/train: unknown field "spec.tasks[0].replcas"',
        'Job default/train: unknown field "spec.tasks[0].template.spec.nodeSelect"',
        'Deployment default/web: unknown field "spec.replcas"',
    ]


def test_fields_that_pods_groups_and_queues_do_not_have_are_named_once_with_the_number_of_objects(
    tmp_path: Path,
) -> None:
    metadata = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec = {"containers": [{"name": "main", 'we"ird': 1}], "nodeSelectr": {}}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": spec} for name in ("a", "b")
    ]
    stored = {**pods[0], "metadata": {**metadata, "name": "stored", "uid": "u"}}
    api_version = "scheduling.volcano.sh/v1beta1"
    group = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMembr": 1}}
    queue = {"apiVersion": api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {'we"ight': 1}}
    expected = [
        'Pod default/a (and 1 more): unknown field "spec.containers[0].we\\"ird"',
        'Pod default/a (and 1 more): unknown field "spec.nodeSelectr"',
        'PodGroup default/g: unknown field "spec.minMembr"',
        'Queue q: unknown field "spec.we"ight"',
    ]
    assert read(tmp_path, *pods, stored, group, queue).warnings == expected
    (tmp_path / "objects.json").write_text(json.dumps({"kind": "List", "items": [*pods, stored, group, queue]}))
    assert read_cluster([str(tmp_path / "objects.json")]).warnings == expected


def test_a_queue_that_is_not_there_comes_with_how_to_create_it(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, vcjob(spec={"queue": "nowhere"})).warnings
    assert "; create the queue with `vcctl queue create -n nowhere`, or add it to the files" in warning
    (warning,) = read(tmp_path, vcjob(spec={"minAvailable": 9})).warnings
    assert "create it" not in warning


def bare(
    name: str, scheduler: str = "volcano", annotations: dict[str, str] | None = None, **meta: Any
) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations or {}} | meta
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | template(scheduler=scheduler)


def test_a_new_pod_without_a_group_gets_one_from_its_controller_as_in_a_cluster(tmp_path: Path) -> None:
    result = planned(read(tmp_path, bare("a"), bare("b", "kilauea")))
    assert [bind.pod for bind in result.plan.binds] == ["default/a", "default/b"]
    groups = {key: (job.min_available, job.queue) for key, job in result.state.jobs.items()}
    assert groups == {"default/podgroup-default-a": (1, "default"), "default/podgroup-default-b": (1, "default")}


def test_new_pods_of_one_owner_share_a_group(tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "owner", "controller": True}
    result = planned(read(tmp_path, *(bare(name, ownerReferences=[owner]) for name in "ab")))
    assert [(key, len(job.tasks)) for key, job in result.state.jobs.items()] == [("default/podgroup-owner", 2)]
    assert len(result.plan.binds) == 2


def test_a_new_pod_gets_no_group_in_a_queue_that_does_not_take_it(tmp_path: Path) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "shut"}}
    shut = queue | {"status": {"state": "Closed"}}
    pods = [bare(to, annotations={"scheduling.volcano.sh/queue-name": to}) for to in ("nowhere", "shut")]
    plan = planned(read(tmp_path, shut, *pods)).plan
    assert [(each.pod, each.code) for each in plan.pending] == [
        ("default/nowhere", "QueueNotFound"),
        ("default/shut", "QueueClosed"),
    ]


def test_a_stored_pod_without_a_group_waits_for_its_cluster_to_create_one(tmp_path: Path) -> None:
    plan = planned(read(tmp_path, bare("a", uid="u"), bare("service", ""))).plan
    assert [(each.pod, each.code) for each in plan.pending] == [("default/a", "NoPodGroup")], "and is listed once"
    assert "check that the controllers run" in plan.pending[0].message


def test_a_new_pod_without_a_scheduler_is_for_the_default_scheduler_and_needs_no_group(tmp_path: Path) -> None:
    result = planned(read(tmp_path, bare("plain", "")))
    assert [bind.pod for bind in result.plan.binds] == ["default/plain"]
    assert [job.service for job in result.state.jobs.values()] == [True]


def test_a_job_that_waits_in_the_cluster_without_pods_is_not_submitted_by_the_files(tmp_path: Path) -> None:
    about = {"name": "stored", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    live = Snapshot("https://cluster", workloads=[vcjob(metadata=about)])
    (tmp_path / "new.yaml").write_text(yaml.safe_dump_all([NODE, vcjob("new"), bare("pod")]))
    cluster = read_cluster([str(tmp_path / "new.yaml")], live=live)
    assert set(cluster.groups_of_jobs) == {"default/new", "default/stored"}
    assert cluster.submitted == (cluster.groups_of_jobs["default/new"], "default/podgroup-default-pod")


def test_a_job_that_does_not_fit_whole_waits_whole(tmp_path: Path) -> None:
    plan = planned(read(tmp_path, vcjob(replicas=9))).plan
    assert (plan.binds, len(plan.pending)) == ((), 9)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        pytest.param(vcjob(spec={"tasks": []}), "No task specified in job spec", id="no tasks"),
        pytest.param(vcjob(spec={"minAvailable": 9}), "minAvailable", id="a minimum above all pods"),
        pytest.param(vcjob(spec={"queue": "nowhere"}), "unable to find job queue", id="a queue that is not there"),
        pytest.param(vcjob(spec={"plugins": {"sshh": []}}), "sshh", id="a plugin that is not there"),
    ],
)
def test_a_job_that_admission_would_refuse_is_left_out_and_says_why(
    tmp_path: Path, job: dict[str, Any], why: str
) -> None:
    cluster = read(tmp_path, job, vcjob("other"))
    (warning,) = cluster.warnings
    assert warning.startswith("Job default/train: ")
    assert why in warning
    assert {bind.pod for bind in planned(cluster).plan.binds} == {f"default/other-worker-{i}" for i in range(3)}


def test_a_job_that_does_not_say_when_it_was_made_is_the_youngest(tmp_path: Path) -> None:
    old = vcjob("old", replicas=6)
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    plan = planned(read(tmp_path, vcjob("a-new-one", replicas=6), old)).plan
    assert {bind.pod for bind in plan.binds} == {f"default/old-worker-{i}" for i in range(6)}


def test_claims_that_a_job_describes_are_made_with_it(tmp_path: Path) -> None:
    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    fast |= {"provisioner": "demo", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    job = vcjob()
    job["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaim": claim}]
    cluster = read(tmp_path, fast, job)
    assert cluster.warnings == []
    assert len(planned(cluster).plan.binds) == 3


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted", "Aborting"])
def test_a_job_that_has_ended_makes_no_pods(tmp_path: Path, phase: str) -> None:
    cluster = read(tmp_path, vcjob(status={"state": {"phase": phase}}))
    assert {obj.kind for obj in cluster.objects} == {"Node", "Queue"}


def test_a_job_that_runs_gets_only_the_pods_that_it_lacks(tmp_path: Path) -> None:
    group = "train-u1"
    job = vcjob(status={"state": {"phase": "Running"}})
    job["metadata"]["uid"] = "u1"
    running = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-worker-1", "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {"nodeName": "n", "schedulerName": "volcano", "containers": [{"name": "c", "image": "demo"}]},
        "status": {"phase": "Running"},
    }
    pod_group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group},
        "spec": {"minMember": 1},
        "status": {"phase": "Running"},
    }
    result = planned(read(tmp_path, job, running, pod_group))
    assert [bind.pod for bind in result.plan.binds] == ["default/train-worker-0", "default/train-worker-2"]


@pytest.mark.parametrize(
    ("kind", "version", "count"),
    [
        ("Deployment", "apps/v1", {"replicas": 2}),
        ("StatefulSet", "apps/v1", {"replicas": 2}),
        ("Job", "batch/v1", {"parallelism": 2}),
    ],
)
def test_new_workloads_of_kubernetes_get_pods_and_a_group_that_inherits(
    tmp_path: Path, kind: str, version: str, count: dict[str, Any]
) -> None:
    cluster = read(tmp_path, workload(kind, version, **count))
    assert cluster.warnings == []
    result = planned(cluster)
    assert [bind.pod for bind in result.plan.binds] == ["default/web-0", "default/web-1"]
    ((_, job),) = [(key, job) for key, job in result.state.jobs.items() if job.group]
    assert job.preemptable is False, "the workload's annotation reaches the group"


def test_a_workload_of_the_default_scheduler_is_pods_on_their_own(tmp_path: Path) -> None:
    result = planned(read(tmp_path, workload("Deployment", "apps/v1", scheduler="", replicas=2)))
    assert [bind.pod for bind in result.plan.binds] == ["default/web-0", "default/web-1"]
    assert {job.min_available for job in result.state.jobs.values()} == {1}


def test_a_workload_that_a_server_has_stored_makes_no_pods_for_they_are_there(tmp_path: Path) -> None:
    stored = workload("Deployment", "apps/v1", replicas=2)
    stored["metadata"]["uid"] = "u1"
    cluster = read(tmp_path, stored)
    assert cluster.warnings == ["ignored objects of kinds that do not affect scheduling: 1 apps/Deployment"]
    assert planned(cluster).plan.binds == ()


def running_replica(deployment: str, number: int, **more: Any) -> dict[str, Any]:
    """A pod of a ReplicaSet of a Deployment, as a cluster shows it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{deployment}-5d4f",
        "uid": "r",
        "controller": True,
    }
    metadata = {
        "name": f"{deployment}-5d4f-{number}",
        "labels": {"pod-template-hash": "5d4f"},
        "annotations": {"scheduling.k8s.io/group-name": "podgroup-r"},
        "ownerReferences": [owner],
    }
    spec = {"nodeName": "n", "schedulerName": "volcano", "containers": [{"name": "c", "image": "demo"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | more,
        "spec": spec,
        "status": {"phase": "Running"},
    }


GROUP_OF_REPLICAS = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "podgroup-r"},
    "spec": {"minMember": 1},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("there", "replicas", "starts"),
    [
        pytest.param([running_replica("web", 0)], 3, ["web-1", "web-2"], id="what it lacks, when it is scaled up"),
        pytest.param([running_replica("web", 0)], 1, [], id="nothing, when it stays as it is"),
        pytest.param([running_replica("web", n) for n in range(3)], 1, [], id="nothing, when it is scaled down"),
        pytest.param([running_replica("web-shop", 0)], 1, ["web-0"], id="all, when the pods are of another one"),
    ],
)
def test_a_deployment_that_is_there_gets_the_replicas_that_it_lacks(
    tmp_path: Path, there: list[dict[str, Any]], replicas: int, starts: list[str]
) -> None:
    result = planned(read(tmp_path, workload("Deployment", "apps/v1", replicas=replicas), GROUP_OF_REPLICAS, *there))
    assert [bind.pod for bind in result.plan.binds] == [f"default/{name}" for name in starts]
    joined = {
        job.name for job in result.state.jobs.values() if job.group and len(job.tasks) == len(there) + len(starts)
    }
    assert ("podgroup-r" in joined) is (there[0]["metadata"]["name"].startswith("web-5d4f"))


def test_a_replica_that_is_going_is_not_there(tmp_path: Path) -> None:
    going = running_replica("web", 0, deletionTimestamp="2026-01-01T00:00:00Z")
    result = planned(read(tmp_path, workload("Deployment", "apps/v1", replicas=1), GROUP_OF_REPLICAS, going))
    assert [bind.pod for bind in result.plan.binds] == ["default/web-0"]


NONSENSE: list[Any] = [None, 7, "text", [], [7], {"a": 7}, {"spec": 7}]


@pytest.mark.parametrize("value", NONSENSE, ids=str)
@pytest.mark.parametrize("field", ["spec", "tasks", "template", "replicas", "status"])
def test_nonsense_in_a_job_leaves_out_no_other(tmp_path: Path, field: str, value: Any) -> None:
    job = vcjob("odd", status={"state": {"phase": "Running"}} if field != "status" else value)
    if field == "spec":
        job["spec"] = value
    elif field == "tasks":
        job["spec"]["tasks"] = value
    elif field != "status":
        job["spec"]["tasks"][0][field] = value
    plan = planned(read(tmp_path, job, vcjob("other"))).plan
    assert {f"default/other-worker-{i}" for i in range(3)} <= {bind.pod for bind in plan.binds}


@pytest.mark.parametrize("value", NONSENSE, ids=str)
@pytest.mark.parametrize("field", ["spec", "template", "replicas"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_nonsense_in_a_workload_leaves_out_no_other(tmp_path: Path, kind: str, field: str, value: Any) -> None:
    odd = workload(kind, "apps/v1", "odd", replicas=2)
    if field == "spec":
        odd["spec"] = value
    else:
        odd["spec"][field] = value
    plan = planned(read(tmp_path, odd, workload(kind, "apps/v1", replicas=2))).plan
    assert {"default/web-0", "default/web-1"} <= {bind.pod for bind in plan.binds}


@pytest.mark.parametrize(
    ("kind", "version", "size"),
    [("Deployment", "apps/v1", "replicas"), ("StatefulSet", "apps/v1", "replicas"), ("Job", "batch/v1", "parallelism")],
)
def test_a_workload_with_more_pods_than_fit_in_memory_is_left_out(
    tmp_path: Path, kind: str, version: str, size: str
) -> None:
    odd = workload(kind, version, "odd")
    odd["spec"] |= {size: 2**31 - 1, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {size: 2**31 - 1}
    cluster = read(tmp_path, odd, workload("Deployment", "apps/v1", replicas=2))
    expected = (
        f"{kind} default/odd: spec.{size}: 2147483647 pods are requested, and a plan takes 100000 of a workload: "
    )
    assert cluster.warnings == [f"{expected}set fewer; left out"]
    assert {bind.pod for bind in planned(cluster).plan.binds} == {"default/web-0", "default/web-1"}
