"""Volume claims in a simulation: made for ephemeral volumes, and bound as pods start."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.meta import Object, ObjectMeta, OwnerReference
from kilauea.api.storage import (
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)
from kilauea.engine.model.volumes import BOUND, ClaimVolume

ENDED = ("Succeeded", "Failed")


def with_ephemeral_claims(objects: Sequence[Object]) -> list[Object]:
    """Return objects with the claims that a cluster would make for the ephemeral volumes of pods that wait."""
    out, known = list(objects), {obj.key for obj in objects if isinstance(obj, PersistentVolumeClaim)}
    for obj in objects:
        if isinstance(obj, Pod) and not obj.spec.node_name and not (obj.status and obj.status.phase in ENDED):
            out += [claim for claim in ephemeral_claims(obj) if claim.key not in known]
    return out


def ephemeral_claims(pod: Pod) -> list[PersistentVolumeClaim]:
    """The claims of a pod's ephemeral volumes, as far as their templates are known."""
    claims = []
    for volume in pod.spec.volumes or ():
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        try:
            spec = msgspec.convert((template or {})["spec"], PersistentVolumeClaimSpec)
        except (KeyError, msgspec.ValidationError):
            continue  # the pod waits for a claim that no cluster would make
        owner = OwnerReference("Pod", pod.name, pod.metadata.uid or "", "v1", controller=True)
        name = f"{pod.name}-{volume.name}"
        metadata = ObjectMeta(
            name=name,
            namespace=pod.namespace,
            uid=f"{pod.metadata.uid or pod.key}-{volume.name}",
            creation_timestamp=pod.metadata.creation_timestamp,
            owner_references=[owner],
        )
        claims.append(PersistentVolumeClaim("v1", "PersistentVolumeClaim", metadata, spec))
    return claims


def bound(claim: PersistentVolumeClaim, volume: PersistentVolume | None, given: ClaimVolume) -> list[Object]:
    """Return a claim and its volume, bound to each other; the volume is made if there is none."""
    if volume is None:
        volume = _made(claim, given)
    ref = ClaimReference(claim.namespace, claim.name, claim.metadata.uid or "")
    spec, marks = replace(volume.spec, claim_ref=ref), {**claim.annotations, wellknown.BIND_COMPLETED: "yes"}
    return [
        replace(volume, spec=spec, status=PersistentVolumeStatus(BOUND)),
        replace(
            claim,
            metadata=replace(claim.metadata, annotations=marks),
            spec=replace(claim.spec, volume_name=volume.name),
            status=PersistentVolumeClaimStatus(BOUND),
        ),
    ]


def _made(claim: PersistentVolumeClaim, given: ClaimVolume) -> PersistentVolume:
    """The volume that a provisioner makes for a claim."""
    wants: PersistentVolumeClaimSpec = claim.spec
    spec = PersistentVolumeSpec(
        capacity=(wants.resources.requests if wants.resources else None) or {},
        access_modes=wants.access_modes,
        storage_class_name=given.class_name,
        volume_mode=wants.volume_mode,
    )
    name = f"pvc-{claim.metadata.uid or claim.key.replace('/', '-')}"
    return PersistentVolume("v1", "PersistentVolume", ObjectMeta(name=name), spec)
