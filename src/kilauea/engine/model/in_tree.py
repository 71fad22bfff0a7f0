"""In-tree volumes, as their CSI drivers identify them.

The driver counts them against its limit on a node, and on nodes whose plugin was migrated to the driver
(`storage.alpha.kubernetes.io/migrated-plugins` of the CSINode), zones are labels of the driver. The translation is that
of Kubernetes' `csi-translation-lib`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kilauea.api.core import Volume as PodVolume
from kilauea.api.selectors import NodeTerm, Requirement
from kilauea.api.volume_sources import InTreeSources, RbdVolume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
BETWEEN_ZONES = "__"
UNSPECIFIED = "UNSPECIFIED"

GCE, AWS, CINDER = "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "kubernetes.io/cinder"
AZURE_DISK, PORTWORX = "kubernetes.io/azure-disk", "kubernetes.io/portworx-volume"
AZURE_FILE, VSPHERE = "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"

DRIVERS = {
    GCE: "pd.csi.storage.gke.io",
    AWS: "ebs.csi.aws.com",
    CINDER: "cinder.csi.openstack.org",
    AZURE_DISK: "disk.csi.azure.com",
    PORTWORX: "pxd.portworx.com",
    AZURE_FILE: "",
    VSPHERE: "",
}
"""CSI driver by plugin; empty if the Kubernetes scheduler does not translate its volumes."""

ZONE_KEYS = {
    GCE: "topology.gke.io/zone",
    AWS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
"""By plugin, the node label that its driver uses for zones."""

Terms = tuple[NodeTerm, ...] | None


class InTree(NamedTuple):
    """An in-tree volume."""

    plugin: str
    driver: str
    """Its CSI driver; empty for none."""
    handle: str
    """The driver's name for the volume."""


class Disk(NamedTuple):
    """A disk that a pod names directly, without a claim, and that pods on a node cannot share freely."""

    name: str
    """Its kind and its name."""
    read_only: bool


def driver_of(provisioner: str) -> str:
    """The CSI driver behind the provisioner of a storage class; empty if its volumes do not count."""
    return DRIVERS.get(provisioner, provisioner)


def in_tree_of(sources: InTreeSources, labels: Mapping[str, str]) -> InTree | None:
    """The in-tree volume that a pod or a PersistentVolume names, if any."""
    found = _plugin_and_handle(sources, labels)
    if found is None:
        return None
    plugin, handle = found
    return InTree(plugin, DRIVERS[plugin] if handle else "", handle)


def _plugin_and_handle(sources: InTreeSources, labels: Mapping[str, str]) -> tuple[str, str] | None:
    if sources.gce_persistent_disk is not None:
        return GCE, _gce_handle(sources.gce_persistent_disk.pd_name, labels)
    if sources.aws_elastic_block_store is not None:
        return AWS, _ebs_volume(sources.aws_elastic_block_store.volume_id)
    if sources.cinder is not None:
        return CINDER, sources.cinder.volume_id
    if sources.azure_disk is not None:
        return AZURE_DISK, sources.azure_disk.disk_uri
    if sources.portworx_volume is not None:
        return PORTWORX, sources.portworx_volume.volume_id
    if sources.azure_file is not None:
        return AZURE_FILE, ""
    return (VSPHERE, "") if sources.vsphere_volume is not None else None


def _ebs_volume(name: str) -> str:
    """`aws://zone/vol-1` and `vol-1` are the same volume."""
    return name.removeprefix("aws://").rpartition("/")[2] if name.startswith("aws://") else name


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    """The full name of a disk: in its zone, in the region of its zones, or in an unspecified zone."""
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/{UNSPECIFIED}/zones/{zones[0] or UNSPECIFIED}/disks/{name}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    return f"projects/{UNSPECIFIED}/regions/{regions.pop()}/disks/{name}" if len(regions) == 1 else ""


# --- zones


def csi_terms_of(plugin: str, terms: Terms, labels: Mapping[str, str]) -> Terms:
    """The node affinity of a volume on nodes where its plugin was migrated: zones by the label of the driver.

    Terms that name a zone take precedence over labels of the volume.
    """
    key = ZONE_KEYS.get(plugin)
    if key is None:
        return terms
    named = {r.key for term in terms or () for r in term.expressions}
    beta = ZONE not in named and (BETA_ZONE in named or (ZONE not in labels and BETA_ZONE in labels))
    zone = BETA_ZONE if beta else ZONE
    if zone in named:
        terms = _renamed(terms, zone, key)
    elif zones := sorted({part for part in labels.get(zone, "").split(BETWEEN_ZONES) if part}):
        only = Requirement(key, "In", tuple(zones))
        terms = tuple(NodeTerm((*t.expressions, only), t.fields) for t in terms or (NodeTerm((), ()),))
    return _renamed(terms, BETA_REGION, REGION) if beta else terms


def _renamed(terms: Terms, old: str, new: str) -> Terms:
    if terms is None:
        return None
    return tuple(
        NodeTerm(tuple(r._replace(key=new) if r.key == old else r for r in term.expressions), term.fields)
        for term in terms
    )


# --- volumes that pods name directly


def inline_of(volumes: Iterable[PodVolume]) -> tuple[tuple[str, str], ...]:
    """Driver and handle of the volumes that a pod names without a claim, without repeats, as far as they count."""
    found = (in_tree_of(volume, {}) for volume in volumes)
    return tuple(dict.fromkeys((one.driver, one.handle) for one in found if one is not None and one.driver))


def disks_of(volumes: Iterable[PodVolume]) -> tuple[Disk, ...]:
    """The disks of a pod that other pods on the node cannot share, unless all use them read-only."""
    disks: list[Disk] = []
    for volume in volumes:
        if volume.gce_persistent_disk is not None:
            disk = volume.gce_persistent_disk
            disks.append(Disk(f"gcePersistentDisk {disk.pd_name}", bool(disk.read_only)))
        if volume.aws_elastic_block_store is not None:
            disks.append(Disk(f"awsElasticBlockStore {volume.aws_elastic_block_store.volume_id}", False))
        if volume.iscsi is not None:
            disks.append(Disk(f"iscsi {volume.iscsi.iqn}", bool(volume.iscsi.read_only)))
        if volume.rbd is not None:
            disks += [Disk(name, bool(volume.rbd.read_only)) for name in _images(volume.rbd)]
    return tuple(sorted(set(disks)))


def _images(rbd: RbdVolume) -> list[str]:
    """An image under each of its monitors: two images are the same if they share a monitor."""
    return [f"rbd {monitor} {rbd.pool or 'rbd'} {rbd.image}" for monitor in rbd.monitors or ()]
