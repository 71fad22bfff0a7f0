"""Facts of Numatopology, NodeShard and ColocationConfiguration."""

from __future__ import annotations

from kilauea.api import agents
from kilauea.api.crds.facts import PERCENT, TIME, Facts, fact

FACTS: Facts = {
    agents.NumaResource: {
        "allocatable": fact("Resources that pods may use, as a set of IDs."),
        "capacity": fact("Total amount."),
    },
    agents.CpuPlace: {
        "numa": fact("NUMA node of the processor.", minimum=0),
        "socket": fact("Socket of the processor.", minimum=0),
        "core": fact("Core of the processor.", minimum=0),
    },
    agents.ContainerAllocation: {
        "name": fact("Name of the container."),
        "allocations": fact("Resources that it holds, by name; processors as a set of IDs."),
    },
    agents.PodAllocation: {
        "uid": fact("UID of the pod."),
        "name": fact("Name of the pod."),
        "namespace": fact("Namespace of the pod."),
        "container_allocations": fact("Resources that its containers hold."),
    },
    agents.NumatopologySpec: {
        "policies": fact("Policies of the kubelet: CPUManagerPolicy, TopologyManagerPolicy."),
        "res_reserved": fact("Resources reserved for the system, by name."),
        "numa_resources": fact("Resources of the node, by name."),
        "cpu_detail": fact("Location of each processor, by ID."),
        "pod_allocations": fact("Resources that pods hold."),
    },
    agents.Numatopology: {"spec": fact("Topology of the node.")},
    agents.NodeShardSpec: {"nodes_desired": fact("Nodes that the scheduler should use.", required=True)},
    agents.NodeShardStatus: {
        "last_update_time": fact("Time of the last update.", TIME),
        "nodes_in_use": fact("Nodes that the scheduler uses."),
        "nodes_to_remove": fact("Nodes that it will give up."),
        "nodes_to_add": fact("Nodes that it will get."),
    },
    agents.NodeShard: {
        "spec": fact("Nodes that the scheduler should use.", required=True),
        "status": fact("Nodes that it uses."),
    },
    agents.MemoryQos: {
        "high_ratio": fact("Percentage of the memory limit at which pods are throttled.", PERCENT, default=100),
        "low_ratio": fact(
            "Percentage of memory that is reclaimed from pods only as a last resort.", PERCENT, default=0
        ),
        "min_ratio": fact("Percentage of memory that is never reclaimed from pods.", PERCENT, default=0),
    },
    agents.ColocationConfigurationSpec: {
        "selector": fact("Selector of pods in the namespace; selects none if absent, all if empty."),
        "memory_qos": fact("Memory throttling and protection."),
    },
    agents.ColocationConfigurationStatus: {
        "conditions": fact(
            "Conditions of the configuration.",
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    },
    agents.ColocationConfiguration: {
        "spec": fact("Selected pods and their settings.", required=True),
        "status": fact("Status of the configuration."),
    },
}
