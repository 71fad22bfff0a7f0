"""Volumes, claims and what belongs to them, in few words; and a look at what the filters of a session hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.decode import KINDS
from kilauea.api.meta import Object
from kilauea.engine.plugins.predicates.volume_binding import VolumeBindingFilter
from kilauea.engine.session import Session
from support.builders import HOSTNAME, NAMESPACE, Data, need, pod

ZONE = "topology.kubernetes.io/zone"


def build(data: Data) -> Object:
    obj: Object = msgspec.convert(data, KINDS[data["kind"]])
    return obj


def some(**fields: Any) -> Data:
    return {name: value for name, value in fields.items() if value is not None}


def on(key: str, *values: str) -> Data:
    """Node affinity of a volume: a label with one of the values."""
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [need(key, "In", *values)]}]}}


def local(name: str) -> Data:
    return on(HOSTNAME, name)


def volume(
    name: str,
    size: str | None = "1Gi",
    of: str = "slow",
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str | None = "Available",
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    keep: str | Data | None = None,
    driver: str = "",
    **spec: Any,
) -> Object:
    """A volume; `keep` is the claim that it is kept for, `driver` its CSI driver."""
    metadata = {"name": name} | some(labels=labels, deletionTimestamp="2026-01-01T00:00:00Z" if deleting else None)
    ref = {"namespace": NAMESPACE, "name": keep} if isinstance(keep, str) else keep
    csi = {"driver": driver, "volumeHandle": f"handle-{name}"} if driver else None
    body = {"capacity": some(storage=size), "accessModes": list(modes), "storageClassName": of}
    body |= some(claimRef=ref, csi=csi) | spec
    return build({"kind": "PersistentVolume", "metadata": metadata, "spec": body, "status": some(phase=phase)})


def claim(
    name: str = "data",
    size: str | None = "1Gi",
    of: str | None = "slow",
    modes: Sequence[str] = ("ReadWriteOnce",),
    bound: str = "",
    phase: str | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    owner: str = "",
    uid: str | None = None,
    **spec: Any,
) -> Object:
    """A claim; `bound` is the volume that it is bound to."""
    marks = ({"pv.kubernetes.io/bind-completed": "yes"} if bound else {}) | dict(annotations or {})
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": marks} | some(
        uid=uid,
        deletionTimestamp="2026-01-01T00:00:00Z" if deleting else None,
        ownerReferences=[{"kind": "Pod", "name": owner, "uid": owner, "controller": True}] if owner else None,
    )
    body = {"accessModes": list(modes), "resources": {"requests": some(storage=size)}}
    body |= some(storageClassName=of, volumeName=bound or None) | spec
    stands = some(phase=phase or ("Bound" if bound else "Pending"))
    return build({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body, "status": stands})


def storage_class(
    name: str = "slow",
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
    **more: Any,
) -> Object:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    return build({"kind": "StorageClass"} | body | more)


def topologies(*terms: Mapping[str, Sequence[str]]) -> list[Data]:
    """Topologies of a class: terms of labels, each with its values."""
    return [{"matchLabelExpressions": [{"key": k, "values": list(v)} for k, v in term.items()]} for term in terms]


def csi_node(name: str, **limits: int | None) -> Object:
    """How many volumes of each driver a node takes."""
    drivers = [{"name": driver} | some(allocatable=some(count=count)) for driver, count in limits.items()]
    return build({"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}})


def migrated(name: str, *plugins: str) -> Object:
    """The node of a CSINode where drivers serve the volumes of some plugins of Kubernetes itself."""
    marks = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
    return build({"kind": "CSINode", "metadata": {"name": name, "annotations": marks}, "spec": {"drivers": []}})


def room(name: str, of: str, capacity: str | None, nodes: Data | None = None, most: str | None = None) -> Object:
    body = some(capacity=capacity, maximumVolumeSize=most, nodeTopology=nodes)
    metadata = {"name": name, "namespace": "drivers"}
    return build({"kind": "CSIStorageCapacity", "metadata": metadata, "storageClassName": of} | body)


def tracking(driver: str) -> Object:
    return build({"kind": "CSIDriver", "metadata": {"name": driver}, "spec": {"storageCapacity": True}})


def attached(volume: str, node: str, driver: str) -> Object:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return build({"kind": "VolumeAttachment", "metadata": {"name": f"{volume}-{node}"}, "spec": spec})


def mounts(*claims: str) -> list[Data]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def user(name: str, *claims: str, **more: Any) -> Object:
    """A pod that mounts claims."""
    return pod(name, volumes=mounts(*claims), **more)


def ephemeral(name: str, volume: str = "scratch", **more: Any) -> Object:
    """A pod with a generic ephemeral volume."""
    return pod(name, uid=name, volumes=[{"name": volume, "ephemeral": {"volumeClaimTemplate": {}}}], **more)


# --- inside a session


def filter_of(session: Session, type_: type[Any]) -> Any:
    """The filter of a session, found by what it listens to."""
    handlers = (getattr(handler, "__self__", None) for _, handler in session.points.on_allocate)
    return next(one for one in handlers if isinstance(one, type_))


def held(session: Session) -> dict[str, str]:
    """By claim, the volume that is held for it; for one that is to be made, the node in brackets."""
    holds = filter_of(session, VolumeBindingFilter).holds
    return {
        key.partition("/")[2]: hold.volume.name if hold.volume else f"({session.nodes.names[hold.row]})"
        for key, hold in sorted(holds.items())
    }
