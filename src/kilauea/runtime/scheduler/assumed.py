"""Decisions that the watches have not confirmed yet, overlaid on the objects that they show.

Until the watch confirms a cycle, the scheduler assumes its own decisions: a pod that is being bound is on its node, a
victim is terminating, a preemptor is nominated, a pod group has its new phase. So the next cycle places nothing twice.
Each assumption is about one object (by uid) and ends when the watch shows it, when the object is gone, or when the
write has finally failed.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kilauea.api import wellknown
from kilauea.api.core import Pod, PodStatus, SchedulingGate
from kilauea.api.scheduling import PodGroup, PodGroupStatus
from kilauea.runtime.scheduler.assumed_claims import AssumedClaims
from kilauea.runtime.scheduler.assumed_volumes import AssumedVolumes

HELD_BACK = "kilauea.io/held-back"
"""A scheduling gate overlaid on pods whose binding failed, until their backoff ends."""
_DELETED = "1970-01-01T00:00:00Z"


class Placed(NamedTuple):
    """A pod, by uid, that is bound or being bound to a node."""

    uid: str
    node: str
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations that the pod gets with the bind."""


class Failures(NamedTuple):
    """A pod, by uid, and the number of consecutive failures of its operations."""

    uid: str
    times: int


class Phased(NamedTuple):
    """A pod group, by uid, and its phase."""

    uid: str
    phase: str


class Assumed:
    """Assumptions by kind of decision and key of the object."""

    def __init__(self) -> None:
        self.binds: dict[str, Placed] = {}
        self.evictions: dict[str, str] = {}
        """Victims and their uid."""
        self.nominations: dict[str, Placed] = {}
        """Nominated pods and their node; an empty node clears the nomination."""
        self.held: dict[str, str] = {}
        """Pods, with their uid, that are excluded from scheduling after a failure."""
        self.failures: dict[str, Failures] = {}
        """Failures of pods whose binds or evictions fail, as long as the pods exist."""
        self.phases: dict[str, Phased] = {}
        self.claims = AssumedClaims()
        self.volumes = AssumedVolumes()

    def over_pod(self, pod: Pod) -> Pod:
        """Return a pod overlaid with its assumptions; drop those that it confirms."""
        key, uid = pod.key, pod.metadata.uid or ""
        pod = self._over_nomination(pod, key, uid)
        placed = self.binds.get(key)
        if placed is not None:
            if placed.uid != uid or pod.spec.node_name or pod.metadata.deletion_timestamp:
                del self.binds[key]
            else:
                pod = replace(pod, spec=replace(pod.spec, node_name=placed.node))
                if placed.annotations:
                    marks = {**pod.annotations, **dict(placed.annotations)}
                    pod = replace(pod, metadata=replace(pod.metadata, annotations=marks))
        victim = self.evictions.get(key)
        if victim is not None:
            if victim != uid or pod.metadata.deletion_timestamp or _has_ended(pod.status):
                del self.evictions[key]
            else:
                pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=_DELETED))
        held = self.held.get(key)
        if held is not None:
            if held != uid:
                del self.held[key]
            else:
                pod = _held_back(pod)
        return pod

    def _over_nomination(self, pod: Pod, key: str, uid: str) -> Pod:
        promised = self.nominations.get(key)
        if promised is None:
            return pod
        shown = (pod.status and pod.status.nominated_node_name) or ""
        over = pod.spec.node_name or pod.metadata.deletion_timestamp or shown == promised.node
        if promised.uid != uid or over:
            del self.nominations[key]
            return pod
        return replace(pod, status=replace(pod.status or PodStatus(), nominated_node_name=promised.node or None))

    def over_group(self, group: PodGroup) -> PodGroup:
        """Return a pod group overlaid with its assumed phase."""
        phased = self.phases.get(group.key)
        if phased is None:
            return group
        if phased.uid != (group.metadata.uid or ""):
            del self.phases[group.key]
            return group
        return replace(group, status=replace(group.status or PodGroupStatus(), phase=phased.phase))

    def gone(self, kind: str, key: str) -> list[str]:
        """Drop the assumptions about an object that no longer exists; returns resource claims to be overlaid again."""
        if kind == "Pod":
            for table in (self.binds, self.evictions, self.nominations, self.held, self.failures):
                table.pop(key, None)
            return self.claims.drop_pod(key)
        if kind == "PodGroup":
            self.phases.pop(key, None)
        elif kind == "ResourceClaim":
            self.claims.gone(key)
        elif kind == "PersistentVolumeClaim":
            self.volumes.gone(key)
        return []


def _has_ended(status: PodStatus | None) -> bool:
    return status is not None and status.phase in ("Succeeded", "Failed")


def _held_back(pod: Pod) -> Pod:
    """Return a pod that cycles do not touch: gated if it is pending, not preemptable if it runs."""
    if pod.spec.node_name:
        annotations = {**pod.annotations, wellknown.PREEMPTABLE: "false"}
        return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
    gates = [*(pod.spec.scheduling_gates or ()), SchedulingGate(HELD_BACK)]
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gates))
