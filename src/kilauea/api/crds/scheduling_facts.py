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
        "network_topology": fact("How near together the pods of one sub group must be."),
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
        "min_resources": fact("What its queue must have left before pods are made."),
        "network_topology": fact("How near together its pods must be."),
        "sub_group_policy": fact("Rules that make sub groups of its pods."),
    },
    scheduling.PodGroupCondition: {
        "type": fact("Scheduled or Unschedulable."),
        "status": fact("Whether it is so."),
        "transition_id": fact("The cycle of scheduling that wrote it."),
        "last_transition_time": fact("Since when.", TIME),
        "reason": fact("Why, in one word."),
        "message": fact("Why, for people."),
    },
    scheduling.PodGroupStatus: {
        "phase": fact("Where it is in its life.", one_of("Pending", "Running", "Unknown", "Inqueue", "Completed")),
        "conditions": fact("What the scheduler found."),
        "running": fact("Number of pods that run.", COUNT),
        "succeeded": fact("Number of pods that have succeeded.", COUNT),
        "failed": fact("Number of pods that have failed.", COUNT),
    },
    scheduling.PodGroup: {"spec": fact("What shall be placed together."), "status": fact("How it is doing.")},
    scheduling.Guarantee: {"resource": fact("What is kept free for the queue.")},
    scheduling.ExtendCluster: {
        "name": fact("Name of the cluster."),
        "weight": fact("Share of the jobs that go there.", INT32),
        "capacity": fact("What it offers."),
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
        "capability": fact("What the queue may use at most."),
        "deserved": fact("What the queue may keep when others want it."),
        "guarantee": fact("What is kept free for the queue."),
        "reclaimable": fact("Whether other queues may take back what it uses beyond its share."),
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
    scheduling.Reservation: {"nodes": fact("Nodes that are reserved."), "resource": fact("What is reserved.")},
    scheduling.QueueStatus: {
        "state": fact("Whether it takes new jobs.", one_of("Open", "Closed", "Closing", "Unknown")),
        "unknown": fact("Number of pod groups in phase Unknown.", COUNT),
        "pending": fact("Number of pod groups that wait.", COUNT),
        "running": fact("Number of pod groups that run.", COUNT),
        "inqueue": fact("Number of pod groups that may make pods.", COUNT),
        "completed": fact("Number of pod groups that have ended.", COUNT),
        "reservation": fact("What is reserved; of old versions."),
        "allocated": fact("What its pods have been given."),
    },
    scheduling.Queue: {"spec": fact("What the queue may use."), "status": fact("What it uses.")},
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
        "type": fact("Whether members are nodes or HyperNodes.", one_of("Node", "HyperNode"), required=True),
        "selector": fact("Which ones.", {"x-kubernetes-validations": _SELECTOR_RULES}),
    },
    topology.HyperNodeSpec: {
        "tier": fact("Level in the network; a lower one is nearer, 1 is the lowest.", minimum=0, required=True),
        "tier_name": fact("Name of the level.", NAME),
        "members": fact("What belongs to it.", minItems=1),
    },
    topology.HyperNodeStatus: {
        "conditions": fact("What is known of it."),
        "node_count": fact("Number of nodes in it.", INT64, minimum=0),
    },
    topology.HyperNode: {"spec": fact("What belongs to it."), "status": fact("What was found.")},
}
