"""What is made for a job is what the Go original makes: its pods, group, and the objects of its plugins.

The recorded jobs lie in the folder `shared` beside this checkout; without it every test here is skipped. What is made
goes through the API server, so that it is compared with the defaults that a server sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    POD_GROUPS,
    PODS,
    SECRETS,
    SERVICES,
    VC_JOBS,
)
from kilauea.api.ports import Create, Obj, Resource
from kilauea.controllers.vcjobs.groups import group_of
from kilauea.controllers.vcjobs.plugins import active
from kilauea.controllers.vcjobs.pods import new_pod
from support.controlled import Cluster

PLUGIN_KINDS = (CONFIG_MAPS, SERVICES, NETWORK_POLICIES, SECRETS)
KINDS = {each.kind: each for each in (PODS, POD_GROUPS, *PLUGIN_KINDS)}
UID = "<uid>"
"""How recordings show the uid of the job."""
RNG = frozenset({"id_rsa", "id_rsa.pub", "authorized_keys"})
PLACED = ("nodeName", "tolerations", "serviceAccount", "serviceAccountName")
"""What is said of pods when they are placed, or by servers of one kind and not of the other."""
CASES = """
delete-job-cascades deny-job-add-task job-completes job-default-task-names-and-min job-depends-on
job-elastic-starts-with-min job-half-fits-gang-waits job-labels-and-annotations-carried job-min-success
job-partition-policy job-priority-class job-ray job-svc-publish-no-networkpolicy job-tensorflow
job-too-big-stays-pending jobflow-sequence policy-any-event-list policy-exit-code policy-pod-evicted-restart-job
policy-pod-failed-restart-job policy-pod-failed-restart-pod policy-task-completed-complete-job
policy-task-overrides-job scale-down scale-up suspend-and-resume-by-command vcctl-jobflow vcctl-pod-podgroup
""".split()
SOME_WAIT = ("job-depends-on", "job-half-fits-gang-waits", "job-too-big-stays-pending")
"""Cases in which not all pods are made yet when they are recorded first."""


def first_look(shared: Path, name: str) -> list[Obj]:
    """All objects when they were recorded first."""
    case = json.loads((shared / "conformance" / "cluster" / f"{name}.json").read_text())
    observed: list[Obj] = next(step["observed"]["objects"] for step in case["steps"] if "observed" in step)
    return observed


def made_for(cluster: Cluster, job: dict[str, Any]) -> Iterator[Obj]:
    """All that the job needs, as the API server shows it once it is created."""
    plugins = active(job)
    yield cluster.create(POD_GROUPS, group_of(job, lambda name: 0))
    for plugin in plugins:
        for operation in plugin.objects(cluster.cache):
            assert isinstance(operation, Create)
            yield cluster.create(operation.resource, operation.body)
    for task in job["spec"]["tasks"]:
        for index in range(task["replicas"]):
            pod = new_pod(job, task, index)
            for plugin in plugins:
                plugin.on_pod(pod, task, index)
            yield cluster.create(PODS, pod)


def told(obj: Obj, uid: str) -> Any:
    """What is compared of an object: what the job decides."""
    shown: dict[str, Any] = json.loads(json.dumps(obj).replace(uid, UID))
    metadata = shown["metadata"]
    seen: dict[str, Any] = {
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "owners": [{k: v for k, v in each.items() if k != "uid"} for each in metadata.get("ownerReferences") or ()],
    }
    seen["data"] = {k: RNG & {k} or v for k, v in (shown.get("data") or {}).items()}
    spec = dict(shown.get("spec") or {})
    spec.pop("clusterIP", None), spec.pop("clusterIPs", None)
    if shown["kind"] == "Pod":
        spec = pod_told(spec)
    return seen | {"spec": spec}


def pod_told(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a pod; the order in which plugins added to it was rng."""
    shown = {k: v for k, v in spec.items() if k not in PLACED}
    shown["volumes"] = sorted(
        (each for each in spec.get("volumes") or () if not each["name"].startswith("kube-api-access")),
        key=lambda each: str(each["name"]),
    )
    shown["containers"] = [container_told(each) for each in spec["containers"]]
    return shown


def container_told(container: Mapping[str, Any]) -> dict[str, Any]:
    shown = {k: v for k, v in container.items() if not k.startswith("terminationMessage")}
    mounts = [each for each in container.get("volumeMounts") or () if "serviceaccount" not in each["mountPath"]]
    shown["volumeMounts"] = sorted(mounts, key=lambda each: str(each["name"]))
    shown["env"] = sorted(container.get("env") or (), key=lambda each: str(each["name"]))
    return shown


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_for_a_job_is_what_the_original_makes(name: str, cluster_of: Any, shared: Path) -> None:
    recorded = first_look(shared, name)
    job = next(dict(each) for each in recorded if each["kind"] == "Job" and "volcano" in each["apiVersion"])
    cluster: Cluster = cluster_of(volcano=True)
    for resource in PLUGIN_KINDS:
        cluster.cache.declare(resource)
    if job["spec"].get("priorityClassName"):
        classes = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
        cluster.create(classes, {"metadata": {"name": job["spec"]["priorityClassName"]}, "value": 1000})
    metadata = {k: v for k, v in job["metadata"].items() if k != "ownerReferences"}  # recorded without uids
    made_job = cluster.create(VC_JOBS, {"metadata": metadata, "spec": job["spec"]})
    uid = made_job["metadata"]["uid"]
    mine = f'"name": "{job["metadata"]["name"]}"'
    wanted = {
        (each["kind"], each["metadata"]["name"]): told(each, uid)
        for each in recorded
        if each["kind"] in KINDS and mine in json.dumps(each["metadata"].get("ownerReferences") or [])
    }
    made = [told(each, uid) | {"kind": each["kind"]} for each in made_for(cluster, made_job)]
    found = {(each.pop("kind"), each["name"]): each for each in made}
    if name in SOME_WAIT:
        found = {key: each for key, each in found.items() if key in wanted}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == value, key
