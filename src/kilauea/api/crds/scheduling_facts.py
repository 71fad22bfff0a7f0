"""Facts of `scheduling.volcano.sh` and `topology.volcano.sh`: PodGroup, Queue and HyperNode."""

from __future__ import annotations

from kilauea.api import scheduling, topology
from kilauea.api.crds.facts import (
    ATOMIC,
    COUNT,
    COUNTS,
    INT32,
    INT64,
    NAME,
    POSITIVE,
    SUBDOMAIN,
    TIME,
    Facts,
    fact,
    one_of,
)

_ANY = "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)"
_COUNT = " + ".join(f"(has(self.{each}) ? 1 : 0)" for each in ("exactMatch", "regexMatch", "labelMatch"))
_SELECTOR_RULES = [
    {"rule": _ANY, "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified"},
    {"rule": f"{_COUNT} <= 1", "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"},
]

FACTS: Facts = {
    scheduling.SubGroupPolicy: {
        "name": fact("Name of the sub group; of pods of jobs, that of their task.", NAME),
        "network_topology": fact("Constraints on the distance of the pods of one sub group in the network."),
        "sub_group_size": fact("Pods of one sub group.", POSITIVE, default=1),
        "min_sub_groups": fact("Sub groups that must be placed for the group to start.", COUNT, default=0),
        "label_selector": fact("The pods that it is about."),
        "match_label_keys": fact("Pods with the same values of these labels are one sub group.", ATOMIC),
    },
    scheduling.PodGroupSpec: {
        "min_member": fact("Pods that must be placed together.", COUNT),
        "min_task_member": fact("The same for single tasks.", COUNTS),
        "queue": fact("Queue that the group is charged to.", SUBDOMAIN, default="default"),
        "priority_class_name": fact("Priority of the group.", NAME),
        "min_resources": fact("Resources that its queue must have left before pods are created."),
        "network_topology": fact("Constraints on the distance of its pods in the network."),
        "sub_group_policy": fact("Rules that make sub groups of its pods."),
    },
    scheduling.PodGroupCondition: {
        "type": fact("Scheduled or Unschedulable."),
        "status": fact("True, False or Unknown."),
        "transition_id": fact("The cycle of scheduling that wrote it."),
        "last_transition_time": fact("Since when.", TIME),
        "reason": fact("Reason, in one word."),
        "message": fact("Human-readable reason."),
    },
    scheduling.PodGroupStatus: {
        "phase": fact("Phase of the group.", one_of("Pending", "Running", "Unknown", "Inqueue", "Completed")),
        "conditions": fact("Conditions set by the scheduler."),
        "running": fact("Number of pods that run.", COUNT),
        "succeeded": fact("Number of pods that have succeeded.", COUNT),
        "failed": fact("Number of pods that have failed.", COUNT),
    },
    scheduling.PodGroup: {"spec": fact("Pods to schedule together."), "status": fact("Observed state.")},
    scheduling.Guarantee: {"resource": fact("Resources reserved for the queue.")},
    scheduling.ExtendCluster: {
        "name": fact("Name of the cluster."),
        "weight": fact("Share of the jobs that go there.", INT32),
        "capacity": fact("Resources that it offers."),
    },
    scheduling.NodeGroupTerms: {
        "required": fact("Groups that must be kept to."),
        "preferred": fact("Groups that are kept to if possible."),
    },
    scheduling.QueueAffinity: {
        "node_group_affinity": fact("Groups of nodes to use."),
        "node_group_anti_affinity": fact("Groups of nodes to avoid."),
    },
    scheduling.QueueSpec: {
        "weight": fact(
            "Share of the cluster, in relation to other queues.", INT32, default=1, minimum=1, maximum=65535
        ),
        "capability": fact("Upper limit of the resources of the queue."),
        "deserved": fact("Resources that the queue keeps under contention."),
        "guarantee": fact("Resources reserved for the queue."),
        "reclaimable": fact("Allow other queues to reclaim what it uses beyond its share."),
        "parent": fact("Queue that it is a part of.", SUBDOMAIN),
        "priority": fact("A higher one is served first, and gives back last.", COUNT),
        "extend_clusters": fact("Other clusters that take jobs of the queue."),
        "affinity": fact("Groups of nodes to use and to avoid."),
        "type": fact("Free text.", NAME),
        "dequeue_strategy": fact(
            "fifo: a job that cannot start holds up those behind it; traverse: it does not.",
            one_of("fifo", "traverse"),
            default="traverse",
        ),
    },
    scheduling.Reservation: {"nodes": fact("Nodes that are reserved."), "resource": fact("Reserved resources.")},
    scheduling.QueueStatus: {
        "state": fact("Open queues accept new jobs.", one_of("Open", "Closed", "Closing", "Unknown")),
        "unknown": fact("Number of pod groups in phase Unknown.", COUNT),
        "pending": fact("Number of pod groups that wait.", COUNT),
        "running": fact("Number of pod groups that run.", COUNT),
        "inqueue": fact("Number of pod groups that may make pods.", COUNT),
        "completed": fact("Number of pod groups that have ended.", COUNT),
        "reservation": fact("Reserved resources; of old versions."),
        "allocated": fact("Resources allocated to its pods."),
    },
    scheduling.Queue: {"spec": fact("Limits and shares."), "status": fact("Observed usage.")},
    topology.ExactMatch: {"name": fact("Name of the member.", SUBDOMAIN, minLength=1, required=True)},
    topology.RegexMatch: {
        "pattern": fact("Regular expression that the names of members contain a match of.", minLength=1, required=True)
    },
    topology.MemberSelector: {
        "exact_match": fact("A member by its name."),
        "regex_match": fact("Members by a pattern of their names."),
        "label_match": fact("Members by labels; nodes only, and an empty selector matches none."),
    },
    topology.Member: {
        "type": fact("Kind of the members.", one_of("Node", "HyperNode"), required=True),
        "selector": fact("Selector of the members.", {"x-kubernetes-validations": _SELECTOR_RULES}),
    },
    topology.HyperNodeSpec: {
        "tier": fact("Level in the network; a lower one is nearer, 1 is the lowest.", minimum=0, required=True),
        "tier_name": fact("Name of the level.", NAME),
        "members": fact("Members of the HyperNode.", minItems=1),
    },
    topology.HyperNodeStatus: {
        "conditions": fact("Conditions of the HyperNode."),
        "node_count": fact("Number of nodes in it.", INT64, minimum=0),
    },
    topology.HyperNode: {"spec": fact("Members of the HyperNode."), "status": fact("Observed state.")},
}
