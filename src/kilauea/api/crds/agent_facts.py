"""Facts of Numatopology, NodeShard and ColocationConfiguration."""

from __future__ import annotations

from kilauea.api import agents
from kilauea.api.crds.facts import PERCENT, TIME, Facts, fact

FACTS: Facts = {
    agents.NumaResource: {
        "allocatable": fact("What pods may use, as a set of ids."),
        "capacity": fact("How much there is."),
    },
    agents.CpuPlace: {
        "numa": fact("NUMA node of the processor.", minimum=0),
        "socket": fact("Socket of the processor.", minimum=0),
        "core": fact("Core of the processor.", minimum=0),
    },
    agents.ContainerAllocation: {
        "name": fact("Name of the container."),
        "allocations": fact("What it holds, by resource; processors as a set of ids."),
    },
    agents.PodAllocation: {
        "uid": fact("UID of the pod."),
        "name": fact("Name of the pod."),
        "namespace": fact("Namespace of the pod."),
        "container_allocations": fact("What its containers hold."),
    },
    agents.NumatopologySpec: {
        "policies": fact("Policies of the kubelet: CPUManagerPolicy, TopologyManagerPolicy."),
        "res_reserved": fact("What is kept for the system, by resource."),
        "numa_resources": fact("What the node has, by resource."),
        "cpu_detail": fact("Where each processor stands, by id."),
        "pod_allocations": fact("What pods hold."),
    },
    agents.Numatopology: {"spec": fact("How the node is built.")},
    agents.NodeShardSpec: {"nodes_desired": fact("Nodes that the scheduler shall work on.", required=True)},
    agents.NodeShardStatus: {
        "last_update_time": fact("When it was last written.", TIME),
        "nodes_in_use": fact("Nodes that the scheduler works on."),
        "nodes_to_remove": fact("Nodes that it will give up."),
        "nodes_to_add": fact("Nodes that it will take on."),
    },
    agents.NodeShard: {
        "spec": fact("What the scheduler shall work on.", required=True),
        "status": fact("What it works on."),
    },
    agents.MemoryQos: {
        "high_ratio": fact("Memory in use at which pods are slowed down, of their limit.", PERCENT, default=100),
        "low_ratio": fact("Memory that is taken from pods only when nothing else helps.", PERCENT, default=0),
        "min_ratio": fact("Memory that is never taken from pods.", PERCENT, default=0),
    },
    agents.ColocationConfigurationSpec: {
        "selector": fact("Pods of the namespace that it is for; none if absent, all if empty."),
        "memory_qos": fact("How their memory is throttled and protected."),
    },
    agents.ColocationConfigurationStatus: {
        "conditions": fact(
            "What is known of it.", {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        ),
    },
    agents.ColocationConfiguration: {
        "spec": fact("What to do with which pods.", required=True),
        "status": fact("How it is doing."),
    },
}
