"""Kinds of waiting: `kilauea explain` names the cause with its numbers, and its fix, applied, starts the job.

A case is a cluster with one job (or pod group) that waits, as a user would write it. The fix is done to the documents
as a user would do it, and `kilauea plan` has to start the pods then.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kilauea.api.quantity import amount, format_amount
from kilauea.cli.main import main

Doc = dict[str, Any]
GPU = "amd.com/gpu"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
GROUP_NAME = "scheduling.k8s.io/group-name"


# --- objects


def node(name: str, cpu: int = 8, gpu: int = 8, cordoned: bool = False, taint: str = "", **labels: str) -> Doc:
    key, _, value = taint.partition("=")
    taints = [CORDON] * cordoned + [{"key": key, "value": value, "effect": "NoSchedule"}] * bool(taint)
    offer = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} | ({GPU: str(gpu)} if gpu else {})
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    spec = {"unschedulable": cordoned, "taints": taints}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": {"allocatable": offer}}


def nodes(count: int = 4, **each: Any) -> list[Doc]:
    return [node(f"n{i}", **each) for i in range(count)]


def job(replicas: int = 2, minimum: int = 2, cpu: int = 1, gpu: int = 0, pod: Doc | None = None, **spec: Any) -> Doc:
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


def queue(name: str, state: str = "Open", **spec: Any) -> Doc:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
        "status": {"state": state},
    }


def switch(name: str, tier: int, *members: str) -> Doc:
    kind = "Node" if tier == 1 else "HyperNode"
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": listed}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


SWITCHES = [switch("s0", 1, "n0", "n1"), switch("s1", 1, "n2", "n3"), switch("s2", 2, "s0", "s1")]


# --- fixes, as a user would do them


def the(docs: list[Doc], kind: str, name: str) -> Doc:
    return next(d for d in docs if d["kind"] == kind and d["metadata"]["name"] == name.rpartition("/")[2])


def templates(docs: list[Doc]) -> list[Doc]:
    return [task["template"]["spec"] for task in the(docs, "Job", "j")["spec"]["tasks"]]


def more(limits: Doc, resource: str, by: str) -> None:
    limits[resource] = format_amount(resource, amount(resource, limits[resource]) + amount(resource, by))


def fix(docs: list[Doc], change: Doc) -> None:
    """Do what the change says."""
    what, name, by = change["what"], change["object"], change["by"]
    if what == "queue":
        docs[:] = [d for d in docs if (d["kind"], d["metadata"]["name"]) != ("Queue", name)] + [queue(name)]
    elif what == "quota":
        more(the(docs, "Queue", name)["spec"]["capability"], change["resource"], by)
    elif what == "weight":
        the(docs, "Queue", name)["spec"]["weight"] += int(by)
    elif what == "namespaceQuota":
        quota = the(docs, "ResourceQuota", name)
        for part in (quota["spec"], quota.get("status") or {}):
            if "hard" in part:
                more(part["hard"], change["resource"], by)
    elif what == "scheduler":
        the(docs, "Job", "j")["spec"]["schedulerName"] = "volcano"
    elif what == "priorityClass":
        docs.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 5}
        )
    elif what == "gates":
        for template in templates(docs):
            template.pop("schedulingGates", None)
    elif what == "uncordon":
        for each in name.split(", "):
            the(docs, "Node", each)["spec"] = {}
    elif what == "taint":
        key, _, value = name.rpartition(":")[0].partition("=")
        for template in templates(docs):
            template["tolerations"] = [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}]
    elif what == "selector":
        for template in templates(docs):
            del template["nodeSelector"][name.partition("=")[0]]
    elif what == "affinity":
        for template in templates(docs):
            del template["affinity"]
    elif what == "tier":
        the(docs, "Job", "j")["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": change["to"]}
    elif what == "minAvailable":
        the(docs, "Job", name)["spec"]["minAvailable"] = change["to"]
    elif what == "job":
        docs[:] = [d for d in docs if d["metadata"]["name"] != name.rpartition("/")[2]]
    elif what == "nodes":
        docs += [twin(the(docs, "Node", name), f"new-{i}") for i in range(int(by))]
    elif what == "node":
        new = twin(the(docs, "Node", name), "new")
        new["status"]["allocatable"][change["resource"]] = by
        docs.append(new)
    else:
        pytest.fail(f"nobody knows how to {what}")


def twin(like: Doc, name: str) -> Doc:
    new: Doc = copy.deepcopy(like)
    new["metadata"]["name"] = new["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return new


# --- cases


@dataclass(frozen=True)
class Case:
    """A cluster and what is to be said of its job `j`: code of the first reason, parts of the text, kind of the fix."""

    name: str
    docs: list[Doc]
    code: str
    said: tuple[str, ...]
    what: str = ""
    mend: Callable[[list[Doc]], None] | None = None
    """A fix that is said in words alone."""
    conf: str = ""
    subject: str = "job j"
    starts: int = 1
    """Pods of the job that start at least, once it is fixed."""


def tiers(actions: str, *plugins: str) -> str:
    listed = "".join(f"  - name: {plugin}\n" for plugin in plugins)
    return f"actions: {actions!r}\ntiers:\n- plugins:\n{listed}"


PLACE = "enqueue, allocate, backfill"
PLAIN = tiers("allocate", "priority", "gang", "predicates", "nodeorder")
PROPORTION = tiers("allocate", "priority", "gang", "predicates", "proportion", "nodeorder")
CAPACITY = tiers("allocate", "priority", "gang", "predicates", "capacity", "nodeorder")
RECLAIM = tiers("enqueue, allocate, reclaim", "priority", "gang", "conformance", "predicates", "proportion")
RESOURCEQUOTA = tiers(PLACE, "priority", "gang", "predicates", "resourcequota", "proportion")
AB = [queue("a"), queue("b")]
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


def shrink(of: Doc) -> None:
    """What the message about such a job says."""
    of["spec"]["minAvailable"] = 1
    of["spec"]["tasks"][1]["minAvailable"] = 0


CLAIMING = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def claim(**spec: Any) -> Doc:
    size = {"requests": {"storage": "1Gi"}}
    body = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "", **spec}
    phase = "Bound" if spec.get("volumeName") else "Pending"
    meta = {"name": "data", "namespace": "default", "uid": "data"}
    if phase == "Bound":
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": meta, "spec": body, "status": {"phase": phase}}


def volume(name: str) -> Doc:
    ref = {"namespace": "default", "name": "data", "uid": "data"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": ref}
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


TIER_1 = {"mode": "hard", "highestTierAllowed": 1}
IN_USE = [*running("u0", 8, "n0"), *running("u1", 4, "n1")]
CASES = [
    Case(
        "a gang that asks for more than all nodes have free",
        [*nodes(), *IN_USE, job(10, 10, cpu=7)],
        "ClusterOvercommitted",
        ("requested 70", "available 26.4", "lower minAvailable of job default/j by 8, to 2"),
        "minAvailable",
        starts=2,
    ),
    Case(
        "all nodes are cordoned",
        [*nodes(cordoned=True), job()],
        "Unschedulable",
        ("4 node(s) were unschedulable; cordoned: n0, n1, n2 and 1 more", "uncordon node n0."),
        "uncordon",
        starts=2,
    ),
    Case(
        "two nodes have to be uncordoned",
        [*nodes(cordoned=True), job(2, 2, cpu=7)],
        "Unschedulable",
        ("4 node(s) were unschedulable", "uncordon nodes n0, n1."),
        "uncordon",
        starts=2,
    ),
    Case(
        "all nodes have a taint",
        [*nodes(taint="dedicated=ml"), job()],
        "Unschedulable",
        (
            "not tolerated: dedicated=ml:NoSchedule (4 nodes)",
            "tolerate the taint dedicated=ml:NoSchedule in its pods, or remove it from nodes (4 have it)",
        ),
        "taint",
        starts=2,
    ),
    Case(
        "free room is in pieces that are too small",
        [*nodes(2), *running("u0", 5, "n0"), *running("u1", 5, "n1"), job(1, 1, cpu=5)],
        "Unschedulable",
        ("2 Insufficient cpu", "requested 5 cpu, available 3 cpu", "take away the job default/u0"),
        "job",
    ),
    Case(
        "no node has the resource",
        [*nodes(gpu=0), job(1, 1, gpu=1)],
        "Unschedulable",
        ("no node has amd.com/gpu", "requested 1 amd.com/gpu, available 0 amd.com/gpu", "with 1 amd.com/gpu"),
        "node",
    ),
    Case(
        "no node has the resource, and the queue deserves none",
        [*nodes(gpu=0), queue("q"), job(1, 1, gpu=1, queue="q")],
        "Unschedulable",
        ("no node has amd.com/gpu", "add a node like n0, with 1 amd.com/gpu"),
        "node",
        conf=PROPORTION,
    ),
    Case(
        "a pod is larger than any node, and than what its queue may use",
        [*nodes(), queue("q", capability={"cpu": "16"}), job(1, 1, cpu=9, queue="q")],
        "Unschedulable",
        ("the largest node has 8 cpu", "requested 9 cpu, available 8 cpu", "add a node like n0, with 9 cpu"),
        "node",
        conf=CAPACITY,
    ),
    Case(
        "a card is on nodes with a taint alone, and the cluster is full for the queue",
        [node("n0", gpu=0), node("n1", taint="gpu=only"), job(1, 1, gpu=1)],
        "Unschedulable",
        ("1 Insufficient amd.com/gpu", "tolerate the taint gpu=only:NoSchedule"),
        "taint",
    ),
    Case(
        "no node has the label",
        [*nodes(disk="hdd"), job(1, 1, pod={"nodeSelector": {"disk": "ssd"}})],
        "Unschedulable",
        ("no node has disk=ssd", "remove disk=ssd from the nodeSelector of its pods, or give nodes that label"),
        "selector",
    ),
    Case(
        "no node is of the zone that the pods require",
        [*nodes(zone="a"), job(1, 1, pod={"affinity": in_zone("b")})],
        "Unschedulable",
        ("nodes with zone In b", "remove the required node affinity"),
        "affinity",
    ),
    Case(
        "a claim that does not exist",
        [*nodes(), job(1, 1, pod=CLAIMING)],
        "VolumesNotReady",
        ('persistentvolumeclaim "data" not found',),
        mend=lambda docs: docs.extend([claim(volumeName="disk"), volume("disk")]),
    ),
    Case(
        "a claim whose storage class does not exist",
        [*nodes(), claim(storageClassName="fast"), job(1, 1, pod=CLAIMING)],
        "VolumesNotReady",
        ("pod has unbound immediate PersistentVolumeClaims", 'data names StorageClass "fast", which does not exist'),
        mend=lambda docs: docs.append(storage_class("fast")),
    ),
    Case(
        "a claim that waits for its volume",
        [*nodes(), claim(), job(1, 1, pod=CLAIMING)],
        "VolumesNotReady",
        ("data names no StorageClass and has no volume",),
        mend=lambda docs: docs.extend([claim(volumeName="disk"), volume("disk")]),
    ),
    Case(
        "a scheduling gate",
        [*nodes(), job(1, 1, pod={"schedulingGates": [{"name": "example.com/quota"}]})],
        "SchedulingGated",
        ("example.com/quota", "remove the scheduling gate example.com/quota from 1 pod"),
        "gates",
    ),
    Case(
        "hard topology: no domain of the tier has the room",
        [*nodes(), *SWITCHES, job(3, 3, cpu=7, networkTopology=TIER_1)],
        "Unschedulable",
        (
            "no HyperNode of tier 1 or below has room for its 3 pods of 7 cpu together: s0 has the most, for 2",
            "set highestTierAllowed of default/j-default-j to 2",
        ),
        "tier",
        starts=3,
    ),
    Case(
        "hard topology: a domain has the room in sum, and not for whole pods",
        [*nodes(), *SWITCHES, *running("u0", 4, "n0"), job(3, 3, cpu=5, networkTopology=TIER_1)],
        "Unschedulable",
        ("no HyperNode of tier 1 or below has room for its 3 pods of 5 cpu together: s1 has the most, for 2",),
        "tier",
        starts=3,
    ),
    Case(
        "hard topology: no tier has the name",
        [*nodes(), *SWITCHES, job(2, 2, networkTopology={"mode": "hard", "highestTierName": "rack"})],
        "NoSuchTier",
        ("names tier 'rack'", "set highestTierAllowed of default/j-default-j to 1"),
        "tier",
        starts=2,
    ),
    Case(
        "a capability",
        [*nodes(), queue("q", capability={"cpu": "3"}), job(2, 2, cpu=2, queue="q")],
        "QueueQuotaInsufficient",
        ("requested 4 cpu, available 3 cpu", "raise the capability of queue q by 1 cpu"),
        "quota",
        starts=2,
    ),
    Case(
        "an uncordoned node would do, and another queue borrows",
        [node("n0"), node("n1", cordoned=True), *running("u0", 8, "n0", queue="b"), *AB, job(1, 1, queue="a")],
        "Unschedulable",
        ("1 node(s) were unschedulable", "uncordon node n1."),
        "uncordon",
        conf=RECLAIM,
    ),
    Case(
        "more nodes of the kind there is",
        [node("n0"), *running("u0", 8, "n0", queue="b"), *AB, job(2, 2, cpu=8, queue="a"), *running("u1", 0, "n0")],
        "Unschedulable",
        ("add 2 nodes like n0",),
        "nodes",
        conf=PLAIN,
        starts=2,
    ),
    Case(
        "a quota of the namespace refuses the pods",
        [*nodes(), QUOTA, job(3, 3)],
        "PodsNotCreated",
        (
            'pods "j-w-2" is forbidden: exceeded quota: rq, requested: cpu=1, used: cpu=2, limited: cpu=2',
            "raise ResourceQuota default/rq by 1 cpu",
        ),
        "namespaceQuota",
        starts=3,
    ),
    Case(
        "a quota of the namespace that pods use up",
        [*nodes(), {**QUOTA, "status": None}, *running("u0", 2, "n0"), job(3, 3)],
        "PodsNotCreated",
        ("used: cpu=2", "raise ResourceQuota default/rq by 3 cpu"),
        "namespaceQuota",
        starts=3,
    ),
    Case(
        "the priority class does not exist",
        [*nodes(), job(3, 3, priorityClassName="nope")],
        "PodsNotCreated",
        ("no PriorityClass with name nope was found", "create PriorityClass nope, or correct priorityClassName"),
        "priorityClass",
        starts=3,
    ),
    Case(
        "no scheduler has the name",
        [*nodes(), job(2, 2, schedulerName="bogus")],
        "NoScheduler",
        ('schedulerName is "bogus"', "set schedulerName to volcano"),
        "scheduler",
        starts=2,
    ),
    Case(
        "tasks wait for each other and the gang for both",
        [*nodes(), in_a_row(job(1, 2))],
        "PodsNotCreated",
        ("the job never starts", "dependsOn", "spec.minAvailable to at most 1"),
        mend=lambda docs: shrink(the(docs, "Job", "j")),
    ),
    Case(
        "a quota of the namespace, at admission",
        [*nodes(), QUOTA, *waiting(3, minResources={"cpu": "3"})],
        "ResourceQuotaInsufficient",
        ("requested: cpu: 3", "raise ResourceQuota default/rq by 1 cpu"),
        "namespaceQuota",
        conf=RESOURCEQUOTA,
        starts=3,
        subject="podgroup j",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_is_named_with_its_numbers_and_its_fix_starts_the_job(case: Case, tmp_path: Path) -> None:
    docs = copy.deepcopy(case.docs)
    text = run(f"explain {case.subject}", docs, case.conf, tmp_path)
    told = json.loads(run(f"explain {case.subject} -o json", docs, case.conf, tmp_path))
    assert told["blockers"][0]["code"] == case.code
    for part in case.said:
        assert part in text
    change = told["change"]
    assert (change or {}).get("what", "") == case.what
    assert started(docs, case.conf, tmp_path) < case.starts
    (case.mend or (lambda them: fix(them, change)))(docs)
    assert started(docs, case.conf, tmp_path) >= case.starts


def suspended() -> Doc:
    return {**job(), "status": {"state": {"phase": "Aborted"}}}


def web(kind: str, **spec: Any) -> Doc:
    """A workload `web` of Kubernetes with a pod that no node can take."""
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "99"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "volcano", "containers": [container]}}
    body = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


@pytest.mark.parametrize("words", ["job j", "job/j", "vj/j", "podgroup j-default-j", "pg/j-default-j", "po/j-w-0"])
def test_a_job_is_found_by_each_of_its_names(words: str, tmp_path: Path) -> None:
    assert "Pod group default/j-default-j waits" in run(f"explain {words}", [*nodes(), job(1, 1, cpu=9)], "", tmp_path)


@pytest.mark.parametrize("words", ["deployment web", "deploy/web", "deployments.apps/web"])
def test_a_deployment_is_explained_by_its_pods(words: str, tmp_path: Path) -> None:
    text = run(f"explain {words}", [*nodes(), web("Deployment")], "", tmp_path)
    assert "the largest node has 8 cpu" in text


def test_a_queue_is_explained_by_its_figures_and_what_waits_in_it(tmp_path: Path) -> None:
    docs = [*nodes(), queue("q", capability={"cpu": "3"}), job(2, 2, cpu=2, queue="q")]
    text = run("explain q/q", docs, "", tmp_path)
    assert "Queue q is Open; 1 group of it waits." in text
    assert "queue resource quota insufficient: insufficient cpu (requested 4, available 3)" in text
    assert json.loads(run("explain queue q -o json", docs, "", tmp_path))["waiting"][0]["podGroup"].endswith("j")


def test_a_node_is_explained_by_what_keeps_pods_away(tmp_path: Path) -> None:
    text = run(
        "explain node n0", [node("n0", cordoned=True, taint="dedicated=ml"), *running("u0", 3, "n0")], "", tmp_path
    )
    assert "It takes no new pods: it is cordoned (`kubectl uncordon n0`)." in text
    assert "It takes only pods that tolerate the taint dedicated=ml:NoSchedule." in text
    assert ["cpu", "8", "3", "5"] in [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "docs", "code", "said"),
    [
        ("job j", [suspended()], 0, "job default/j is suspended, so it has no pods: `vcctl job resume` starts it"),
        ("job j", [job(queue="nope")], 1, 'queue.scheduling.volcano.sh "nope" not found'),
        ("job k", [job()], 1, "job default/k does not exist; did you mean 'default/j'?"),
        ("pod j-w-0", [job(schedulerName="bogus")], 0, 'schedulerName is "bogus", and this scheduler serves'),
        ("queue defualt", [job()], 1, "queue defualt does not exist; did you mean 'default'?"),
        ("node n9", [job()], 1, "node n9 does not exist"),
        ("jbo j", [job()], 2, "kind 'jbo' cannot be explained; did you mean 'job'?"),
        ("j", [job()], 2, "give KIND NAME or KIND/NAME"),
    ],
)
def test_what_cannot_be_explained_says_why(words: str, docs: list[Doc], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([*nodes(), *docs]))
    result = CliRunner().invoke(main, ["explain", *words.split(), "-f", str(tmp_path / "objects.yaml")])
    assert result.exit_code == code
    assert said in (result.stderr if code else result.stdout)


def run(arguments: str, docs: list[Doc], conf: str, folder: Path) -> str:
    """What a command prints about a cluster."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(docs))
    more = ["-f", str(folder / "objects.yaml")]
    if conf:
        (folder / "scheduler.conf").write_text(conf)
        more += ["--scheduler-conf", str(folder / "scheduler.conf")]
    result = CliRunner().invoke(main, [*arguments.split(), *more])
    assert result.exit_code == 0, result.output
    return result.stdout


def started(docs: list[Doc], conf: str, folder: Path) -> int:
    """How many pods of the job the next cycle starts."""
    plan = json.loads(run("plan -o json", docs, conf, folder))
    return sum(1 for pod in plan["binds"] if pod.startswith("default/j-"))
