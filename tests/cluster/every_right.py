"""Stories that make scheduler, controllers and webhooks use every right that they have, at the real Kubernetes.

Each is a function of the product; `STORIES` lists them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import yaml

from cluster.real_product import Product, start
from cluster.up_process import until
from support.ufm_server import port, running_ufm

NAMESPACE = "volcano-system"
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: usage, arguments: {thresholds: {cpu: 80}}}
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.NodeLockEnable: true}
metrics: {type: prometheus_adaptor}
"""
SCHEDULER = ("--scheduler-sharding-mode=soft", "--scheduler-sharding-name=volcano")
CONTROLLERS = ("--controllers=*", "--shard-sync-period=1s", "--enable-node-event-trigger=true")
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  tasks:
  - name: a
    replicas: 1
    template:
      metadata: {annotations: {kilauea.dev/run-time: 1s}}
      spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""


def job(name: str, run_time: str = "1s", replicas: int = 1, cpu: int = 1, **spec: Any) -> dict[str, Any]:
    """A job of one task."""
    made: dict[str, Any] = yaml.safe_load(JOB.replace("NAME", name).replace("cpu: 1", f"cpu: {cpu}"))
    made["spec"]["tasks"][0]["replicas"] = replicas
    made["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["kilauea.dev/run-time"] = run_time
    made["spec"] |= spec
    return made


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of the scheduler named volcano."""
    container = {"name": "c", "image": "i", "resources": spec.pop("resources", {"requests": {"cpu": "1"}})}
    body = {"schedulerName": "volcano", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def apply(product: Product, *objects: Any) -> None:
    """Apply objects, or the text of some."""
    for each in objects:
        product.kubectl("apply", "-f", "-", given=each if isinstance(each, str) else json.dumps(each))


def exists(product: Product, *words: str) -> bool:
    """True if `kubectl get` finds something."""
    return bool(product.kubectl("get", *words, "--ignore-not-found", "-o", "name"))


def phase(product: Product, name: str) -> str:
    """The phase of a job."""
    return str(product.get("vcjob", name).get("status", {}).get("state", {}).get("phase"))


def node_of(product: Product, name: str) -> str:
    """The node of a pod."""
    return str(product.get("pod", name)["spec"].get("nodeName", ""))


def jobs(product: Product) -> None:
    """Jobs with plugins and volumes, scaled, suspended by a command, deleted, and cleaned up when they are finished."""
    volumes = [
        {
            "mountPath": "/data",
            "volumeClaim": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    apply(
        product,
        STORAGE,
        job("full", "1h", 2, minAvailable=1, plugins={"svc": [], "ssh": [], "env": []}, volumes=volumes),
    )
    until(lambda: phase(product, "full") == "Running", "the job to run", 90)
    product.kubectl(
        "patch",
        "vcjob",
        "full",
        "--type=json",
        "-p",
        '[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}]',
    )
    until(lambda: exists(product, "pod", "full-a-2"), "the job to grow")
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "stop"}}
    uid = product.get("vcjob", "full")["metadata"]["uid"]
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "full", "uid": uid, "controller": True}
    apply(product, {**command, "action": "AbortJob", "target": target})
    until(lambda: phase(product, "full") == "Aborted", "the job to be aborted")
    product.kubectl("delete", "vcjob", "full")
    apply(product, job("short", ttlSecondsAfterFinished=1))
    until(lambda: not exists(product, "vcjob", "short"), "the finished job to be deleted")


STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  hostPath: {path: /tmp/kilauea-disk}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: example.com/none
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: made}
spec: {accessModes: [ReadWriteOnce], storageClassName: made, resources: {requests: {storage: 1Gi}}}
"""


def volumes(product: Product) -> None:
    """A claim whose volume a driver is to make gets the node."""
    apply(product, pod("with-volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "made"}}]))
    selected = "volume.kubernetes.io/selected-node"
    until(lambda: selected in product.get("pvc", "made")["metadata"].get("annotations", {}), "the claim to have a node")
    product.kubectl("delete", "pod", "with-volume", "--now")


FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: nightly}
spec: {jobRetainPolicy: delete, flows: [{name: one}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: often}
spec:
  schedule: "@every 2s"
  successfulJobsHistoryLimit: 0
  jobTemplate: {spec: SPEC}
"""


def flows(product: Product) -> None:
    """A flow whose jobs are deleted when it has succeeded, and a cron job."""
    spec = job("one")["spec"]
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "one"}}
    apply(product, {**template, "spec": spec}, FLOW.replace("SPEC", json.dumps(spec)))
    until(lambda: "Succeed" in product.kubectl("get", "jobflow", "nightly", "-o", "yaml"), "the flow to succeed", 90)
    until(lambda: not exists(product, "vcjob", "nightly-one"), "its job to be deleted")
    until(
        lambda: "lastSuccessfulTime" in product.kubectl("get", "cronjobs.batch.volcano.sh", "often", "-o", "yaml"),
        "the cron job to have run",
        90,
    )
    product.kubectl("delete", "cronjobs.batch.volcano.sh", "often")


WEB = """
apiVersion: apps/v1
kind: KIND
metadata: {name: NAME}
spec:
  replicas: 1
  serviceName: web
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, tier: batch}}
    spec: {schedulerName: volcano, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
COLOCATION = """
apiVersion: config.volcano.sh/v1alpha1
kind: ColocationConfiguration
metadata: {name: batch}
spec: {selector: {matchLabels: {tier: batch}}, memoryQos: {highRatio: 80, lowRatio: 20, minRatio: 0}}
"""


def plain_pods(product: Product) -> None:
    """Pods of workloads get groups, which go with the last pod, and the configuration of colocation."""
    apply(
        product,
        COLOCATION,
        WEB.replace("KIND", "ReplicaSet").replace("NAME", "web").replace("  serviceName: web\n", ""),
    )
    until(
        lambda: "colocation-config-name" in product.kubectl("get", "pods", "-l", "app=web", "-o", "yaml"), "colocation"
    )
    uid = product.get("replicaset", "web")["metadata"]["uid"]
    until(lambda: exists(product, "podgroup.scheduling.volcano.sh", f"podgroup-{uid}"), "the group")
    product.kubectl("scale", "replicaset", "web", "--replicas=0")
    until(lambda: not exists(product, "podgroup.scheduling.volcano.sh", f"podgroup-{uid}"), "the group to go")


QUEUES = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: parent}
spec: {weight: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: child}
spec: {weight: 1, parent: parent}
---
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: shut, namespace: default}
action: CloseQueue
target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: parent, uid: UID, controller: true}
"""


def queues(product: Product) -> None:
    """A queue is closed by a command, and those below it with it."""
    tree, _, command = QUEUES.rpartition("---")
    apply(product, tree)
    until(lambda: product.get("queue", "child").get("status", {}).get("state") == "Open", "the queue to be open")
    apply(product, command.replace("UID", product.get("queue", "parent")["metadata"]["uid"]))
    until(lambda: product.get("queue", "child")["status"]["state"] == "Closed", "the queues to be closed")


def preemption(product: Product) -> None:
    """Pods of a higher priority take the places of others."""
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    apply(product, urgent, job("large", "1h", 3, 10, minAvailable=1))
    until(lambda: phase(product, "large") == "Running", "the large job to run")
    whole = {"requests": {"cpu": "16"}}
    apply(product, *(pod(f"urgent-{n}", priorityClassName="urgent", resources=whole) for n in range(2)))
    until(lambda: node_of(product, "urgent-0") and node_of(product, "urgent-1"), "the urgent pods to be placed", 90)
    product.kubectl("delete", "pod", "urgent-0", "urgent-1", "--now")
    product.kubectl("delete", "vcjob", "large")


DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: of-node-1}
spec:
  driver: d.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: a}, {name: b}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: wanted}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods, pods/binding]}
  validations:
  - expression: "object.kind == 'Pod' ? !object.metadata.name.startsWith('never') : object.metadata.name != 'refused'"
    message: not this one
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse}
spec: {policyName: refuse, validationActions: [Deny]}
"""


def groups_of_kubernetes(product: Product) -> None:
    """A gang of a PodGroup of scheduling.k8s.io, whose condition the scheduler writes."""
    policy = {"gang": {"minCount": 1}}
    head = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "own"}}
    apply(product, {**head, "spec": {"schedulingPolicy": policy}})
    apply(product, pod("own-0", schedulingGroup={"podGroupName": "own"}))

    def scheduled() -> bool:
        conditions = product.get("podgroups.scheduling.k8s.io", "own").get("status", {}).get("conditions") or ()
        return any(each["type"] == "PodGroupScheduled" and each["status"] == "True" for each in conditions)

    until(scheduled, "the condition of the group")


def claims(product: Product) -> None:
    """Devices by a claim and by an extended resource; the claim of a pod that cannot be bound is deleted."""
    apply(product, DEVICES)
    refused = ("create", "--dry-run=server", "-f", "-")
    until(lambda: product.ask(*refused, given=json.dumps(pod("never"))).returncode, "the policy to be in force")
    apply(product, job("never"))
    apply(product, pod("claiming", resourceClaims=[{"name": "gpu", "resourceClaimName": "wanted"}]))
    until(lambda: node_of(product, "claiming") == "node-1", "the pod with a claim to be placed")
    card = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    apply(product, pod("refused", resources=card))
    until(lambda: "not this one" in product.kubectl("get", "events", "-o", "yaml"), "the bind to be refused", 90)
    until(
        lambda: "PodsNotCreated" in product.kubectl("get", "podgroups.scheduling.volcano.sh", "-o", "yaml"),
        "the group to say so",
    )
    product.kubectl("delete", "validatingadmissionpolicybinding", "refuse")
    until(lambda: node_of(product, "refused") == "node-1", "the pod to be placed after all", 90)
    product.kubectl("delete", "pod", "refused", "--now")


def cards(product: Product) -> None:
    """A card that pods share; its node is locked for the bind."""
    register = "volcano.sh/node-vgpu-register=card-0,4,100,NVIDIA-A100,true,hami-core:"
    product.kubectl("annotate", "node", "node-2", register)
    offer = dict.fromkeys(("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"), "100")
    patch = {"status": {"capacity": offer, "allocatable": offer}}
    product.kubectl("patch", "node", "node-2", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10"}
    apply(product, pod("sharing", resources={"requests": limits, "limits": limits}))
    until(lambda: node_of(product, "sharing") == "node-2", "the pod to be placed")
    product.kubectl("delete", "pod", "sharing", "--now")


def topology(product: Product) -> None:
    """HyperNodes by labels and by UFM; the Numatopology of a node goes with it."""
    with running_ufm() as ufm:
        ufm.answer = [port("node-1", "leaf-1"), port("node-2", "leaf-1")]
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ufm", "namespace": NAMESPACE}}
        data = {"username": "u", "password": "p", "ca.crt": ufm.authority}
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        labels = {
            "networkTopologyTypes": {
                "rack": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
            }
        }
        sources = [
            {"source": "label", "enabled": True, "config": labels},
            {
                "source": "ufm",
                "enabled": True,
                "interval": "10m",
                "config": {"endpoint": ufm.url},
                "credentials": {"secretRef": {"name": "ufm", "namespace": NAMESPACE}},
            },
        ]
        text = yaml.safe_dump({"networkTopologyDiscovery": sources})
        place = {"name": "volcano-controller-configmap", "namespace": NAMESPACE}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"volcano-controller.conf": text}}
        for number in (1, 2, 3):
            product.kubectl("label", "node", f"node-{number}", f"example.com/rack=r{number % 2}")
        apply(product, {**secret, "data": encoded}, config)
        made = "volcano.sh/network-topology-source"
        until(lambda: exists(product, "hypernodes", "-l", f"{made}=ufm"), "HyperNodes of UFM")
        until(lambda: exists(product, "hypernodes", "-l", f"{made}=label"), "HyperNodes of labels")
    product.kubectl("label", "node", "node-3", "example.com/rack-", "--overwrite")
    product.kubectl("label", "node", "node-1", "example.com/rack=r0", "--overwrite")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "passing"}}
    numa = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology", "metadata": {"name": "passing"}}
    apply(product, node, {**numa, "spec": {}})
    until(lambda: exists(product, "numatopology", "passing"), "the Numatopology")
    product.kubectl("delete", "node", "passing")
    until(lambda: not exists(product, "numatopology", "passing"), "the Numatopology to go")


SHARING = """
schedulerConfigs:
- {name: volcano, policies: [{name: node-limit, arguments: {maxNodes: 2}}]}
shardSyncPeriod: 1s
"""


def shards(product: Product) -> None:
    """Nodes are shared out among schedulers, and shares that are no longer wished go."""
    until(lambda: exists(product, "nodeshard", "volcano"), "the shard")
    until(
        lambda: "nodesInUse" in product.kubectl("get", "nodeshard", "volcano", "-o", "yaml"), "the status of the shard"
    )
    place = {"name": "volcano-sharding-configmap", "namespace": NAMESPACE}
    data = {"sharding.yaml": SHARING}
    apply(product, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": data})
    until(lambda: not exists(product, "nodeshard", "agent-scheduler"), "the other shard to go")


def webhooks(product: Product) -> None:
    """A certificate that is lost is made again; webhooks that are off are deleted, and changed ones mended."""
    product.processes["webhooks"].terminate()
    product.processes["webhooks"].wait(60)
    drop = '{"data": {"tls.crt": null}}'
    product.kubectl("patch", "secret", "-n", NAMESPACE, "volcano-admission-secret", "--type=merge", "-p", drop)
    name = "volcano-admission-service-queues-mutate"
    product.kubectl(
        "patch",
        "mutatingwebhookconfiguration",
        name,
        "--type=json",
        "-p",
        '[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3}]',
    )
    start(product, "webhooks", "--enabled-admission=/queues/mutate,/queues/validate,/jobs/mutate,/jobs/validate")
    until(
        lambda: not exists(product, "validatingwebhookconfiguration", "volcano-admission-service-pods-validate"), "less"
    )
    until(lambda: not exists(product, "mutatingwebhookconfiguration", "volcano-admission-service-pods-mutate"), "less")
    until(lambda: product.get("mutatingwebhookconfiguration", name)["webhooks"][0]["timeoutSeconds"] == 10, "the mend")


STORIES: tuple[Callable[[Product], None], ...] = (
    *(
        jobs,
        volumes,
        flows,
        plain_pods,
        queues,
        preemption,
        groups_of_kubernetes,
        claims,
        cards,
        topology,
        shards,
        webhooks,
    ),
)
