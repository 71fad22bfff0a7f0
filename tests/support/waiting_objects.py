"""Nodes, queues, jobs and volumes of clusters in which a job waits, as documents that a user would write."""

from __future__ import annotations

import copy
from typing import Any

Doc = dict[str, Any]
GPU = "amd.com/gpu"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
GROUP_NAME = "scheduling.k8s.io/group-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def node(name: str, cpu: int = 8, gpu: int = 8, cordoned: bool = False, taint: str = "", **labels: str) -> Doc:
    key, _, value = taint.partition("=")
    taints = [CORDON] * cordoned + [{"key": key, "value": value, "effect": "NoSchedule"}] * bool(taint)
    offer = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} | ({GPU: str(gpu)} if gpu else {})
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    spec = {"unschedulable": cordoned, "taints": taints}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": {"allocatable": offer}}


def nodes(count: int = 4, **each: Any) -> list[Doc]:
    return [node(f"n{i}", **each) for i in range(count)]


def of_size(made: list[Doc], **offer: str) -> list[Doc]:
    """The nodes with other amounts of some resources."""
    for each in made:
        each["status"]["allocatable"].update(offer)
    return made


def job(
    replicas: int = 2, minimum: int = 2, cpu: int | str = 1, gpu: int = 0, pod: Doc | None = None, **spec: Any
) -> Doc:
    requests = {"cpu": str(cpu)} | ({GPU: str(gpu)} if gpu else {})
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests}}
    if gpu:
        container["resources"] = {"requests": requests, "limits": {GPU: str(gpu)}}
    template = {"spec": {"containers": [container], **(pod or {})}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec = {"schedulerName": "volcano", "queue": "default", "minAvailable": minimum, "tasks": tasks, **spec}
    meta = {"name": "j", "namespace": "default"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def running(name: str, cpu: int, at: str, queue: str = "default", gpu: int = 0) -> list[Doc]:
    meta = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    requests = {"cpu": str(cpu)} | ({GPU: str(gpu)} if gpu else {})
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests}}
    return [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {"minMember": 1, "queue": queue},
            "status": {"phase": "Running"},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "uid": name, "annotations": {GROUP_NAME: name}},
            "spec": {"schedulerName": "volcano", "nodeName": at, "containers": [container]},
            "status": {"phase": "Running"},
        },
    ]


def waiting(count: int, pod: Doc | None = None, **spec: Any) -> list[Doc]:
    """A pod group `j` and its pods."""
    docs = running("j", 1, "")[:1]
    docs[0]["spec"] |= {"minMember": count, **spec}
    docs[0]["status"] = {"phase": "Pending"}
    for number in range(count):
        _, made = running("j", 1, "")
        made["metadata"] |= {"name": f"j-{number}", "uid": f"j-{number}"}
        made["spec"] |= pod or {}
        del made["spec"]["nodeName"]
        made["status"] = {"phase": "Pending"}
        docs.append(made)
    return docs


def too_large(name: str, queue: str) -> list[Doc]:
    """A pod group whose pod is larger than any node."""
    docs = running(name, 9, "", queue)
    docs[0]["status"] = docs[1]["status"] = {"phase": "Pending"}
    del docs[1]["spec"]["nodeName"]
    return docs


def whole_nodes(count: int, **spec: Any) -> list[Doc]:
    """A pod group `j` whose pods ask for all cpus of a node each."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    return waiting(count, {"containers": [container]}, **spec)


def queue(name: str, state: str = "Open", **spec: Any) -> Doc:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
        "status": {"state": state},
    }


def paused(queue: Doc) -> Doc:
    """The queue, which an administrator has paused."""
    queue["metadata"]["annotations"] = {"kilauea.dev/paused": "true"}
    return queue


def switch(name: str, tier: int, *members: str) -> Doc:
    kind = "Node" if tier == 1 else "HyperNode"
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": listed}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


SWITCHES = [switch("s0", 1, "n0", "n1"), switch("s1", 1, "n2", "n3"), switch("s2", 2, "s0", "s1")]


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "rq", "namespace": "default"},
    "spec": {"hard": {"cpu": "2"}},
    "status": {"hard": {"cpu": "2"}, "used": {"cpu": "0"}},
}


def in_a_row(of: Doc) -> Doc:
    """The job with a second task that depends on the first."""
    first = of["spec"]["tasks"][0]
    of["spec"]["tasks"].append({**copy.deepcopy(first), "name": "late", "dependsOn": {"name": [first["name"]]}})
    return of


CLAIMING = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def claim(**spec: Any) -> Doc:
    size = {"requests": {"storage": "1Gi"}}
    body = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "", **spec}
    phase = "Bound" if spec.get("volumeName") else "Pending"
    meta: Doc = {"name": "data", "namespace": "default", "uid": "data"}
    if phase == "Bound":
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": meta, "spec": body, "status": {"phase": phase}}


def volume(name: str, zone: str = "") -> Doc:
    ref = {"namespace": "default", "name": "data", "uid": "data"}
    spec: Doc = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": ref}
    if zone:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
    return {**kind, "metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}}


def storage_class(name: str) -> Doc:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    made = {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    return {**kind, "metadata": {"name": name}, **made}


def in_zone(zone: str) -> Doc:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def suspended() -> Doc:
    return {**job(), "status": {"state": {"phase": "Aborted"}}}


def web(kind: str, **spec: Any) -> Doc:
    """A workload `web` of Kubernetes with a pod that no node can take."""
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "99"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "volcano", "containers": [container]}}
    body = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


def one_by_one(replicas: int, minimum: int) -> Doc:
    """A StatefulSet `j` that creates a pod when the one before is ready, with a group minimum."""
    doc = web("StatefulSet", replicas=replicas, serviceName="j")
    doc["metadata"] = {**doc["metadata"], "name": "j", "annotations": {MIN_MEMBER: str(minimum)}}
    doc["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    return doc


def beside(key: str, **terms: Any) -> Doc:
    """Affinity of a kind (`podAffinity`, `podAntiAffinity`) that is required, host by host."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": terms}}
    return {"affinity": {key: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread_by_host() -> Doc:
    term = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**term, "labelSelector": {"matchLabels": {"volcano.sh/job-name": "j"}}}]}


def not_ready(of: Doc) -> Doc:
    """The node after its kubelet fell silent."""
    key = "node.kubernetes.io/not-ready"
    of["spec"]["taints"] = [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    of["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return of


def asking(requests: Doc, **more: Any) -> Doc:
    """A pod with one container that asks for this."""
    return {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": requests}, **more}]}


def named(of: Doc, name: str, day: int = 1) -> Doc:
    """The object under another name, made on a day of January."""
    made = f"2026-01-{day:02}T00:00:00Z"
    return {**of, "metadata": {**of["metadata"], "name": name, "creationTimestamp": made}}


def quota(hard: Doc) -> Doc:
    """A ResourceQuota of the namespace."""
    return {**QUOTA, "spec": {"hard": hard}, "status": None}


def batch_job(**spec: Any) -> Doc:
    """A Job `web` of Kubernetes with a pod that no node can take."""
    template = web("Job")["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def cron_job(**spec: Any) -> Doc:
    """A CronJob `web` of Kubernetes that made no job yet."""
    body = {"schedule": "0 3 * * *", "jobTemplate": {"spec": batch_job()["spec"]}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web"}, "spec": body}


def alone(queue: str, owner: str = "") -> Doc:
    """A pod `p`, of a workload `web` if its kind is given, that names a queue and has no pod group yet."""
    meta: Doc = {"name": "p", "namespace": "default", "annotations": {"scheduling.volcano.sh/queue-name": queue}}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u", "controller": True}
        ]
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "nginx"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def elsewhere(of: Doc) -> Doc:
    """The workload, with pods for a scheduler that is not served."""
    of["spec"]["template"]["spec"]["schedulerName"] = "bogus"
    return of
