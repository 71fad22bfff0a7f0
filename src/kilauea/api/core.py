"""The core kinds that the engine reads: Node, Pod, Namespace, ResourceQuota, and kinds whose selectors spread pods."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.meta import LabelSelector, Object, ResourceMap, SelectorRequirement, Wire
from kilauea.api.volume_sources import InTreeSources, IscsiVolume, RbdVolume

# --- Node


class Taint(Wire):
    """One entry of `spec.taints` of a node."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Wire):
    """`spec` of a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class ContainerImage(Wire):
    """An image that a node holds, by all its names."""

    names: list[str] | None = None
    size_bytes: int | None = None


class NodeStatus(Wire):
    """`status` of a node: what it offers."""

    capacity: ResourceMap | None = None
    allocatable: ResourceMap | None = None
    images: list[ContainerImage] | None = None


class Node(Object):
    """A machine that runs pods."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# --- Pod


class Requirements(Wire):
    """`resources` of a container or a pod."""

    requests: ResourceMap | None = None
    limits: ResourceMap | None = None


class ContainerPort(Wire):
    """A port of a container; only host ports matter for scheduling."""

    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Wire):
    """A container or an init container (`restartPolicy: Always` makes the latter a sidecar)."""

    name: str = ""
    image: str | None = None
    resources: Requirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class Toleration(Wire):
    """One entry of `spec.tolerations`."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSelectorTerm(Wire):
    """One of the ORed terms of a node selector."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Wire):
    """Required node affinity: any term must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredNodeTerm(Wire):
    """Preferred node affinity: adds `weight` where the term matches."""

    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Wire):
    """`affinity.nodeAffinity`."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredNodeTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire):
    """Pods (by labels and namespaces) that should or must not share a topology domain."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Wire):
    """A preferred pod affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    """`affinity.podAffinity` and `affinity.podAntiAffinity` have this form."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire):
    """One entry of `spec.topologySpreadConstraints`."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class SchedulingGate(Wire):
    """A reason by name why a pod must not be scheduled yet."""

    name: str = ""


class PersistentVolumeClaimSource(Wire):
    """A volume that refers to a claim."""

    claim_name: str = ""


class EphemeralVolumeSource(Wire):
    """A volume that lives as long as its pod; its claim is named `pod-volume`."""

    volume_claim_template: dict[str, Any] | None = None
    """Its metadata and the spec of the claim, as they are given."""


class ImageVolumeSource(Wire):
    """A volume that is an image."""

    reference: str | None = None


class Volume(InTreeSources):
    """One entry of `spec.volumes`, of the sorts that scheduling reads."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None


class PodResourceClaim(Wire):
    """Devices that a pod requests by a claim, or by a claim that is made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Wire):
    """`spec.schedulingGroup` of a pod: the PodGroup of Kubernetes that it belongs to."""

    pod_group_name: str | None = None


class PodSpec(Wire):
    """`spec` of a pod, the part that scheduling reads."""

    scheduler_name: str | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: ResourceMap | None = None
    resources: Requirements | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    termination_grace_period_seconds: int | None = None


class PodCondition(Wire):
    """One entry of `status.conditions` of a pod."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None


class PodClaimStatus(Wire):
    """One entry of `status.resourceClaimStatuses`: the claim that was made from a template; none if it needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerStatus(Wire):
    """One entry of `status.containerStatuses`: what its node has granted a container, and what it has."""

    name: str = ""
    resources: Requirements | None = None
    allocated_resources: ResourceMap | None = None


class PodStatus(Wire):
    """`status` of a pod."""

    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object):
    """A unit of work that is placed on one node."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None


# --- other core kinds


class Namespace(Object):
    """A namespace; its labels are what `namespaceSelector` looks at."""


class ConfigMap(Object):
    """A ConfigMap."""

    data: dict[str, str] | None = None


class ResourceQuotaSpec(Wire):
    """`spec` of a ResourceQuota."""

    hard: ResourceMap | None = None


class ResourceQuotaStatus(Wire):
    """`status` of a ResourceQuota."""

    hard: ResourceMap | None = None
    used: ResourceMap | None = None


class ResourceQuota(Object):
    """Limits on what a namespace may request in sum."""

    spec: ResourceQuotaSpec | None = None
    status: ResourceQuotaStatus | None = None


class ServiceSpec(Wire):
    """`spec` of a Service; its selector spreads pods by default."""

    selector: dict[str, str] | None = None


class Service(Object):
    """A service; pods that it selects are spread softly over nodes and zones."""

    spec: ServiceSpec | None = None


class WorkloadSpec(Wire):
    """`spec` of a ReplicaSet or StatefulSet: which pods it has, and how they are created."""

    selector: LabelSelector | None = None
    replicas: int | None = None
    pod_management_policy: str | None = None


class Workload(Object):
    """A ReplicaSet or StatefulSet: the owner whose selector spreads its pods by default."""

    spec: WorkloadSpec | None = None


class ReplicationController(Object):
    """The old form of a ReplicaSet, with a plain selector."""

    spec: ServiceSpec | None = None
