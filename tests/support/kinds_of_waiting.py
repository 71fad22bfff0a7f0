"""The table of kinds of waiting: a cluster with a job that waits, what is said of it, and the fix that starts it.

`tests/cli/test_kinds_of_waiting.py` runs each kind through `kilauea explain` and `kilauea plan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.waiting_fixes import shrink, templates, the
from support.waiting_objects import (
    CLAIMING,
    QUOTA,
    SWITCHES,
    Doc,
    asking,
    beside,
    claim,
    in_a_row,
    in_zone,
    job,
    named,
    node,
    nodes,
    not_ready,
    of_size,
    one_by_one,
    paused,
    queue,
    quota,
    running,
    spread_by_host,
    storage_class,
    too_large,
    volume,
    waiting,
    whole_nodes,
)


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
TREE = tiers("allocate", "priority", "gang", "predicates", "capacity\n    enableHierarchy: true", "nodeorder")
RECLAIM = tiers("enqueue, allocate, reclaim", "priority", "gang", "conformance", "predicates", "proportion")
RESOURCEQUOTA = tiers(PLACE, "priority", "gang", "predicates", "resourcequota", "proportion")
AB = [queue("a"), queue("b")]
ZONE_A = {"nodeSelector": {"zone": "a"}}
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
            "tolerate the taint dedicated=ml:NoSchedule in its pods, or remove it from its 4 nodes",
        ),
        "taint",
        starts=2,
    ),
    Case(
        "free room is in pieces that are too small",
        [*nodes(2), *running("u0", 5, "n0"), *running("u1", 5, "n1"), job(1, 1, cpu=5)],
        "Unschedulable",
        ("2 Insufficient cpu", "requested 5 cpu, available 3 cpu", "delete pod group default/u0 and its pods"),
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
        ("no node has disk=ssd", "remove disk=ssd from the nodeSelector of its pods, or label nodes with it"),
        "selector",
    ),
    Case(
        "no node has the label with any value",
        [*nodes(), job(1, 1, pod={"nodeSelector": {"disk": "ssd"}})],
        "Unschedulable",
        ("no node has disk=ssd", "remove disk=ssd from the nodeSelector of its pods, or label nodes with it"),
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
            "set highestTierAllowed of job default/j to 2",
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
        ("names tier 'rack'", "set highestTierAllowed of job default/j to 1"),
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
    Case(
        "the queue is closed",
        [*nodes(), queue("q", state="Closed"), *waiting(2, queue="q")],
        "QueueClosed",
        ("queue q is Closed", "open queue q (`vcctl queue operate -n q -a open`)"),
        "open",
        subject="podgroup j",
        starts=2,
    ),
    Case(
        "a queue above the queue is paused",
        [*nodes(), paused(queue("up")), queue("q", parent="up"), *waiting(2, queue="q")],
        "QueuePaused",
        ("queue q is paused, as queue up above it is", "resume queue up (`vcctl queue operate -n up -a resume`)"),
        "resume",
        subject="podgroup j",
        starts=2,
    ),
    Case(
        "a job before it in a fifo queue cannot start",
        [*nodes(), queue("q", dequeueStrategy="fifo"), *too_large("a", "q"), *waiting(2, queue="q")],
        "QueueBlocked",
        (
            "default/a is before it and cannot start: queue q starts its jobs in order (dequeueStrategy: fifo)",
            "let queue q start jobs out of order (`vcctl queue operate -n q -a update --dequeue-strategy traverse`)",
        ),
        "traverse",
        subject="podgroup j",
        starts=2,
    ),
    Case(
        "the queue does not exist",
        [*nodes(), *waiting(2, queue="nope")],
        "QueueNotFound",
        (
            "queue nope of pod group default/j does not exist",
            "create queue nope (`vcctl queue create -n nope`), or correct the queue of its job",
        ),
        "queue",
        subject="podgroup j",
        starts=2,
    ),
    Case(
        "the queue has children",
        [*nodes(), queue("p"), queue("c", parent="p"), *waiting(2, queue="p")],
        "QueueNotLeaf",
        ("queue p has children", "submit it to queue c"),
        "leaf",
        conf=TREE,
        subject="podgroup j",
        starts=2,
    ),
    Case(
        "a capability of the parent queue",
        [*nodes(), queue("p", capability={"cpu": "3"}), queue("c", parent="p"), job(2, 2, cpu=2, queue="c")],
        "QueueQuotaExceeded",
        ("requested 4 cpu, available 3 cpu", "raise the capability of queue p by 1 cpu"),
        "quota",
        conf=TREE,
        starts=2,
    ),
    Case(
        "a capability of memory",
        [
            *nodes(),
            queue("q", capability={"memory": "1Gi"}),
            job(1, 1, queue="q", pod=asking({"memory": "2Gi"})),
        ],
        "QueueQuotaInsufficient",
        ("insufficient memory", "requested 2Gi memory, available 1Gi memory", "capability of queue q by 1Gi memory"),
        "quota",
    ),
    Case(
        "what other queues are guaranteed",
        [*nodes(1), queue("g", guarantee={"resource": {"cpu": "6"}}), queue("q"), job(3, 3, queue="q")],
        "QueueQuotaExceeded",
        ("requested 3 cpu, available 2 cpu", "lower minAvailable of job default/j by 1, to 2"),
        "minAvailable",
        conf=CAPACITY,
        starts=2,
    ),
    Case(
        "a gang that is larger than the cluster, in a queue without limits",
        [*nodes(1), job(9, 9)],
        "QueueQuotaInsufficient",
        ("no capability limits queue default; all nodes together have 8 cpu", "requested 9 cpu, available 8 cpu"),
        "minAvailable",
        starts=8,
    ),
    Case(
        "older jobs take the room",
        [*nodes(1), *running("u0", 4, "n0"), named(job(1, 1, cpu=3), "first", 1), named(job(1, 1, cpu=3), "j", 2)],
        "ClusterOvercommitted",
        ("requested 3 cpu, available 2.6 cpu", "default/first", "it is older", "suspend job default/first"),
        "job",
    ),
    Case(
        "memory that no node has",
        [*nodes(1), job(1, 1, pod=asking({"memory": "65Gi"}))],
        "Unschedulable",
        ("the largest node has 64Gi memory", "requested 65Gi memory", "add a node like n0, with 65Gi memory"),
        "node",
    ),
    Case(
        "a node takes no more pods",
        [*of_size(nodes(1), pods="1"), *running("u0", 1, "n0"), job(1, 1)],
        "Unschedulable",
        ("1 Insufficient pods", "requested 1 pod, available 0 pods", "delete pod group default/u0 and its pods"),
        "job",
    ),
    Case(
        "pods that must not share a node",
        [*nodes(2), job(3, 3, pod=beside("podAntiAffinity", **{"volcano.sh/job-name": "j"}))],
        "Unschedulable",
        ("2 node(s) didn't match pod anti-affinity rules", "remove the required pod anti-affinity"),
        "podAntiAffinity",
        starts=3,
    ),
    Case(
        "pods that need another pod beside them",
        [*nodes(2), job(1, 1, pod=beside("podAffinity", app="db"))],
        "Unschedulable",
        ("2 node(s) didn't match pod affinity rules", "remove the required pod affinity of the pods of job default/j"),
        "podAffinity",
    ),
    Case(
        "pods that have to be spread over a node without room",
        [*nodes(2), *running("u0", 8, "n0"), job(3, 3, cpu=2, pod=spread_by_host())],
        "Unschedulable",
        ("1 node(s) didn't match pod topology spread constraints", "remove the topology spread constraints"),
        "spread",
        conf=PLAIN,
        starts=3,
    ),
    Case(
        "pods that want the same port of a node",
        [*nodes(1), job(2, 2, pod=asking({"cpu": "1"}, ports=[{"containerPort": 80, "hostPort": 80}]))],
        "Unschedulable",
        ("1 node(s) didn't have free ports", "lower minAvailable of job default/j by 1, to 1"),
        "minAvailable",
    ),
    Case(
        "nodes are not ready",
        [*map(not_ready, nodes(2)), job()],
        "Unschedulable",
        ("node.kubernetes.io/not-ready:NoSchedule (2 nodes)", "make node n0 ready"),
        "ready",
        starts=2,
    ),
    Case(
        "two labels that no node has",
        [*nodes(disk="hdd"), job(1, 1, pod={"nodeSelector": {"disk": "ssd", "arch": "arm"}})],
        "Unschedulable",
        ("4 node(s) didn't match Pod's node affinity/selector", "remove arch=arm, disk=ssd from the nodeSelector"),
        "selector",
    ),
    Case(
        "the nodes with the label are full",
        [node("n0", zone="a"), node("n1", zone="b"), *running("u0", 8, "n0"), job(1, 1, pod=ZONE_A)],
        "Unschedulable",
        ("1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector", "requested 1 cpu, available 0 cpu"),
        "selector",
    ),
    Case(
        "a volume that nodes of another zone have",
        [*nodes(zone="a"), claim(volumeName="disk"), volume("disk", zone="b"), job(1, 1, pod=CLAIMING)],
        "Unschedulable",
        (
            "4 node(s) didn't match PersistentVolume's node affinity",
            "claim data has volume disk, which needs a node with zone In b",
        ),
        mend=lambda docs: docs.append(node("n9", zone="b")),
    ),
    Case(
        "a pod group with fewer pods than its minimum",
        [*nodes(), *waiting(2)[:2]],
        "NotEnoughTasks",
        ("valid: 1, min: 2", "lower minMember of pod group default/j by 1, to 1"),
        "minimum",
        subject="podgroup j",
    ),
    Case(
        "a StatefulSet that creates one pod after another, with a minimum of 3",
        [*nodes(), one_by_one(3, 3)],
        "NotEnoughTasks",
        (
            "valid: 1, min: 3",
            "by one with podManagementPolicy: Parallel, or with a minimum of 1: it creates a pod only",
        ),
        "parallel",
        subject="statefulset j",
        starts=3,
    ),
    Case(
        "a StatefulSet that creates one pod after another, with a minimum of 9 where 4 fit",
        [*nodes(), one_by_one(9, 9)],
        "ClusterOvercommitted",
        ("with scheduling.volcano.sh/group-min-member: '1' in its annotations",),
        "ordered",
        subject="statefulset j",
        starts=1,
    ),
    Case(
        "a pod group of which minMember and minResources are too much for the cluster",
        [*nodes(), *whole_nodes(5, minResources={"cpu": "40"})],
        "ClusterOvercommitted",
        ("lower minMember of pod group default/j by 1, to 4, and its minResources to cpu: 32.",),
        "minimum",
        subject="podgroup j",
        starts=4,
    ),
    Case(
        "a pod group of which minMember is too much for the cluster, and minResources is not",
        [*nodes(), *whole_nodes(5, minResources={"cpu": "20"})],
        "QueueQuotaExceeded",
        ("lower minMember of pod group default/j by 1, to 4.",),
        "minimum",
        subject="podgroup j",
        starts=4,
    ),
    Case(
        "a quota of the number of pods",
        [*nodes(), quota({"pods": "1"}), job(3, 3)],
        "PodsNotCreated",
        ("requested: pods=1, used: pods=1, limited: pods=1", "raise ResourceQuota default/rq by 2 pods"),
        "namespaceQuota",
        starts=3,
    ),
    Case(
        "a quota of what the pods do not state",
        [*nodes(), quota({"memory": "1Gi"}), job(1, 1)],
        "PodsNotCreated",
        ('pods "j-w-0" is forbidden: failed quota: rq: must specify memory',),
        mend=lambda docs: templates(docs)[0]["containers"][0]["resources"]["requests"].update(memory="1Gi"),
    ),
]
