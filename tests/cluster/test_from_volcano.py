"""An installed Volcano with running jobs is taken over at the real Kubernetes, and given back, by Helm and by kubectl.

The chart `original` stands for Volcano: its objects have the names, selectors, containers and volumes that matter. Its
programs do not run here; what they leave in the cluster is written by hand.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme

from charts import sources
from cluster.deployed import CHART, COMPONENTS, NAMESPACE, ROOT, Obj, Site, real_site, submitted_job
from cluster.up_process import until

ORIGINAL = Path(__file__).parent / "original"
CONFIGURATION = ("configmap", "volcano-scheduler-configmap", "-n", NAMESPACE)
OWN = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: binpack
    arguments: {binpack.weight: 7}
"""
"""What the people of this cluster wrote into the ConfigMap with `kubectl edit`."""
PODGROUP = "podgroup.scheduling.volcano.sh"
KINDS = "customresourcedefinitions,queues,jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh,pods"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with real_site(tmp_path) as running:
        yield running


def running_job(name: str, size: int, queue: str) -> tuple[Obj, Obj, list[Obj]]:
    """A job, its pod group and its pods as Volcano leaves them once the job runs."""
    job = submitted_job(name, size, queue=queue, schedulerName="volcano", maxRetry=3)
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"{name}-", "namespace": "default"},
        "spec": {"minMember": size, "minTaskMember": {"a": size}, "queue": queue, "minResources": {"cpu": str(size)}},
    }
    pods = []
    for index in range(size):
        labels = {
            "volcano.sh/job-name": name,
            "volcano.sh/job-namespace": "default",
            "volcano.sh/queue-name": queue,
            "volcano.sh/task-spec": "a",
            "volcano.sh/task-index": str(index),
        }
        notes = {
            "volcano.sh/job-name": name,
            "volcano.sh/job-version": "0",
            "volcano.sh/queue-name": queue,
            "volcano.sh/task-spec": "a",
            "volcano.sh/task-index": str(index),
            "volcano.sh/template-uid": f"{name}-a",
            "volcano.sh/job-retry-count": "0",
        }
        template = job["spec"]["tasks"][0]["template"]["spec"]
        spec = {**template, "schedulerName": "volcano", "nodeName": f"node-{index % 3 + 1}"}
        metadata = {"name": f"{name}-a-{index}", "namespace": "default", "labels": labels, "annotations": notes}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return job, group, pods


def leave_running(site: Site, name: str, size: int, queue: str = "default") -> None:
    """Create what Volcano leaves of a running job."""
    job, group, pods = running_job(name, size, queue)
    site.apply(job)
    uid = site.get("vcjob", name)["metadata"]["uid"]
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": name, "uid": uid}
    owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    group["metadata"] |= {"name": f"{name}-{uid}", "ownerReferences": owners}
    for pod in pods:
        pod["metadata"]["ownerReferences"] = owners
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = group["metadata"]["name"]
    site.apply(group, *pods)
    counts = {"minAvailable": size, "running": size, "version": 0}
    state = {"state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}, **counts}
    write_status(site, "vcjob", name, state)
    write_status(site, PODGROUP, group["metadata"]["name"], {"phase": "Running", "running": size})


def write_status(site: Site, kind: str, name: str, status: Obj) -> None:
    """Write a status; that of a pod group is a field like others."""
    part = [] if kind == PODGROUP else ["--subresource=status"]
    site.kubectl("patch", kind, name, *part, "--type=merge", "-p", json.dumps({"status": status}))


def populate(site: Site) -> None:
    """What a cluster has where Volcano has worked: its certificate, queues, and running jobs."""
    for name, spec in (("root", {"weight": 1}), ("default", {"weight": 1}), ("team", {"weight": 3})):
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        site.apply({**head, "metadata": {"name": name}, "spec": {"reclaimable": True, **spec}})
        write_status(site, "queue", name, {"state": "Open"})
    authority = trustme.CA()
    service = f"volcano-admission-service.{NAMESPACE}.svc"
    issued = authority.issue_cert(service, service.removesuffix(".svc"), "volcano-admission-service")
    parts = {"ca.crt": authority.cert_pem, "tls.crt": issued.cert_chain_pems[0], "tls.key": issued.private_key_pem}
    data = {name: base64.b64encode(part.bytes()).decode() for name, part in parts.items()}
    about = {"name": "volcano-admission-secret", "namespace": NAMESPACE}
    site.apply({"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data})
    leave_running(site, "short", 2)
    leave_running(site, "long", 3, "team")
    until(lambda: phases(site) == ["Running"] * 5, "the pods to run")


def phases(site: Site) -> list[str]:
    """The phases of the pods of jobs."""
    return [each["status"]["phase"] for each in site.get("pods")["items"]]


def uids(site: Site) -> dict[str, str]:
    """The uid of everything that an upgrade must keep; a job that completes loses its pod group."""
    found = {f"{each['kind']} {each['metadata']['name']}": each["metadata"]["uid"] for each in site.get(KINDS)["items"]}
    return {name: uid for name, uid in found.items() if not name.startswith("PodGroup short-")}


def containers(site: Site) -> dict[str, Any]:
    """What each Deployment runs, and how many of it."""
    found = site.get("deployments", "-n", NAMESPACE)["items"]
    fields = ("image", "command", "args")
    each = {one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"] for one in found}
    counts = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}
    return {
        f"{counts[name]} {name}": [[one.get(field) for field in fields] for one in given]
        for name, given in each.items()
    }


def test_helm_takes_over_a_volcano_with_running_jobs_and_gives_it_back(site: Site, tmp_path: Path) -> None:
    release = ("volcano", "--namespace", NAMESPACE)
    site.helm("install", *release, str(ORIGINAL), "--create-namespace", "--set", "webhooks=false")
    populate(site)
    site.helm("upgrade", *release, str(ORIGINAL))
    site.kubectl("patch", *CONFIGURATION, "--type=merge", "-p", json.dumps({"data": {"volcano-scheduler.conf": OWN}}))
    originals, before = containers(site), uids(site)
    secret = site.get("secret", "volcano-admission-secret", "-n", NAMESPACE)["data"]

    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(site.get(*CONFIGURATION)["data"][conf.name])
    site.kubectl("scale", "deployment", *COMPONENTS, "--replicas=0", "-n", NAMESPACE)
    site.helm("upgrade", *release, str(CHART), "--set-file", f"custom.scheduler_config_override={conf}")
    assert site.get(*CONFIGURATION)["data"][conf.name].strip() == OWN.strip()
    assert_ours(site)
    site.start_all()
    assert_works(site, before)
    assert site.get("secret", "volcano-admission-secret", "-n", NAMESPACE)["data"] == secret

    for each in COMPONENTS:
        site.stop(f"{each}-0")
    after = uids(site)
    site.kubectl("scale", "deployment", *COMPONENTS, "--replicas=0", "-n", NAMESPACE)
    site.helm("rollback", *release, "2")
    assert containers(site) == originals
    assert uids(site) == after
    assert {key: value for key, value in after.items() if key in before} == before
    assert site.get("vcjob", "long")["status"]["state"]["phase"] == "Running"
    assert site.get("secret", "volcano-admission-secret", "-n", NAMESPACE)["data"] == secret


def assert_works(site: Site, before: dict[str, str]) -> None:
    """Kilauea goes on with the jobs that Volcano started, and starts new ones beside them."""
    # 48 cpus less the five of running jobs: 40 fit, and 10 more do not.
    site.apply(submitted_job("new", 40, queue="team"))
    site.wait_for("new", "Running")
    site.apply(submitted_job("more", 10))
    for index in (0, 1):
        patch = json.dumps({"status": {"phase": "Succeeded"}})
        site.kubectl("patch", "pod", f"short-a-{index}", "--subresource=status", "--type=merge", "-p", patch)
    site.wait_for("short", "Completed")
    assert site.get("vcjob", "long")["status"]["state"]["phase"] == "Running"
    assert site.get("vcjob", "more")["status"]["state"]["phase"] == "Pending"
    after = uids(site)
    assert {key: after.get(key) for key in before} == before


def test_kubectl_takes_over_a_volcano_and_gives_it_back(site: Site) -> None:
    original = original_manifest(site, "--set", "webhooks=true")
    site.kubectl("create", "namespace", NAMESPACE)
    apply_file(site, original)
    site.kubectl("patch", *CONFIGURATION, "--type=merge", "-p", json.dumps({"data": {"volcano-scheduler.conf": OWN}}))
    originals, definitions = containers(site), uids(site)
    site.kubectl("scale", "deployment", *COMPONENTS, "--replicas=0", "-n", NAMESPACE)
    install = str(ROOT / "deploy/install.yaml")
    site.kubectl("apply", "-f", install, "-l", "kilauea.dev/part!=configuration")
    assert site.get(*CONFIGURATION)["data"]["volcano-scheduler.conf"] == OWN
    assert_ours(site)
    apply_file(site, original)
    assert containers(site) == originals
    assert uids(site) == definitions


def assert_ours(site: Site) -> None:
    """Each Deployment has one pod with one container, and that is ours."""
    found = containers(site)
    assert found.keys() == {f"1 {name}" for name in COMPONENTS}
    assert [[command[0] for _, command, _ in given] for given in found.values()] == [["kilauea"]] * 3


def original_manifest(site: Site, *words: str) -> Path:
    """The objects of Volcano as a file."""
    text = site.run(sources.helm(), "template", "volcano", str(ORIGINAL), "--namespace", NAMESPACE, *words).stdout
    path = site.folder / "volcano.yaml"
    path.write_text(text)
    return path


def apply_file(site: Site, path: Path, words: Sequence[str] = ()) -> None:
    """Apply a file with kubectl."""
    site.kubectl("apply", "-f", str(path), *words)
