"""The table of kinds of waiting: a cluster with a job that waits, what is said of it, and the fix that starts it.

`tests/cli/test_kinds_of_waiting.py` runs each kind through `kilauea explain` and `kilauea plan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.waiting_fixes import shrink, the
from support.waiting_objects import (
    CLAIMING,
    QUOTA,
    SWITCHES,
    Doc,
    claim,
    in_a_row,
    in_zone,
    job,
    node,
    nodes,
    queue,
    running,
    storage_class,
    volume,
    waiting,
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
RECLAIM = tiers("enqueue, allocate, reclaim", "priority", "gang", "conformance", "predicates", "proportion")
RESOURCEQUOTA = tiers(PLACE, "priority", "gang", "predicates", "resourcequota", "proportion")
AB = [queue("a"), queue("b")]
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
]
