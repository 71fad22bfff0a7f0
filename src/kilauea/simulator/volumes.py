"""Volume claims in a simulation: created for ephemeral volumes, and bound when pods start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kilauea.api import wellknown
from kilauea.api.core import Node, NodeSelector, NodeSelectorTerm, Pod
from kilauea.api.meta import Object, ObjectMeta, OwnerReference, SelectorRequirement
from kilauea.api.storage import (
    ClaimReference,
    CSINode,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from kilauea.engine.model.volumes import BOUND, ClaimVolume

IN_TREE = "kubernetes.io/"
"""Prefix of in-tree provisioners, whose volumes do not belong to a CSI driver."""
ENDED = ("Succeeded", "Failed")


def with_ephemeral_claims(objects: Sequence[Object]) -> list[Object]:
    """Return objects with the claims for ephemeral volumes of waiting pods, as a cluster would create them."""
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
            continue  # the pod waits for a claim that no cluster would create
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


class Place(NamedTuple):
    """The node for which a volume is provisioned, and related objects."""

    node: Node | None
    drivers: CSINode | None
    """The drivers of the node."""
    of: StorageClass | None
    """The class of the volume."""


def bound(
    claim: PersistentVolumeClaim, volume: PersistentVolume | None, given: ClaimVolume, place: Place
) -> list[Object]:
    """Return a claim and its volume, bound to each other; without a volume, it is provisioned for the node."""
    if volume is None:
        volume = _made(claim, given, place)
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


def _made(claim: PersistentVolumeClaim, given: ClaimVolume, place: Place) -> PersistentVolume:
    """The volume that a provisioner creates for a claim, reachable from the pod's node."""
    wants: PersistentVolumeClaimSpec = claim.spec
    name = f"pvc-{claim.metadata.uid or claim.key.replace('/', '-')}"
    driver = place.of.provisioner if place.of is not None else ""
    spec = PersistentVolumeSpec(
        capacity=(wants.resources.requests if wants.resources else None) or {},
        access_modes=wants.access_modes,
        storage_class_name=given.class_name,
        volume_mode=wants.volume_mode,
        node_affinity=_reach(place),
        csi=CSIVolumeSource(driver, name) if driver and not driver.startswith(IN_TREE) else None,
    )
    return PersistentVolume("v1", "PersistentVolume", ObjectMeta(name=name), spec)


def _reach(place: Place) -> VolumeNodeAffinity | None:
    """The nodes that reach a volume provisioned for a node; None for all.

    They have the same values of the labels that the driver names on the node, or else of those of the class.
    """
    if place.node is None or place.of is None:
        return None
    named = (place.drivers.spec.drivers or ()) if place.drivers is not None else ()
    keys = {key for driver in named if driver.name == place.of.provisioner for key in driver.topology_keys or ()}
    if not keys:
        terms = place.of.allowed_topologies or ()
        keys = {each.key for term in terms for each in term.match_label_expressions or ()}
    labels = place.node.labels
    wanted = [SelectorRequirement(key, "In", [labels[key]]) for key in sorted(keys) if key in labels]
    if not wanted:
        return None
    return VolumeNodeAffinity(NodeSelector([NodeSelectorTerm(match_expressions=wanted)]))
