"""The examples of `docs/howto/operators.md`, played with the operators, which are built from their Go modules.

Each example waits whole while its gang has no room, and starts whole when it has; then its operator says what it says
of work that runs, ends, is scaled or starts again. That happens on `kilauea up` and at the real Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.operators import Site, installed, lacks, need
from cluster.real_product import running_product
from cluster.up_process import GROUP, pod, running_up, until
from support.pages import ROOT, blocks

PAGE = ROOT / "docs/howto/operators.md"
GROUPS = "podgroups.scheduling.volcano.sh"
NODES, CPUS = 3, 16
RUN_TIME, EXIT_CODE = "kilauea.dev/run-time", "kilauea.dev/exit-code"
LOADED = 120.0
"""Seconds to wait on a machine that is busy with other tests."""
Obj = dict[str, Any]


def example(kind: str) -> tuple[Obj, Obj]:
    """The pod group and the manifest of a kind on the page."""
    text = next(each.text for each in blocks(PAGE) if f"kind: {kind}\n" in each.text)
    group, work = yaml.safe_load_all(text)
    return group, work


def group_of(site: Site, name: str) -> tuple[str, int]:
    """Phase and running pods of a pod group of Volcano."""
    status = site.get(GROUPS, name).get("status", {})
    return status.get("phase", ""), status.get("running", 0)


def pods(site: Site, group: str) -> list[Obj]:
    """The pods of a group that have not ended and are not being deleted."""
    found = site.get("pods")["items"]
    mine = [each for each in found if each["metadata"].get("annotations", {}).get(GROUP) == group]
    return [
        each
        for each in mine
        if "deletionTimestamp" not in each["metadata"] and each["status"]["phase"] in ("Pending", "Running")
    ]


def uids(site: Site, group: str) -> set[str]:
    """The uids of these pods."""
    return {each["metadata"]["uid"] for each in pods(site, group)}


def images(site: Site, group: str) -> set[str]:
    """The images of these pods."""
    return {each["spec"]["containers"][0]["image"] for each in pods(site, group)}


def said(site: Site, name: str) -> str:
    """The events about what has this name."""
    return site.kubectl("get", "events", "--field-selector", f"involvedObject.name={name}")


def status(site: Site, kind: str, name: str, field: str) -> Any:
    """A field of an object's status; None if it has none yet."""
    return site.get(kind, name).get("status", {}).get(field)


def runs(site: Site, group: str, size: int) -> bool:
    """True if so many pods of a group run, and no other."""
    return [each["status"]["phase"] for each in pods(site, group)] == ["Running"] * size


def is_known(site: Site, work: Obj) -> bool:
    """True if the server lets objects of this kind own pods, for which it may take half a minute to notice a new kind.

    Administrators may set any owner, so this asks as another user, who is refused for another reason in the end.
    """
    owner = {"apiVersion": work["apiVersion"], "kind": work["kind"], "name": "owner", "uid": "0"}
    owned = pod("owned") | {"apiVersion": "v1", "kind": "Pod"}
    owned["metadata"] = {"name": "owned", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    who = ("--as", "system:serviceaccount:kube-system:job-controller")
    try:
        site.kubectl("create", "--dry-run=server", *who, "-f", "-", given=json.dumps(owned))
    except AssertionError as refusal:
        return "cannot find RESTMapping" not in str(refusal)
    return True


def waits_and_starts_whole(site: Site, kind: str, made: str = "") -> str:
    """Play an example of the page: first one cpu too few is free, then enough; gives the group's name.

    Args:
        site: the cluster, empty.
        kind: of the example.
        made: the group that the operator makes itself; the example is played without the one of the page then.
    """
    group, work = example(kind)
    name, size = made or group["metadata"]["name"], group["spec"]["minMember"]
    full = [pod(f"full-{number}", cpu=str(CPUS)) for number in range(NODES - 1)]
    for those in (full, [pod("full", cpu=str(CPUS - size)), pod("one", cpu="1")]):
        site.apply(*those)
        until(lambda: all(e["status"]["phase"] == "Running" for e in site.get("pods")["items"]), "a full cluster")
    until(lambda: is_known(site, work), f"{kind} to be known", LOADED)
    site.apply(without_group(work)) if made else site.apply(group, work)
    until(lambda: len(pods(site, name)) == size, f"{size} pods of {kind}", LOADED)
    reason = f"/{size} tasks in gang unschedulable"
    until(lambda: reason in said(site, name), f"an event with {reason!r}", LOADED)
    # Groups that operators make have minResources, which the queue has no room for; that of the page is admitted.
    assert group_of(site, name) == ("Pending" if made else "Inqueue", 0)
    assert [each["spec"].get("nodeName") for each in pods(site, name)] == [None] * size
    site.kubectl("delete", "pod", "one", "--wait=false")
    until(lambda: runs(site, name, size), f"{size} running pods of {kind}", LOADED)
    until(lambda: group_of(site, name) == ("Running", size), "the group to run", LOADED)
    site.kubectl("delete", "pod", "full", *(each["metadata"]["name"] for each in full))
    return str(name)


def without_group(work: Any) -> Any:
    """A manifest without the scheduler and the group that its templates name."""
    if isinstance(work, list):
        return [without_group(each) for each in work]
    if not isinstance(work, dict):
        return work
    return {name: without_group(each) for name, each in work.items() if name not in (GROUP, "schedulerName")}


def renamed(kind: str, name: str) -> tuple[Obj, Obj]:
    """An example under another name, without aliases, so that each template can be changed alone."""
    group, work = example(kind)
    text = json.dumps([group, work]).replace(json.dumps(group["metadata"]["name"]), json.dumps(name))
    group, work = json.loads(text)
    return group, work


def ready(site: Site, kind: str, name: str, condition: str, seconds: int = 120) -> None:
    """Wait until the operator has given an object a condition."""
    site.kubectl("wait", f"--for=condition={condition}", f"{kind.lower()}/{name}", f"--timeout={seconds}s")


def patch(site: Site, kind: str, name: str, **spec: Any) -> None:
    """Change fields of the spec of an object."""
    site.kubectl("patch", kind.lower(), name, "--type=merge", "-p", yaml.safe_dump({"spec": spec}))


def of_job_set(site: Site) -> None:
    """It can be suspended, goes on as a gang, and completes; one that fails starts again as a whole."""
    name = waits_and_starts_whole(site, "JobSet")
    first = uids(site, name)
    patch(site, "JobSet", name, suspend=True)
    until(lambda: not pods(site, name), "no pod of a suspended set", LOADED)
    ready(site, "JobSet", name, "Suspended")
    jobs = site.get("jobset", name)["spec"]["replicatedJobs"]
    for each in jobs:
        each["template"]["spec"]["template"]["metadata"]["annotations"][RUN_TIME] = "3s"
    patch(site, "JobSet", name, suspend=False, replicatedJobs=jobs)
    until(lambda: runs(site, name, 5), "the pods of a set that goes on", LOADED)
    assert not first & uids(site, name)
    ready(site, "JobSet", name, "Completed")

    group, work = renamed("JobSet", "again")
    work["spec"]["failurePolicy"] = {"maxRestarts": 1}
    for each in work["spec"]["replicatedJobs"]:
        each["template"]["spec"]["backoffLimit"] = 0
    last = each["template"]["spec"]["template"]["metadata"]["annotations"]
    last |= {RUN_TIME: "3s", EXIT_CODE: "1"}
    site.apply(group, work)
    until(lambda: status(site, "jobset", "again", "restarts") == 1, "a restart", LOADED)
    until(lambda: runs(site, "again", 5), "the pods of a set that starts again", LOADED)
    ready(site, "JobSet", "again", "Failed")

    group, work = renamed("JobSet", "alone")  # one job on a node: the others of its pods come after its first is bound
    group["spec"]["minMember"] = 3
    work["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}
    site.apply(group, work)
    until(lambda: runs(site, "alone", 5), "the pods of jobs that have a node each", LOADED)
    nodes = [each["spec"]["nodeName"] for each in pods(site, "alone")]
    assert sorted(nodes.count(name) for name in set(nodes)) == [1, 2, 2]


def of_leader_worker_set(site: Site) -> None:
    """It is available, starts again as a whole when a pod goes, is scaled, and its template is rolled out."""
    name = waits_and_starts_whole(site, "LeaderWorkerSet")
    ready(site, "LeaderWorkerSet", name, "Available")
    first = uids(site, name)
    site.kubectl("delete", "pod", f"{name}-0-1", "--wait=false")
    until(lambda: runs(site, name, 4) and not first & uids(site, name), "another leader and other workers", LOADED)
    site.kubectl("scale", f"leaderworkerset/{name}", "--replicas=2")
    until(lambda: runs(site, name, 8), "the pods of two replicas", LOADED)
    until(lambda: status(site, "leaderworkerset", name, "readyReplicas") == 2, "two ready replicas", LOADED)
    work = site.get("leaderworkerset", name)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    work["spec"]["containers"][0]["image"] = "example.com/serve:2"
    patch(site, "LeaderWorkerSet", name, leaderWorkerTemplate={"workerTemplate": work})
    until(
        lambda: runs(site, name, 8) and images(site, name) == {"example.com/serve:2"},
        "the new image everywhere",
        LOADED,
    )
    until(lambda: status(site, "leaderworkerset", name, "updatedReplicas") == 2, "two updated replicas", LOADED)

    group, work = renamed("LeaderWorkerSet", "later")
    group["spec"]["minMember"] = 1
    work["spec"]["startupPolicy"] = "LeaderReady"
    site.apply(group, work)
    until(lambda: runs(site, "later", 4), "workers that come after their leader", LOADED)


def of_mpi_job(site: Site) -> None:
    """It can be suspended and goes on as a gang; its workers go when its launcher has ended."""
    name = waits_and_starts_whole(site, "MPIJob")
    ready(site, "MPIJob", name, "Running")
    patch(site, "MPIJob", name, runPolicy={"suspend": True})
    until(lambda: not pods(site, name), "no pod of a suspended job", LOADED)
    ready(site, "MPIJob", name, "Suspended")
    patch(site, "MPIJob", name, runPolicy={"suspend": False})
    until(lambda: runs(site, name, 5), "the pods of a job that goes on", LOADED)
    site.kubectl("delete", "mpijob", name)
    until(lambda: not pods(site, name), "no pod of a deleted job", LOADED)

    group, work = renamed("MPIJob", "done")
    group["spec"]["minMember"] = 4
    work["spec"] |= {"runPolicy": {"cleanPodPolicy": "Running"}, "launcherCreationPolicy": "WaitForWorkersReady"}
    work["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["metadata"]["annotations"][RUN_TIME] = "3s"
    site.apply(group, work)
    ready(site, "MPIJob", "done", "Succeeded")
    until(lambda: not pods(site, "done"), "no worker of a job that has succeeded", LOADED)


def of_mpi_job_with_its_group(site: Site) -> None:
    """The operator makes the group, with the minimum of the page's, and it goes with the job."""
    name = waits_and_starts_whole(site, "MPIJob", made="mpi")
    ready(site, "MPIJob", name, "Running")
    site.kubectl("delete", "mpijob", name)
    until(lambda: not site.get(GROUPS, "--field-selector", f"metadata.name={name}")["items"], "its group to go")


def of_ray_cluster(site: Site, made: str = "") -> None:
    """It is ready, can be suspended and goes on as a gang, and gets more workers."""
    name = waits_and_starts_whole(site, "RayCluster", made)
    until(lambda: status(site, "raycluster", "ray", "state") == "ready", "the cluster of Ray to be ready", LOADED)
    ready(site, "RayCluster", "ray", "RayClusterProvisioned")
    patch(site, "RayCluster", "ray", suspend=True)
    until(
        lambda: not pods(site, name) and status(site, "raycluster", "ray", "state") == "suspended",
        "no pod of a suspended cluster",
        LOADED,
    )
    patch(site, "RayCluster", "ray", suspend=False)
    until(
        lambda: runs(site, name, 4) and status(site, "raycluster", "ray", "state") == "ready",
        "the pods of a cluster that goes on",
        LOADED,
    )
    workers = site.get("raycluster", "ray")["spec"]["workerGroupSpecs"]
    workers[0] |= {"replicas": 5, "maxReplicas": 5}
    patch(site, "RayCluster", "ray", workerGroupSpecs=workers)
    until(lambda: runs(site, name, 6), "two more workers", LOADED)


def of_ray_job(site: Site) -> None:
    """Its cluster is a gang; then its job is submitted. Suspended, it gives its room back, and it goes on as a gang."""
    name = waits_and_starts_whole(site, "RayJob")

    def is_running() -> bool:
        return runs(site, name, 4) and status(site, "rayjob", name, "jobDeploymentStatus") == "Running"

    until(is_running, "the job to be submitted", LOADED)
    patch(site, "RayJob", name, suspend=True)
    until(
        lambda: not pods(site, name) and status(site, "rayjob", name, "jobDeploymentStatus") == "Suspended",
        "no pod of a suspended job",
        LOADED,
    )
    patch(site, "RayJob", name, suspend=False)
    until(is_running, "a job that goes on", LOADED)


def of_workflow(site: Site) -> None:
    """Its steps run together, and it succeeds; nothing of Argo's runs in simulated pods, so it has no outputs."""
    name = waits_and_starts_whole(site, "Workflow")
    until(lambda: status(site, "workflow", name, "phase") == "Running", "a running workflow", LOADED)
    group, work = renamed("Workflow", "done")
    work["spec"]["podMetadata"]["annotations"][RUN_TIME] = "3s"
    site.apply(group, work)
    until(lambda: status(site, "workflow", "done", "phase") == "Succeeded", "a workflow to succeed", LOADED)
    assert status(site, "workflow", "done", "progress") == "4/4"


STORIES: dict[str, tuple[str, tuple[str, ...], Callable[[Site], None]]] = {
    "JobSet": ("jobset", (), of_job_set),
    "LeaderWorkerSet": ("lws", (), of_leader_worker_set),
    "MPIJob": ("mpi-operator", (), of_mpi_job),
    "MPIJob with its group": ("mpi-operator", ("--gang-scheduling=volcano",), of_mpi_job_with_its_group),
    "Workflow": ("argo", (), of_workflow),
    "RayCluster": ("kuberay", (), of_ray_cluster),
    "RayJob": ("kuberay", (), of_ray_job),
    "RayCluster with its group": (
        "kuberay",
        ("--batch-scheduler=volcano",),
        lambda site: of_ray_cluster(site, "ray-ray-pg"),
    ),
}
"""Operator, its options, and story."""


@pytest.mark.parametrize("title", STORIES)
def test_an_example_of_the_page_is_a_gang_with_its_operator_on_a_cluster_of_ours(title: str, tmp_path: Path) -> None:
    name, options, story = STORIES[title]
    need(name)
    nodes = ("--nodes", str(NODES), "--node-cpu", str(CPUS))
    with running_up(tmp_path / "data", *nodes) as server, installed(name, Site.of(server), tmp_path / name, *options):
        story(Site.of(server))


def test_the_examples_of_the_page_are_gangs_with_their_operators_at_the_real_kubernetes(tmp_path: Path) -> None:
    here = {title: each for title, each in STORIES.items() if not lacks(each[0])}
    if not here:
        pytest.skip("none of the operators is built")
    with running_product(tmp_path) as product:
        site = Site.of(product)
        for title, (name, options, story) in here.items():
            with installed(name, site, tmp_path / title, *options):
                story(site)
                site.kubectl("delete", f"{title.partition(' ')[0].lower()},{GROUPS},pod", "--all", "--wait=false")
                until(lambda: not site.get("pods")["items"], "an empty cluster")
