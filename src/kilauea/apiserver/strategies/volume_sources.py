"""Checks of the sources of persistent volumes, by kind of storage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_name,
    check_range,
    check_required_name,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object

VOLUME_KINDS = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""Source fields of a volume, in the order of checks."""
OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
"""Deprecated kinds of volumes, with the reason."""
_NAMES = {"storageos": "storageOS"}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "nfs": ("server", "path"),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "iscsi": ("targetPortal", "iqn"),
    "cinder": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "local": ("path",),
    "storageos": ("volumeName",),
    "hostPath": ("path",),
}
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_INITIATOR = re.compile(r"iqn\.\d{4}-\d{2}\.([^: .]+\.?)+[^.: ]*(:.*)?|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16,32}")
_RESERVED = (".kubernetes.io", ".k8s.io")
_LONGEST_TENANT = 64
_SECRETS = ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
_DISK_ADDRESS = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def check_source(kind: str, source: Object, path: str) -> Iterator[Cause]:
    """Yield the errors in the source of a volume: missing fields, and those of its kind."""
    if kind == "gcePersistentDisk":
        path = path.removesuffix(kind) + "persistentDisk"
    for field in _NEEDED.get(kind, ()):
        if not source.get(field):
            yield required(f"{path}.{field}")
    if kind in _MORE:
        yield from _MORE[kind](source, path)


def _disk(source: Object, path: str) -> Iterator[Cause]:
    if source.get("partition"):
        yield from check_range(f"{path}.partition", source["partition"], 1, 255)


def _no_way_up(source: Object, path: str) -> Iterator[Cause]:
    if ".." in (source.get("path") or "").split("/"):
        yield invalid_value(f"{path}.path", source["path"], "must not contain '..'")


def _host_path(source: Object, path: str) -> Iterator[Cause]:
    yield from _no_way_up(source, path)
    if source.get("path") and (source.get("type") or "") not in _HOST_PATHS:
        yield not_supported(f"{path}.type", source["type"], _HOST_PATHS)


def _network_path(source: Object, path: str) -> Iterator[Cause]:
    if not (source.get("path") or "").startswith("/"):
        yield invalid_value(f"{path}.path", source.get("path", ""), "must be an absolute path")


def check_shared_disk(source: Object, path: str, *, in_pod: bool = False) -> Iterator[Cause]:
    """Yield the errors in an iSCSI disk except missing fields; some messages differ for a pod."""
    name, initiator = source.get("iqn"), source.get("initiatorName")
    if name:
        yield from _check_initiator(f"{path}.iqn", name, in_pod)
    yield from check_range(f"{path}.lun", source.get("lun"), 0, 255)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(f"{path}.secretRef")
    if initiator is not None:
        yield from _check_initiator(f"{path}.initiatorname", initiator, in_pod)


def _check_initiator(path: str, name: str, in_pod: bool) -> Iterator[Cause]:
    if in_pod and not name.startswith(("iqn", "eui", "naa")):
        yield invalid_value(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not _INITIATOR.fullmatch(name):
        yield invalid_value(path, name, "must be valid format")


def _endpoints_namespace(source: Object, path: str) -> Iterator[Cause]:
    namespace = source.get("endpointsNamespace")
    if namespace is not None and subdomain_problems(namespace):
        message = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid_value(f"{path}.endpointsNamespace", namespace, message)


def _named_secret(source: Object, path: str) -> Iterator[Cause]:
    secret = source.get("secretRef")
    if secret is not None:
        yield from (required(f"{path}.secretRef.{part}") for part in ("name", "namespace") if not secret.get(part))


def _channels(source: Object, path: str) -> Iterator[Cause]:
    names, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    if not names and not ids:
        message = "must specify either targetWWNs or wwids, but not both"
        yield required(f"{path}.targetWWNs", message)
    if names and ids:
        yield invalid_value(f"{path}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if names:
        if source.get("lun") is None:
            yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
        yield from check_range(f"{path}.lun", source.get("lun"), 0, 255)


def _share(source: Object, path: str) -> Iterator[Cause]:
    if source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _cloud_disk(source: Object, path: str) -> Iterator[Cause]:
    caching, kind, address = source.get("cachingMode"), source.get("kind"), source.get("diskURI") or ""
    for field, value, allowed in (
        ("cachingMode", caching, ("None", "ReadOnly", "ReadWrite")),
        ("kind", kind, ("Dedicated", "Managed", "Shared")),
    ):
        if value is not None and value not in allowed:
            yield not_supported(f"{path}.{field}", value, allowed)
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        yield not_supported(f"{path}.diskURI", address, [managed])
    if kind != "Managed" and not address.startswith("https://"):
        yield not_supported(f"{path}.diskURI", address, [_DISK_ADDRESS])


def _registry(source: Object, path: str) -> Iterator[Cause]:
    registry, message = source.get("registry") or "", "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(f"{path}.registry", message)
    elif len(source.get("tenant") or "") > _LONGEST_TENANT:
        message = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        yield required(f"{path}.tenant", message)
    elif any(":" not in each for each in registry.split(",")):
        yield invalid_value(f"{path}.registry", registry, message)
    if not source.get("volume"):
        yield required(f"{path}.volume")


LONGEST_DRIVER = 63


def check_driver(path: str, name: str) -> Iterator[Cause]:
    """Check the name of a CSI driver, which is required."""
    if not name:
        yield required(path)
    if len(name) > LONGEST_DRIVER:
        yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {LONGEST_DRIVER} bytes")
    yield from check_name(path, name, driver_problems(name))


def driver_problems(name: str) -> list[str]:
    """Return the errors in the name of a CSI driver."""
    return list(subdomain_problems(name.lower())) if name else []


def _driver(source: Object, path: str) -> Iterator[Cause]:
    yield from check_driver(f"{path}.driver", source.get("driver") or "")
    if not source.get("volumeHandle"):
        yield required(f"{path}.volumeHandle")
    for field in _SECRETS:
        secret = source.get(field)
        if secret is None:
            continue
        yield from check_required_name(f"{path}.{field}.name", secret.get("name") or "", subdomain_problems)
        yield from check_required_name(f"{path}.{field}.namespace", secret.get("namespace") or "", label_problems)


def _flocker(source: Object, path: str) -> Iterator[Cause]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        message = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid_value(path, "resource", message)
    if "/" in name:
        yield invalid_value(f"{path}.datasetName", name, "must not contain '/'")


def _flex(source: Object, path: str) -> Iterator[Cause]:
    for key in source.get("options") or ():
        if f".{key.lower().partition('/')[0]}".endswith(_RESERVED):
            message = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid_value(f"{path}.options[{key}]", key, message)


_MORE: Mapping[str, Callable[[Object, str], Iterator[Cause]]] = {
    "gcePersistentDisk": _disk,
    "awsElasticBlockStore": _disk,
    "glusterfs": _endpoints_namespace,
    "nfs": _network_path,
    "quobyte": _registry,
    "iscsi": check_shared_disk,
    "cinder": _named_secret,
    "fc": _channels,
    "flexVolume": _flex,
    "flocker": _flocker,
    "azureFile": _share,
    "azureDisk": _cloud_disk,
    "local": _no_way_up,
    "storageos": _named_secret,
    "hostPath": _host_path,
    "csi": _driver,
}
"""Checks by kind of storage, besides those of missing fields."""


def volume_source_warnings(path: str, source: Object) -> list[str]:
    """Return the warnings for the kind of a volume."""
    return [f"{path}.{_NAMES.get(name, name)}: {OLD_VOLUMES[name]}" for name in source if name in OLD_VOLUMES]
