"""The kinds that agents on nodes and shards of schedulers use: Numatopology, NodeShard, ColocationConfiguration."""

from __future__ import annotations

import msgspec

from kilauea.api.meta import Condition, LabelSelector, Object, Wire

# --- Numatopology


class NumaResource(Wire):
    """One resource of a node, as sets of ids."""

    allocatable: str | None = None
    capacity: int | None = None


class CpuPlace(Wire):
    """The place of a processor in its machine."""

    numa: int | None = None
    socket: int | None = None
    core: int | None = None


class ContainerAllocation(Wire):
    """Resources that a container holds."""

    name: str | None = None
    allocations: dict[str, str] | None = None


class PodAllocation(Wire):
    """Resources that a pod holds."""

    uid: str | None = None
    name: str | None = None
    namespace: str | None = None
    container_allocations: list[ContainerAllocation] | None = None


class NumatopologySpec(Wire):
    """`spec` of a Numatopology."""

    policies: dict[str, str] | None = None
    res_reserved: dict[str, str] | None = None
    numa_resources: dict[str, NumaResource] | None = msgspec.field(default=None, name="numares")
    cpu_detail: dict[str, CpuPlace] | None = None
    pod_allocations: list[PodAllocation] | None = None


class Numatopology(Object):
    """The topology of processors and memory of the node of the same name."""

    spec: NumatopologySpec | None = None


# --- NodeShard


class NodeShardSpec(Wire):
    """`spec` of a NodeShard."""

    nodes_desired: list[str] | None = None


class NodeShardStatus(Wire):
    """`status` of a NodeShard."""

    last_update_time: str | None = None
    nodes_in_use: list[str] | None = None
    nodes_to_remove: list[str] | None = None
    nodes_to_add: list[str] | None = None


class NodeShard(Object):
    """The nodes that the scheduler of the same name works on."""

    spec: NodeShardSpec = msgspec.field(default_factory=NodeShardSpec)
    status: NodeShardStatus | None = None


# --- ColocationConfiguration


class MemoryQos(Wire):
    """Throttling and protection of the memory of pods, in percent."""

    high_ratio: int | None = None
    low_ratio: int | None = None
    min_ratio: int | None = None


class ColocationConfigurationSpec(Wire):
    """`spec` of a ColocationConfiguration."""

    selector: LabelSelector | None = None
    memory_qos: MemoryQos | None = None


class ColocationConfigurationStatus(Wire):
    """`status` of a ColocationConfiguration."""

    conditions: list[Condition] | None = None


class ColocationConfiguration(Object):
    """Settings for pods of a namespace that share nodes with more important ones."""

    spec: ColocationConfigurationSpec = msgspec.field(default_factory=ColocationConfigurationSpec)
    status: ColocationConfigurationStatus | None = None
