"""Volume claims: pods that must wait for theirs, and the filters that evaluate nodes by them.

This costs nothing in a cluster where no waiting pod has a claim.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Refusal
from kilauea.engine.model.task_specs import ClaimUse
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.volumes import Claim
from kilauea.engine.plugins.predicates.volume_binding import VolumeBindingFilter
from kilauea.engine.plugins.predicates.volume_disks import DiskFilter
from kilauea.engine.plugins.predicates.volume_limits import VolumeLimitsFilter
from kilauea.engine.plugins.predicates.volume_zones import VolumeZoneFilter
from kilauea.engine.session import Session

CODE = "VolumesNotReady"


class VolumeFilters:
    """The enabled filters.

    Args:
        session: the session.
        binding: bind claims, and respect bound claims.
        zone: respect the zones of volumes.
        limits: respect the limits of drivers.
        timeout: seconds until a claim should be bound.
        curve: (101,) the score of storage by percentage of utilization; None for no score.
        weight: of that score.
    """

    def __init__(
        self,
        session: Session,
        *,
        binding: bool,
        zone: bool,
        limits: bool,
        timeout: int,
        curve: NDArray[np.int64] | None = None,
        weight: float = 1.0,
    ) -> None:
        self._curve, self._weight = curve, weight
        self._session = session
        self._storage = session.state.storage
        self._binding, self._zone, self._limits, self._timeout = binding, zone, limits, timeout

    def register(self, plugin: str) -> None:
        """Register with the session, if any waiting pod has claims."""
        state = self._session.state
        waiting = state.unplaced.values()
        claims = bool(state.with_claims) and any(task.spec.claims for task in waiting)
        inline = bool(state.with_disks) and any(task.spec.inline or task.spec.disks for task in waiting)
        if inline and self._binding:
            DiskFilter(self._session).register(plugin)
        if self._limits and (claims or inline):
            VolumeLimitsFilter(self._session).register(plugin)
        if not claims:
            return
        if self._zone:
            VolumeZoneFilter(self._session).register(plugin)
        if self._binding:
            VolumeBindingFilter(self._session, self._timeout, self._curve, self._weight).register(plugin)

    def refusal(self, task: Task) -> Refusal | None:
        """Return the reason why a pod waits for its claims, regardless of the node."""
        if not task.spec.claims or not (self._binding or self._zone or self._limits):
            return None
        message = self._not_ready(task)
        return Refusal(CODE, message) if message else None

    def _not_ready(self, task: Task) -> str:
        """The first problem with the claims themselves; empty if there is none."""
        for use in task.spec.claims:
            message = self._missing(task, use)
            if message:
                return message
        claims = [self._storage.claims[use.key] for use in task.spec.claims]
        if self._binding and any(not c.bound and not self._storage.is_delayed(c) for c in claims):
            return "pod has unbound immediate PersistentVolumeClaims"
        if self._zone:
            return next((message for claim in claims if (message := self._without_zone(claim))), "")
        return ""

    def _missing(self, task: Task, use: ClaimUse) -> str:
        """The reason why a claim cannot be used."""
        claim = self._storage.claims.get(use.key)
        name = use.key.partition("/")[2]
        if claim is None and use.own:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if not self._binding:
            return ""
        if claim.lost:
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
        if claim.deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if use.own and claim.controller != task.uid:
            return f"PVC {use.key} was not created for pod {task.key} (pod is not owner)"
        return ""

    def _without_zone(self, claim: Claim) -> str:
        """The reason why the zones of a claim are unknown."""
        if claim.volume:
            return "" if claim.volume in self._storage.volumes else f'persistentvolume "{claim.volume}" not found'
        if not claim.class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        of = self._storage.classes.get(claim.class_name)
        if of is None:
            return f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return "" if of.delayed else "PersistentVolume had no name"
