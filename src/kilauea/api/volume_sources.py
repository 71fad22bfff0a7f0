"""The kinds of volumes that are part of Kubernetes itself, as far as scheduling reads them.

Pods name them in `spec.volumes`, PersistentVolumes in their `spec`. CSI drivers serve most of them today.
"""

from __future__ import annotations

import msgspec

from kilauea.api.meta import Wire


class GcePersistentDisk(Wire):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    read_only: bool | None = None


class AwsElasticBlockStore(Wire):
    """A volume of Amazon Elastic Block Store."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(Wire):
    """A disk of Azure."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class AzureFile(Wire):
    """A file share of Azure."""

    share_name: str = ""
    secret_name: str | None = None


class CinderVolume(Wire):
    """A volume of OpenStack Cinder."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Wire):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(Wire):
    """A disk of vSphere."""

    volume_path: str = ""


class InTreeSources(Wire):
    """The fields of volumes and of PersistentVolumes that name a volume of one of these kinds."""

    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class IscsiVolume(Wire):
    """A volume of an iSCSI target."""

    iqn: str = ""
    read_only: bool | None = None


class RbdVolume(Wire):
    """An image of Ceph RBD."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str | None = None
    read_only: bool | None = None
