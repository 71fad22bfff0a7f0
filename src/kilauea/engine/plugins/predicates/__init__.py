"""Filter the nodes for a pod in the same way as Kubernetes.

What:
    A node is ruled out that is cordoned, that the pod's node selector or affinity does not allow, that has a taint the
    pod does not tolerate, that is full of pods, whose ports are taken, or where pod affinity, anti-affinity or topology
    spread forbid it; and one that does not reach the volumes of the pod's claims, that is full of volumes, or where an
    unbound claim would find no volume. The volumes that unbound claims find, and the room that a driver reports for new
    ones, are held for them, and the plan says which volume a claim gets. A pod waits, with code
    VolumesNotReady, for claims that do not exist, that are being deleted, or that the scheduler does not bind.
    Resource claims get devices (dynamic resource allocation): by class and CEL selectors, a count or all, the first
    of several alternatives, with common attributes, and with the counters that partitions of a device share. The plan
    says which device a claim gets. A pod waits, with code ResourceClaimsNotReady, for resource claims that do not
    exist, that are being deleted, or that ask for something that cannot be understood.
    Extended resources that a DeviceClass names (`spec.extendedResourceName`, or `deviceclass.resource.kubernetes.io/`
    and the name of the class) are served by its devices on nodes that do not offer the resource themselves: the pod
    gets a claim of its own as it is bound. Without this plugin, or with claims switched off, pods do not go there.
    Offline pods (annotation `volcano.sh/qos-level: BE`, or a negative number) do not go to nodes with the annotation
    `volcano.sh/offline-job-evicting: "true"`, from which the agent on the node is evicting such pods.

Why:
    Pods mean the same under this scheduler as under Kubernetes' own.

Arguments:
    predicate.NodeAffinityEnable (true or false, true): node selector and node affinity.
    predicate.NodePortsEnable (true): host ports.
    predicate.TaintTolerationEnable (true): taints.
    predicate.PodAffinityEnable (true): pod affinity and anti-affinity.
    predicate.PodTopologySpreadEnable (true): topology spread.
    predicate.NodeVolumeLimitsEnable (true): how many volumes of a CSI driver a node takes.
    predicate.VolumeZoneEnable (true): zones of volumes.
    predicate.VolumeBindingEnable (true): volume claims, bound and unbound.
    predicate.DynamicResourceAllocationEnable (true): resource claims, and extended resources by them.
    dynamicresources.bindingTimeoutSeconds (600): seconds that binding conditions of devices have to become true.
    dynamicresources.filterTimeoutSeconds (10): accepted; the search for devices on a node ends after a number of steps.
    volumebinding.shape (list of maps, none): how good a node is by how full its storage gets. Each point has a
    `utilization` (percent of the capacity that a driver reports, or of the volumes that are found) and a `score` (0 to
    10); between two points the score is on the line. Without it, storage is not scored.
    volumebinding.weight (1): weight of that score, of at most 100 points.
    volumebinding.bindTimeoutSeconds (600): seconds for which a pod that is placed waits until its claims are bound;
    then it is placed again, on another node.
    predicate.CacheEnable (false): accepted; equal pods are judged once anyway.

Example:
    tiers:
    - plugins:
      - name: predicates
        arguments:
          predicate.PodTopologySpreadEnable: false

Difference from the original:
    The newest original reads `volcano.sh/offline-job-evicting` and does nothing with it, so that offline pods come
    back to the node that has just evicted them.
    A selector that fails on a device passes over this device; in Kubernetes it ends the search for the pod. Devices of
    pods that are evicted or terminating are given to the pods that wait for them, and to no other.
    Host ports, places for pods and anti-affinity of pods that terminate keep other pods from starting, but not from
    being nominated: a pod that others were evicted for keeps its node until they are gone.
    A pod whose claim for extended resources has devices already, as after a crash, starts with them; Kubernetes deletes
    the claim and makes another.
    Pods with anti-affinity that were placed in this cycle repel later ones at once, also those without terms of their
    own; the original looks only at nodes that had such pods when the cycle began. A filter that did not matter for a
    task at first is asked again at each attempt.
    A volume claim for one pod at a time (ReadWriteOncePod) is respected, disks that pods name themselves are not
    shared, and pods with the same unbound claim follow each other. Claims of one cycle share the room that a driver
    reports. Volumes of a driver are counted by its limits alone, not also as a resource of nodes and pods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import TaintKey, tolerates
from kilauea.api.wellknown import UNSCHEDULABLE_TAINT
from kilauea.engine.conf import Finding, argument
from kilauea.engine.evaluation import matching
from kilauea.engine.extension import Refusal, Rejection, Scope
from kilauea.engine.model.claims.table import BINDING_TIMEOUT
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.predicates.claims import ClaimFilter
from kilauea.engine.plugins.predicates.pod_affinity import PodAffinityFilter
from kilauea.engine.plugins.predicates.ports import PortFilter
from kilauea.engine.plugins.predicates.topology_spread import TopologySpreadFilter
from kilauea.engine.plugins.predicates.volume_score import curve_of
from kilauea.engine.plugins.predicates.volumes import VolumeFilters
from kilauea.engine.session import Session

UNSCHEDULABLE = Rejection("NodeUnschedulable", "node(s) were unschedulable", hopeless=True)
AFFINITY = Rejection("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", hopeless=True)
TAINT = Rejection("TaintToleration", "node(s) had untolerated taint(s)", hopeless=True)
OFFLINE = Rejection("NodeEvictsOfflinePods", "node(s) were evicting offline jobs", hopeless=True)
POD_COUNT = Rejection("NodePodNumberExceeded", "node(s) pod number exceeded", room=True)

CORDONED = TaintKey(UNSCHEDULABLE_TAINT, "", "NoSchedule")


@dataclass(frozen=True)
class PredicatesArguments:
    """Arguments of predicates."""

    node_affinity: bool = argument("predicate.NodeAffinityEnable", True, "Node selector and node affinity.")
    ports: bool = argument("predicate.NodePortsEnable", True, "Host ports.")
    taints: bool = argument("predicate.TaintTolerationEnable", True, "Taints.")
    pod_affinity: bool = argument("predicate.PodAffinityEnable", True, "Pod affinity and anti-affinity.")
    topology_spread: bool = argument("predicate.PodTopologySpreadEnable", True, "Topology spread.")
    volume_limits: bool = argument("predicate.NodeVolumeLimitsEnable", True, "Volumes of a CSI driver on a node.")
    volume_zone: bool = argument("predicate.VolumeZoneEnable", True, "Zones of volumes.")
    volume_binding: bool = argument("predicate.VolumeBindingEnable", True, "Volume claims, bound and unbound.")
    volume_weight: int = argument("volumebinding.weight", 1, "Weight of the score of storage.", minimum=0)
    volume_shape: tuple[object, ...] = argument(
        "volumebinding.shape", (), "Score of storage by how much of it is used.", values=object
    )
    volume_timeout: int = argument(
        "volumebinding.bindTimeoutSeconds", 600, "Seconds in which the volumes of a pod should be bound."
    )
    dynamic_resources: bool = argument("predicate.DynamicResourceAllocationEnable", True, "Resource claims.")
    binding_timeout: int = argument(
        "dynamicresources.bindingTimeoutSeconds",
        BINDING_TIMEOUT,
        "Seconds that binding conditions of devices have to become true.",
        minimum=1,
    )
    filter_timeout: int = argument("dynamicresources.filterTimeoutSeconds", 10, "Accepted; the work is bounded.")
    cache: bool = argument("predicate.CacheEnable", False, "Accepted; equal pods are judged once anyway.")


class Predicates(Plugin):
    """See the module."""

    name = "predicates"
    depends_on_time = False
    Arguments = PredicatesArguments

    def on_session_open(self, session: Session) -> None:
        given: PredicatesArguments = self.arguments
        session.add_predicate(
            self.name, self._pod_count, [POD_COUNT], scope=Scope.FIGURES, room=lambda _, nodes: nodes.has_slots
        )
        session.add_predicate(self.name, self._cordoned, [UNSCHEDULABLE], scope=Scope.STATIC)
        if session.nodes.evicts_offline.any():
            applies = _is_offline
            session.add_predicate(self.name, self._offline, [OFFLINE], scope=Scope.STATIC, applies=applies)
        if given.node_affinity:
            session.add_predicate(self.name, self._node_affinity, [AFFINITY], scope=Scope.STATIC)
        if given.taints:
            session.add_predicate(self.name, self._taints, [TAINT], scope=Scope.STATIC)
        volumes = VolumeFilters(
            session,
            binding=given.volume_binding,
            zone=given.volume_zone,
            limits=given.volume_limits,
            timeout=given.volume_timeout,
            curve=self._curve(session, given.volume_shape),
            weight=float(given.volume_weight),
        )
        session.state.resource_claims.binding_timeout = given.binding_timeout
        claims = ClaimFilter(session) if given.dynamic_resources else None
        self._claims = claims
        session.add_pre_predicate(self.name, lambda task: _refused_claims(claims, task) or volumes.refusal(task))
        if given.ports:
            PortFilter(session).register(self.name)
        if given.pod_affinity:
            PodAffinityFilter(session).register(self.name)
        if given.topology_spread:
            TopologySpreadFilter(session).register(self.name)
        volumes.register(self.name)
        if claims is not None:
            session.serve_claims(self.name)
            claims.register(self.name)

    def _curve(self, session: Session, shape: tuple[object, ...]) -> NDArray[np.int64] | None:
        """The score of storage by use; None for none, or for one that cannot be read, which is said."""
        if not shape:
            return None
        try:
            return curve_of(shape)
        except ValueError as error:
            where = f"plugin {self.name}: volumebinding.shape"
            session.findings.append(Finding(where, f"{error}; storage is not scored"))
            return None

    def on_session_close(self, session: Session) -> None:
        if self._claims is not None:
            self._claims.report_faults()
            self._claims.release_unreachable()

    def _pod_count(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.staying_count < nodes.pod_capacity

    def _cordoned(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
        cordoned = nodes.table.unschedulable
        if not cordoned.any() or any(tolerates(t, CORDONED) for t in shape.spec.tolerations):
            return None
        return nodes.take(~cordoned)

    def _offline(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(~nodes.table.evicts_offline)

    def _node_affinity(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
        mask = matching.selects(nodes.table, shape.spec)
        return None if mask is None else nodes.take(mask)

    def _taints(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
        mask = matching.tolerates(nodes.table, shape.spec.tolerations)
        return None if mask is None else nodes.take(mask)


def _is_offline(shape: TaskShape) -> bool:
    return shape.spec.offline


def _refused_claims(claims: ClaimFilter | None, task: Task) -> Refusal | None:
    """The reason why a pod waits for its resource claims; None if it need not, or if they are not looked at."""
    return claims.refusal(task) if claims is not None and task.claims else None
