"""The kinds that describe volumes, claims on them, and the nodes that can reach them."""

from __future__ import annotations

import msgspec

from kilauea.api.core import NodeSelector, Requirements
from kilauea.api.meta import LabelSelector, Object, ResourceMap, Wire
from kilauea.api.volume_sources import InTreeSources

# --- PersistentVolume


class VolumeNodeAffinity(Wire):
    """`spec.nodeAffinity` of a volume: the nodes that reach it."""

    required: NodeSelector | None = None


class ClaimReference(Wire):
    """`spec.claimRef` of a volume: the claim that it is bound to or kept for."""

    namespace: str | None = None
    name: str = ""
    uid: str | None = None


class CSIVolumeSource(Wire):
    """`spec.csi` of a volume: the driver, and its name for the volume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(InTreeSources):
    """`spec` of a PersistentVolume."""

    capacity: ResourceMap | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str | None = None
    csi: CSIVolumeSource | None = None


class PersistentVolumeStatus(Wire):
    """`status` of a PersistentVolume."""

    phase: str | None = None


class PersistentVolume(Object):
    """A piece of storage; its labels may name zones."""

    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus | None = None


# --- PersistentVolumeClaim


class PersistentVolumeClaimSpec(Wire):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    resources: Requirements | None = None
    storage_class_name: str | None = None
    volume_name: str | None = None
    volume_mode: str | None = None
    selector: LabelSelector | None = None


class PersistentVolumeClaimStatus(Wire):
    """`status` of a PersistentVolumeClaim."""

    phase: str | None = None


class PersistentVolumeClaim(Object):
    """A request for a volume."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus | None = None


# --- StorageClass


class TopologyRequirement(Wire):
    """A node label and the values that are allowed."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Wire):
    """One of the ORed terms of `allowedTopologies`."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object):
    """Provisioning of volumes of a class, their topology, and when claims are bound to them."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None
    parameters: dict[str, str] | None = None


# --- drivers


class VolumeNodeResources(Wire):
    """The number of volumes of a driver that a node takes; without a count there is no limit."""

    count: int | None = None


class CSINodeDriver(Wire):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None
    topology_keys: list[str] | None = None
    """Labels of the node; volumes that are made for it can be reached where they have the same values."""


class CSINodeSpec(Wire):
    """`spec` of a CSINode."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(Object):
    """The drivers of the node of the same name."""

    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class CSIDriverSpec(Wire):
    """`spec` of a CSIDriver."""

    storage_capacity: bool | None = None


class CSIDriver(Object):
    """A driver; with `storageCapacity` it tells where how much room is left."""

    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object):
    """Room for new volumes of a class that some nodes reach."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Wire):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire):
    """`spec` of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Object):
    """A volume that is attached to a node, whether or not a pod there uses it."""

    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
