"""Resource claims in a simulation: created from templates, allocated when pods start, released when pods end.

The claims for extended resources are created when pods start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kilauea.api.core import Pod, PodClaimStatus, PodStatus
from kilauea.api.dynamic import (
    CLAIM_OF_POD,
    EXTENDED_CLAIM,
    Consumer,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from kilauea.api.meta import Object, ObjectMeta, OwnerReference
from kilauea.engine.model.claims.table import ClaimAllocation, claims_of_pod

ENDED = ("Succeeded", "Failed")


def made_claims(pod: Pod, templates: dict[str, ResourceClaimTemplate]) -> tuple[Pod, list[ResourceClaim]]:
    """Return a pod and the missing claims from its templates, named `pod-name`."""
    claims, statuses = [], list((pod.status.resource_claim_statuses if pod.status else None) or ())
    for ref in claims_of_pod(pod):
        template = templates.get(ref.template)
        if ref.key or not ref.needed or template is None:
            continue
        name = f"{pod.name}-{ref.name}"
        of = template.spec.metadata or ObjectMeta()
        metadata = ObjectMeta(
            name=name,
            namespace=pod.namespace,
            uid=f"{pod.metadata.uid or pod.key}-{ref.name}",
            labels=of.labels,
            annotations={**(of.annotations or {}), CLAIM_OF_POD: ref.name},
            creation_timestamp=pod.metadata.creation_timestamp,
            owner_references=[_owner(pod)],
        )
        claims.append(ResourceClaim("resource.k8s.io/v1", "ResourceClaim", metadata, template.spec.spec))
        statuses.append(PodClaimStatus(ref.name, name))
    if not claims:
        return pod, []
    return replace(pod, status=replace(pod.status or PodStatus(), resource_claim_statuses=statuses)), claims


def with_made_claims(objects: Sequence[Object]) -> list[Object]:
    """Return objects with the claims from templates among them for waiting pods."""
    templates = {obj.key: obj for obj in objects if isinstance(obj, ResourceClaimTemplate)}
    if not templates:
        return list(objects)
    known = {obj.key for obj in objects if isinstance(obj, ResourceClaim)}
    out: list[Object] = []
    for obj in objects:
        if not isinstance(obj, Pod) or obj.spec.node_name or (obj.status and obj.status.phase in ENDED):
            out.append(obj)
            continue
        pod, claims = made_claims(obj, templates)
        if not any(claim.key in known for claim in claims):
            out += [pod, *claims]
        else:
            out.append(obj)
    return out


def _owner(pod: Pod) -> OwnerReference:
    return OwnerReference("Pod", pod.name, pod.metadata.uid or pod.key, "v1", controller=True)


def special_claim(key: str, spec: ResourceClaimSpec, pod: Pod, created: str) -> ResourceClaim:
    """Return the claim for the extended resources of a pod that starts."""
    name = key.partition("/")[2]
    metadata = ObjectMeta(
        name=name,
        namespace=pod.namespace,
        uid=f"{pod.metadata.uid or pod.key}-extended-resources",
        annotations={EXTENDED_CLAIM: "true"},
        creation_timestamp=created,
        owner_references=[_owner(pod)],
    )
    return ResourceClaim("resource.k8s.io/v1", "ResourceClaim", metadata, spec)


def allocated(claim: ResourceClaim, given: ClaimAllocation, pod: Pod) -> ResourceClaim:
    """Return a claim with its devices, reserved for a pod that starts."""
    status = claim.status or ResourceClaimStatus()
    consumer = Consumer(None, "pods", pod.name, pod.metadata.uid or "")
    others = [each for each in status.reserved_for or () if each.uid != consumer.uid]
    return replace(
        claim,
        status=replace(status, allocation=status.allocation or given.allocation, reserved_for=[*others, consumer]),
    )


def released(claims: Iterable[ResourceClaim], pod: Pod) -> list[ResourceClaim]:
    """Return the claims that change when a pod is deleted; a claim without pods releases its devices."""
    out = []
    uid = pod.metadata.uid or ""
    for claim in claims:
        reserved = (claim.status.reserved_for if claim.status else None) or []
        kept = [each for each in reserved if each.uid != uid]
        if len(kept) < len(reserved) and claim.status is not None:
            allocation = claim.status.allocation if kept else None
            out.append(replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=kept or None)))
    return out


def is_owned(claim: ResourceClaim, pod: Pod) -> bool:
    """Return True if a claim was created for a pod."""
    uid = pod.metadata.uid or pod.key
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references or ())
