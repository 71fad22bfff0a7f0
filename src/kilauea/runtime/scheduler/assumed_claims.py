"""Resource claims that are being allocated or reserved for another pod, overlaid on the claims that watches show.

From the decision until the watch shows the write, the claim has its devices, so the next cycle does not allocate them
again.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilauea.api.dynamic import Allocation, Consumer, ResourceClaim, ResourceClaimStatus


@dataclass
class AssumedClaim:
    """Assumptions about a claim.

    Attributes:
        uid: of the claim.
        allocation: its devices; None if it had some before.
        pods: by key of a pod that it is being reserved for: the entry, and the version of the claim that shows it, once
            written.
    """

    uid: str
    allocation: Allocation | None
    pods: dict[str, tuple[Consumer, str]] = field(default_factory=dict)
    made: ResourceClaim | None = None
    """The claim, if it is being created for the extended resources of a pod."""


class AssumedClaims:
    """Assumptions by key of the claim."""

    def __init__(self) -> None:
        self._claims: dict[str, AssumedClaim] = {}

    def reserve(
        self,
        key: str,
        uid: str,
        allocation: Allocation | None,
        pod: str,
        consumer: Consumer,
        made: ResourceClaim | None = None,
    ) -> None:
        """Assume that a claim has these devices, and is reserved for a pod; `made` if it must be created first."""
        known = self._claims.get(key)
        if known is None or known.uid != uid:
            known = self._claims[key] = AssumedClaim(uid, allocation, made=made)
        known.allocation = allocation or known.allocation
        known.pods[pod] = (consumer, "")

    def written(self, key: str, pod: str, version: str) -> None:
        """Record the version of a claim that shows its reservation for a pod."""
        known = self._claims.get(key)
        if known is not None and pod in known.pods:
            known.pods[pod] = (known.pods[pod][0], version)

    def drop_pod(self, pod: str) -> list[str]:
        """Drop the assumptions for a pod; returns the affected claims."""
        concerned = [key for key, claim in self._claims.items() if pod in claim.pods]
        for key in concerned:
            del self._claims[key].pods[pod]
            if not self._claims[key].pods:
                del self._claims[key]
        return concerned

    def gone(self, key: str) -> None:
        """Drop the assumptions about a claim that no longer exists."""
        self._claims.pop(key, None)

    def made(self, kept: Container[str]) -> list[ResourceClaim]:
        """The claims that are being created, in their future form, without those that already exist."""
        return [self.over(claim.made) for key, claim in list(self._claims.items()) if claim.made and key not in kept]

    def over(self, claim: ResourceClaim) -> ResourceClaim:
        """Return a claim overlaid with its assumptions; drop those that it confirms."""
        known = self._claims.get(claim.key)
        if known is None:
            return claim
        if known.made is None and known.uid != (claim.metadata.uid or ""):
            del self._claims[claim.key]
            return claim
        status = claim.status or ResourceClaimStatus()
        shown = {consumer.uid for consumer in status.reserved_for or ()}
        version = claim.metadata.resource_version or ""
        for pod, (consumer, written) in list(known.pods.items()):
            if consumer.uid in shown or (written and not _precedes(version, written)):
                del known.pods[pod]
        if not known.pods:
            del self._claims[claim.key]
            return claim
        reserved = [*(status.reserved_for or ()), *(consumer for consumer, _ in known.pods.values())]
        return replace(
            claim, status=replace(status, allocation=status.allocation or known.allocation, reserved_for=reserved)
        )


def _precedes(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(one) < int(other)
