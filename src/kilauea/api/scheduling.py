"""The kinds that are about scheduling itself: PodGroup, Queue, PriorityClass, PodDisruptionBudget."""

from __future__ import annotations

import msgspec

from kilauea.api.meta import LabelSelector, Object, ResourceMap, Wire


class NetworkTopology(Wire):
    """Constraints on the distance of the pods of a group in the network."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class SubGroupPolicy(Wire):
    """A rule that makes sub-gangs of a pod group's pods."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None


class PodGroupSpec(Wire):
    """`spec` of a PodGroup."""

    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: ResourceMap | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroupCondition(Wire):
    """One entry of `status.conditions` of a PodGroup."""

    type: str = ""
    status: str = ""
    transition_id: str | None = msgspec.field(default=None, name="transitionID")
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(Wire):
    """`status` of a PodGroup."""

    phase: str | None = None
    conditions: list[PodGroupCondition] | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


class PodGroup(Object):
    """A gang: pods that are placed together or not at all."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus | None = None


class Guarantee(Wire):
    """`spec.guarantee` of a queue."""

    resource: ResourceMap | None = None


class ExtendCluster(Wire):
    """Another cluster that takes jobs of a queue."""

    name: str | None = None
    weight: int | None = None
    capacity: ResourceMap | None = None


class NodeGroupTerms(Wire):
    """Groups of nodes that a queue must, or would rather, use or avoid."""

    required: list[str] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[str] | None = msgspec.field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Wire):
    """`spec.affinity` of a queue."""

    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class QueueSpec(Wire):
    """`spec` of a Queue."""

    weight: int | None = None
    capability: ResourceMap | None = None
    deserved: ResourceMap | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None
    parent: str | None = None
    priority: int | None = None
    extend_clusters: list[ExtendCluster] | None = None
    affinity: QueueAffinity | None = None
    type: str | None = None
    dequeue_strategy: str | None = None


class Reservation(Wire):
    """`status.reservation` of a queue; of old versions."""

    nodes: list[str] | None = None
    resource: ResourceMap | None = None


class QueueStatus(Wire):
    """`status` of a Queue."""

    state: str | None = None
    unknown: int | None = None
    pending: int | None = None
    running: int | None = None
    inqueue: int | None = None
    completed: int | None = None
    reservation: Reservation | None = None
    allocated: ResourceMap | None = None


class Queue(Object):
    """A share of the cluster, in which jobs wait for resources."""

    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PriorityClass(Object):
    """A named priority."""

    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(Wire):
    """`spec` of a PodDisruptionBudget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Wire):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: dict[str, str | None] | None = None
    """Pods whose eviction was granted but is not seen yet, with the time; they are counted already."""


class PodDisruptionBudget(Object):
    """A limit on the pods of a set that may be evicted at once."""

    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None
