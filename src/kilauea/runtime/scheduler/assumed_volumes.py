"""Volume claims that are being bound, overlaid on the claims and volumes that watches show.

From the decision until the watch shows the write, a volume is reserved for its claim, and a claim whose volume is being
provisioned has its node. So the next cycle does not assign them again. Nodes where a claim was not bound in time are
recorded on the claim for a while, so that its pod is placed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilauea.api import wellknown
from kilauea.api.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from kilauea.engine.model.volumes import FAILED_NODES, ClaimVolume

Place = tuple[str, str]
"""Kind and key of an object."""


@dataclass
class AssumedVolume:
    """Assumptions about a claim.

    Attributes:
        uid: of the claim.
        volume: its volume; empty if one is provisioned.
        node: the node of its pods.
        pods: pods that wait for it.
        shown: True once the watch has shown the write.
    """

    uid: str
    volume: str
    node: str
    pods: set[str] = field(default_factory=set)
    shown: bool = False


class AssumedVolumes:
    """Assumptions by key of the claim."""

    def __init__(self) -> None:
        self._claims: dict[str, AssumedVolume] = {}
        self._by_volume: dict[str, str] = {}
        """The claim that each volume is reserved for."""
        self._failed: dict[str, dict[str, None]] = {}
        """By claim: nodes where it was not bound in time."""

    def assume(self, given: ClaimVolume, pod: str, node: str) -> list[Place]:
        """Assume that a claim gets the volume of a plan; returns the affected objects."""
        known = self._claims.get(given.claim)
        if known is None or (known.uid, known.volume) != (given.uid, given.volume):
            known = self._claims[given.claim] = AssumedVolume(given.uid, given.volume, node)
        known.pods.add(pod)
        if given.volume:
            self._by_volume[given.volume] = given.claim
        return _places(given.claim, given.volume)

    def drop_pod(self, pod: str) -> list[Place]:
        """Drop the assumptions for a pod; returns the affected objects."""
        out: list[Place] = []
        for key in [key for key, known in self._claims.items() if pod in known.pods]:
            known = self._claims[key]
            known.pods.discard(pod)
            if not known.pods:
                del self._claims[key]
                self._by_volume.pop(known.volume, None)
                out += _places(key, known.volume)
        return out

    def fail(self, claims: Iterable[str], node: str) -> list[Place]:
        """Record that claims were not bound on a node in time; returns the affected objects."""
        keys = list(claims)
        for key in keys:
            self._failed.setdefault(key, {})[node] = None
        return [place for key in keys for place in _places(key, "")]

    def forgive(self, claims: Iterable[str], node: str) -> list[Place]:
        """Undo `fail`."""
        keys = [key for key in claims if node in self._failed.get(key, {})]
        for key in keys:
            del self._failed[key][node]
            if not self._failed[key]:
                del self._failed[key]
        return [place for key in keys for place in _places(key, "")]

    def gone(self, claim: str) -> None:
        """Drop the assumptions about a claim that no longer exists."""
        known = self._claims.pop(claim, None)
        if known is not None:
            self._by_volume.pop(known.volume, None)
        self._failed.pop(claim, None)

    def over_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Return a volume, reserved for its assumed claim."""
        key = self._by_volume.get(volume.name, "")
        known, ref = self._claims.get(key), volume.spec.claim_ref
        if known is None or known.shown:
            return volume
        if ref is not None and ref.uid:
            known.shown = True
            return volume
        namespace, _, name = key.partition("/")
        spec = replace(volume.spec, claim_ref=ClaimReference(namespace, name, known.uid))
        return replace(volume, spec=spec)

    def over_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a claim with the node that its volume is provisioned for, and the nodes where it failed."""
        marks: dict[str, str] = {}
        known = self._claims.get(claim.key)
        if known is not None and known.uid != (claim.metadata.uid or ""):
            self.gone(claim.key)
        elif known is not None and not known.volume and not known.shown:
            known.shown = wellknown.SELECTED_NODE in claim.annotations
            marks[wellknown.SELECTED_NODE] = claim.annotations.get(wellknown.SELECTED_NODE, known.node)
        failed = self._failed.get(claim.key)
        if failed:
            marks[FAILED_NODES] = ",".join(failed)
        if not marks:
            return claim
        return replace(claim, metadata=replace(claim.metadata, annotations={**claim.annotations, **marks}))


def _places(claim: str, volume: str) -> list[Place]:
    return [("PersistentVolumeClaim", claim), *([("PersistentVolume", volume)] if volume else [])]
