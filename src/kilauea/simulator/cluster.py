"""A simulated cluster that carries out plans and advances time.

One cycle of the scheduler takes one second. Nodes and controllers act at once and as simply as possible in that second:

- Bound pods run.
- Evicted pods terminate. They keep their resources for `spec.terminationGracePeriodSeconds`, one cycle per second; a
  pod without a grace period is gone before the next cycle. Pods that are already terminating disappear at their
  `deletionTimestamp`. A pod with finalizers stays.
- A deleted pod with a controller comes back: pending, with the same name and a new uid. Other pods do not.
- Resource claims get their devices as a pod starts, and give them back when it is gone; a pod that comes back gets new
  claims from its templates.
- Volume claims are bound as a pod starts, and stay so. Volumes that a provisioner makes can be used on the nodes that
  have the same topology as the pod's, by the labels that the driver or the class names; without any on all nodes.
- Nominations are written to `status.nominatedNodeName`, and cleared for pods that wait without one, as the live
  scheduler does. Pod groups get the phase of the plan.

All state is in the objects, so a simulation can continue from its own objects. `kilauea plan --cycles` and the tests in
`tests/over_time` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kilauea.api.core import Node, Pod, PodCondition, PodStatus
from kilauea.api.dynamic import EXTENDED_CLAIM, ResourceClaim, ResourceClaimTemplate
from kilauea.api.errors import object_label
from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.kubernetes_groups import (
    SCHEDULED,
    VERSIONS,
    GroupCondition,
    KubernetesPodGroup,
    KubernetesPodGroupStatus,
)
from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup, PodGroupStatus
from kilauea.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.engine.events import Changed, Event, Gone
from kilauea.engine.model.claims.extended import container_asks
from kilauea.engine.model.jobs import RUNNING
from kilauea.engine.model.kubernetes_groups import object_key, was_scheduled
from kilauea.engine.plan import Bind, Plan
from kilauea.simulator.claims import allocated, is_owned, made_claims, released, special_claim
from kilauea.simulator.volumes import Place, bound, ephemeral_claims

CYCLE = SECOND
"""Duration of a cycle in microseconds."""

_LIFE = re.compile(r"(.*)~([0-9]+)")
"""The uid of a replaced pod, and the number of pods with its name so far."""


class SimulatedCluster:
    """Objects and a time. Each method that changes objects returns the watch events of the change.

    Args:
        objects: the cluster at the beginning; the objects themselves are never changed.
        now: the time of the first cycle, in microseconds since 1970.
    """

    def __init__(self, objects: Iterable[Object], now: int) -> None:
        self.now = now
        self._objects: dict[tuple[str, str], Object] = {}
        self._terminating: dict[str, int] = {}
        """Time at which each terminating pod disappears."""
        self._nominated: set[str] = set()
        for obj in objects:
            self._put(obj)

    @property
    def objects(self) -> list[Object]:
        """All current objects."""
        return list(self._objects.values())

    @property
    def settled(self) -> bool:
        """True if no pod is terminating."""
        return not self._terminating

    def pod(self, key: str) -> Pod | None:
        """The pod `namespace/name`, if it exists."""
        found = self._objects.get(("Pod", key))
        return found if isinstance(found, Pod) else None

    def put(self, *objects: Object) -> list[Event]:
        """Create or replace objects."""
        return [self._put(obj) for obj in objects]

    def remove(self, kind: str, key: str) -> list[Event]:
        """Delete an object (`key` as in events) at once."""
        if self._objects.pop((kind, key), None) is None:
            return []
        if kind == "Pod":
            self._terminating.pop(key, None)
            self._nominated.discard(key)
        return [Gone(kind, key)]

    def carry_out(self, plan: Plan) -> list[Event]:
        """Carry out a plan and advance by one cycle; no events mean that nothing changed."""
        events: list[Event] = []
        for eviction in plan.evictions:
            events += self._evict(eviction.pod)
        for bind in plan.binds:
            events += self._allocate(bind)
            events += self._bind_volumes(bind)
            events += self._run(bind.pod, bind.node, dict(bind.annotations))
        for decided in plan.released:
            claim = self._objects.get(("ResourceClaim", decided.claim))
            if isinstance(claim, ResourceClaim) and claim.annotations.get(EXTENDED_CLAIM) == "true":
                events += self.remove("ResourceClaim", claim.key)
            elif isinstance(claim, ResourceClaim):
                events.append(self._put(msgspec.structs.replace(claim, status=None)))
        events += self._nominate(plan)
        for key, outcome in plan.groups.items():
            events += self._set_phase(key, outcome.phase) + self._set_scheduled(key, outcome.phase)
        self.now += CYCLE
        for key in [key for key, end in self._terminating.items() if end < self.now]:
            events += self._finish(key)
        return events

    # --- pods

    def _evict(self, key: str) -> list[Event]:
        pod = self.pod(key)
        if pod is None or pod.metadata.deletion_timestamp:
            return []
        end = self.now + max(pod.spec.termination_grace_period_seconds or 0, 0) * SECOND
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=format_time(end))
        return [self._put(msgspec.structs.replace(pod, metadata=metadata))]

    def _run(self, key: str, node: str, annotations: dict[str, str]) -> list[Event]:
        pod = self.pod(key)
        if pod is None:
            return []
        scheduled = PodCondition("PodScheduled", "True", format_time(self.now))
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        if annotations:
            metadata = msgspec.structs.replace(pod.metadata, annotations={**pod.annotations, **annotations})
            pod = msgspec.structs.replace(pod, metadata=metadata)
        made = pod.status.resource_claim_statuses if pod.status else None
        status = PodStatus(phase="Running", conditions=[scheduled], resource_claim_statuses=made)
        return [self._put(msgspec.structs.replace(pod, spec=spec, status=status))]

    def _nominate(self, plan: Plan) -> list[Event]:
        nodes = {promise.pod: promise.node for promise in plan.nominations}
        events: list[Event] = []
        for key in sorted(self._nominated | nodes.keys()):
            pod, node = self.pod(key), nodes.get(key)
            if pod is None or pod.spec.node_name:
                continue
            known = pod.status or PodStatus(phase="Pending")
            if (known.nominated_node_name or None) != node:
                status = msgspec.structs.replace(known, nominated_node_name=node)
                events.append(self._put(msgspec.structs.replace(pod, status=status)))
        return events

    def _finish(self, key: str) -> list[Event]:
        """Delete a pod; its controller creates another."""
        pod = self.pod(key)
        events = self.remove("Pod", key)
        if pod is not None and (pod.spec.resource_claims or container_asks(pod)):
            events += self._release(pod)
        if pod is not None:
            for claim in ephemeral_claims(pod):
                events += self.remove("PersistentVolumeClaim", claim.key)
        if pod is not None and any(owner.controller for owner in pod.metadata.owner_references or ()):
            reborn, claims = made_claims(self._reborn(pod), self._templates())
            events += [self._put(obj) for obj in (reborn, *claims, *ephemeral_claims(reborn))]
        return events

    # --- volumes

    def _bind_volumes(self, bind: Bind) -> list[Event]:
        """Bind the volume claims of a pod that starts."""
        events: list[Event] = []
        for given in bind.volumes:
            claim = self._objects.get(("PersistentVolumeClaim", given.claim))
            volume = self._objects.get(("PersistentVolume", given.volume))
            if isinstance(claim, PersistentVolumeClaim) and not claim.spec.volume_name:
                known = volume if isinstance(volume, PersistentVolume) else None
                place = self._place(bind.node, given.class_name)
                events += [self._put(obj) for obj in bound(claim, known, given, place)]
        return events

    def _place(self, node: str, class_name: str) -> Place:
        """The objects that determine which nodes reach a provisioned volume."""
        there, drivers = self._objects.get(("Node", node)), self._objects.get(("CSINode", node))
        of = self._objects.get(("StorageClass", class_name))
        return Place(
            there if isinstance(there, Node) else None,
            drivers if isinstance(drivers, CSINode) else None,
            of if isinstance(of, StorageClass) else None,
        )

    # --- resource claims

    def _allocate(self, bind: Bind) -> list[Event]:
        """Allocate the devices of the claims of a pod that starts."""
        pod, events = self.pod(bind.pod), []
        for given in bind.claims if pod is not None else ():
            claim = self._objects.get(("ResourceClaim", given.claim))
            if claim is None and given.special is not None and pod is not None:
                claim = special_claim(given.claim, given.special.spec, pod, format_time(self.now))
            if isinstance(claim, ResourceClaim) and pod is not None:
                events.append(self._put(allocated(claim, given, pod)))
        return events

    def _release(self, pod: Pod) -> list[Event]:
        """Release the claims of a deleted pod; those created for it are deleted, too."""
        claims = [obj for obj in self._objects.values() if isinstance(obj, ResourceClaim)]
        events = [
            event for claim in claims if is_owned(claim, pod) for event in self.remove("ResourceClaim", claim.key)
        ]
        return events + [self._put(claim) for claim in released(claims, pod) if not is_owned(claim, pod)]

    def _templates(self) -> dict[str, ResourceClaimTemplate]:
        return {obj.key: obj for obj in self._objects.values() if isinstance(obj, ResourceClaimTemplate)}

    def _reborn(self, pod: Pod) -> Pod:
        metadata = msgspec.structs.replace(
            pod.metadata,
            uid=_next_uid(pod.metadata.uid or pod.key),
            creation_timestamp=format_time(self.now),
            deletion_timestamp=None,
            resource_version=None,
        )
        spec = msgspec.structs.replace(pod.spec, node_name=None)
        return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))

    # --- other objects

    def _set_phase(self, key: str, phase: str) -> list[Event]:
        group = self._objects.get(("PodGroup", key))
        if not isinstance(group, PodGroup) or (group.status is not None and group.status.phase == phase):
            return []
        status = msgspec.structs.replace(group.status or PodGroupStatus(), phase=phase)
        return [self._put(msgspec.structs.replace(group, status=status))]

    def _set_scheduled(self, key: str, phase: str) -> list[Event]:
        """Write the condition of a PodGroup of Kubernetes that was scheduled."""
        group = self._objects.get((KUBERNETES_GROUP, object_key(key))) if phase == RUNNING else None
        if not isinstance(group, KubernetesPodGroup) or was_scheduled(group):
            return []
        condition = GroupCondition(SCHEDULED[VERSIONS[-1]], "True", None, format_time(self.now), "Scheduled")
        return [self._put(msgspec.structs.replace(group, status=KubernetesPodGroupStatus([condition])))]

    def _put(self, obj: Object) -> Event:
        self._objects[obj.kind, object_label(obj)] = obj
        if isinstance(obj, Pod):
            self._follow(obj)
        return Changed(obj)

    def _follow(self, pod: Pod) -> None:
        """Record the end of a terminating pod, and the nomination of a pod."""
        metadata = pod.metadata
        if metadata.deletion_timestamp and not metadata.finalizers:
            self._terminating[pod.key] = parse_time(metadata.deletion_timestamp)
        else:
            self._terminating.pop(pod.key, None)
        if pod.status is not None and pod.status.nominated_node_name and not pod.spec.node_name:
            self._nominated.add(pod.key)
        else:
            self._nominated.discard(pod.key)


def _next_uid(uid: str) -> str:
    """The uid of the replacement for a pod: `u~2` for `u`, `u~3` for `u~2`."""
    found = _LIFE.fullmatch(uid)
    return f"{found[1]}~{int(found[2]) + 1}" if found else f"{uid}~2"
