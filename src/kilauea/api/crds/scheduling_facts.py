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
        "name": fact("Name of the sub group; for pods of jobs, the name of their task.", NAME),
        "network_topology": fact("Network topology constraints of the pods of each sub group."),
        "sub_group_size": fact("Number of pods in a sub group.", POSITIVE, default=1),
        "min_sub_groups": fact("Number of sub groups that must be placed for the group to start.", COUNT, default=0),
        "label_selector": fact("Pods that it applies to."),
        "match_label_keys": fact("Labels by whose values pods are divided into sub groups.", ATOMIC),
    },
    scheduling.PodGroupSpec: {
        "min_member": fact("Number of pods that must be placed together.", COUNT),
        "min_task_member": fact("Minimum number of pods by task.", COUNTS),
        "queue": fact("Queue that the group is charged to.", SUBDOMAIN, default="default"),
        "priority_class_name": fact("Priority of the group.", NAME),
        "min_resources": fact("Resources that must be free in its queue before its pods are created."),
        "network_topology": fact("Network topology constraints of its pods."),
        "sub_group_policy": fact("Rules that divide its pods into sub groups."),
    },
    scheduling.PodGroupCondition: {
        "type": fact("Scheduled or Unschedulable."),
        "status": fact("True, False or Unknown."),
        "transition_id": fact("ID of the scheduling cycle that set it."),
        "last_transition_time": fact("Time of the last transition.", TIME),
        "reason": fact("Machine-readable reason in CamelCase."),
        "message": fact("Human-readable reason."),
    },
    scheduling.PodGroupStatus: {
        "phase": fact("Phase of the group.", one_of("Pending", "Running", "Unknown", "Inqueue", "Completed")),
        "conditions": fact("Conditions set by the scheduler."),
        "running": fact("Number of running pods.", COUNT),
        "succeeded": fact("Number of pods that have succeeded.", COUNT),
        "failed": fact("Number of pods that have failed.", COUNT),
    },
    scheduling.PodGroup: {"spec": fact("Pods to schedule together."), "status": fact("Observed state.")},
    scheduling.Guarantee: {"resource": fact("Resources reserved for the queue.")},
    scheduling.ExtendCluster: {
        "name": fact("Name of the cluster."),
        "weight": fact("Share of the jobs that run there.", INT32),
        "capacity": fact("Resources that it offers."),
    },
    scheduling.NodeGroupTerms: {
        "required": fact("Node groups for which this is required."),
        "preferred": fact("Node groups for which this is preferred."),
    },
    scheduling.QueueAffinity: {
        "node_group_affinity": fact("Node groups to use."),
        "node_group_anti_affinity": fact("Node groups to avoid."),
    },
    scheduling.QueueSpec: {
        "weight": fact(
            "Share of the cluster, in relation to other queues.", INT32, default=1, minimum=1, maximum=65535
        ),
        "capability": fact("Upper limit of the resources of the queue."),
        "deserved": fact("Resources that the queue can reclaim when it needs them."),
        "guarantee": fact("Resources reserved for the queue."),
        "reclaimable": fact("True if other queues may reclaim resources beyond its deserved share."),
        "parent": fact("Parent queue.", SUBDOMAIN),
        "priority": fact("Queues with a higher priority are served first, and reclaimed from last.", COUNT),
        "extend_clusters": fact("Other clusters that run jobs of the queue."),
        "affinity": fact("Node groups to use and to avoid."),
        "type": fact("Free text.", NAME),
        "dequeue_strategy": fact(
            "traverse: a job that cannot start does not block those behind it in the queue. fifo: it does.",
            one_of("fifo", "traverse"),
            default="traverse",
        ),
    },
    scheduling.Reservation: {"nodes": fact("Reserved nodes."), "resource": fact("Reserved resources.")},
    scheduling.QueueStatus: {
        "state": fact("Open queues accept new jobs.", one_of("Open", "Closed", "Closing", "Unknown")),
        "unknown": fact("Number of pod groups in phase Unknown.", COUNT),
        "pending": fact("Number of pending pod groups.", COUNT),
        "running": fact("Number of running pod groups.", COUNT),
        "inqueue": fact("Number of pod groups that are admitted.", COUNT),
        "completed": fact("Number of pod groups that have ended.", COUNT),
        "reservation": fact("Reserved resources; used by old versions."),
        "allocated": fact("Resources allocated to its pods."),
    },
    scheduling.Queue: {"spec": fact("Limits and shares."), "status": fact("Observed usage.")},
    topology.ExactMatch: {"name": fact("Name of the member.", SUBDOMAIN, minLength=1, required=True)},
    topology.RegexMatch: {
        "pattern": fact(
            "Regular expression that matches a part of the names of the members.", minLength=1, required=True
        )
    },
    topology.MemberSelector: {
        "exact_match": fact("Member with this name."),
        "regex_match": fact("Members whose names match a pattern."),
        "label_match": fact("Nodes with matching labels; an empty selector does not match any node."),
    },
    topology.Member: {
        "type": fact("Kind of the members.", one_of("Node", "HyperNode"), required=True),
        "selector": fact("Selector of the members.", {"x-kubernetes-validations": _SELECTOR_RULES}),
    },
    topology.HyperNodeSpec: {
        "tier": fact(
            "Tier in the network; nodes in a lower tier are closer, 1 is the lowest.", minimum=0, required=True
        ),
        "tier_name": fact("Name of the tier.", NAME),
        "members": fact("Members of the HyperNode.", minItems=1),
    },
    topology.HyperNodeStatus: {
        "conditions": fact("Conditions of the HyperNode."),
        "node_count": fact("Number of nodes in it.", INT64, minimum=0),
    },
    topology.HyperNode: {"spec": fact("Members of the HyperNode."), "status": fact("Observed state.")},
}
