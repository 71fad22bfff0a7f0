"""The writes that bind a claim and a volume, and the volume that is provisioned for a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import CLAIMS, VOLUMES
from kilauea.api.ports import Create, Obj, Operation, Patch, Record, key_of
from kilauea.api.wellknown import BIND_COMPLETED
from kilauea.controllers.objects import annotations_of, name_of, spec_of, status_of, status_patch, uid_of
from kilauea.controllers.volumes.matching import class_of

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")


def reference_to(claim: Obj) -> dict[str, Any]:
    """Return the reference of a volume to its claim."""
    metadata = claim["metadata"]
    names = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": "v1", "kind": CLAIMS.kind, "resourceVersion": metadata["resourceVersion"], **names}


def bound(claim: Obj, volume: Obj) -> list[Operation]:
    """Operations that bind a claim and a volume; the volume first, unless another client has changed it."""
    operations: list[Operation] = []
    if (spec_of(volume).get("claimRef") or {}).get("uid") != uid_of(claim):
        patch: dict[str, Any] = {"spec": {"claimRef": reference_to(claim)}}
        if not spec_of(volume).get("claimRef"):
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        operations.append(Patch(VOLUMES, key_of(volume), patch, version=volume["metadata"]["resourceVersion"]))
    operations += status_patch(VOLUMES, volume, {"phase": "Bound"})
    operations += _claimed(claim, volume)
    state = {
        "phase": "Bound",
        "accessModes": spec_of(volume).get("accessModes"),
        "currentVolumeAttributesClassName": spec_of(volume).get("volumeAttributesClassName"),
        "capacity": spec_of(volume).get("capacity"),
    }
    return [*operations, *status_patch(CLAIMS, claim, state)]


def _claimed(claim: Obj, volume: Obj) -> Sequence[Operation]:
    wanted = {BIND_COMPLETED: "yes"}
    patch: dict[str, Any] = {}
    if not spec_of(claim).get("volumeName"):
        patch["spec"] = {"volumeName": name_of(volume)}
        wanted[BOUND_BY_CONTROLLER] = "yes"
    missing = {name: value for name, value in wanted.items() if annotations_of(claim).get(name) != value}
    if missing:
        patch["metadata"] = {"annotations": missing}
    return [Patch(CLAIMS, key_of(claim), patch)] if patch else []


def announced(claim: Obj, provisioner: str) -> list[Operation]:
    """Write the provisioner of its volume to a claim."""
    if all(annotations_of(claim).get(name) == provisioner for name in PROVISIONERS):
        return []
    annotations = dict.fromkeys(PROVISIONERS, provisioner)
    return [Patch(CLAIMS, key_of(claim), {"metadata": {"annotations": annotations}})]


def provisioned(claim: Obj, storage_class: Obj, segment: Sequence[Obj] = ()) -> list[Operation]:
    """Create the volume of a claim; it can be used on the nodes of a segment, or everywhere if that is empty."""
    name, wants = f"pvc-{uid_of(claim)}", spec_of(claim)
    provisioner = str(storage_class["provisioner"])
    spec = {
        "accessModes": wants.get("accessModes") or [],
        "capacity": {"storage": ((wants.get("resources") or {}).get("requests") or {}).get("storage", "0")},
        "claimRef": reference_to(claim),
        "hostPath": {"path": f"/var/lib/kilauea/volumes/{name}"},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": class_of(claim),
        "volumeMode": wants.get("volumeMode", "Filesystem"),
    }
    if segment:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [*segment]}]}}
    metadata = {"name": name, "annotations": {PROVISIONED_BY: provisioner}}
    made = {"apiVersion": "v1", "kind": VOLUMES.kind, "metadata": metadata, "spec": spec}
    message = f"Successfully provisioned volume {name}"
    return [
        *announced(claim, provisioner),
        Create(VOLUMES, made, about=claim),
        Record(claim, "Normal", "ProvisioningSucceeded", message),
    ]


def lost(claim: Obj) -> list[Operation]:
    """Report that the volume of a claim is gone."""
    said = status_patch(CLAIMS, claim, {"phase": "Lost", "accessModes": None, "capacity": None})
    if status_of(claim).get("phase") == "Lost":
        return []
    message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    return [*said, Record(claim, "Warning", "ClaimLost", message)]
