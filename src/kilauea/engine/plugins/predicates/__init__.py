"""Filter the nodes for a pod in the same way as Kubernetes.

What:
    Rules out nodes that are cordoned, that the pod's node selector or affinity does not allow, that have a taint the
    pod does not tolerate, that have reached their limit of pods, where host ports of the pod are in use, or where pod
    affinity, anti-affinity or topology spread forbid it. Also rules out nodes that cannot access the volumes of the
    pod's claims, that have reached their limit of volumes, or where no volume matches an unbound claim. The matched
    volumes, and the capacity that a driver reports for new ones, are reserved for these claims, and the plan shows
    which volume a claim gets. A pod waits with code VolumesNotReady for claims that do not exist, that are being
    deleted, or that the scheduler does not bind.

    Allocates devices to resource claims (dynamic resource allocation): by class and CEL selectors, a count or all, the
    first of several alternatives, with common attributes, and with the counters that partitions of a device share. The
    plan shows which device a claim gets. A pod waits with code ResourceClaimsNotReady for resource claims that do not
    exist, that are being deleted, or that contain an unsupported request.

    Extended resources that a DeviceClass names (`spec.extendedResourceName`, or `deviceclass.resource.kubernetes.io/`
    and the name of the class) are served by its devices on nodes that do not offer the resource themselves; a claim is
    created for the pod when it is bound. Without this plugin, or with claims disabled, pods do not run on such nodes.

    Offline pods (annotation `volcano.sh/qos-level: BE`, or a negative number) do not run on nodes with the annotation
    `volcano.sh/offline-job-evicting: "true"`, where the node agent is evicting such pods.

Why:
    Pods behave under this scheduler as they do under kube-scheduler.

Arguments:
    predicate.NodeAffinityEnable (true or false, true): node selector and node affinity.
    predicate.NodePortsEnable (true or false, true): host ports.
    predicate.TaintTolerationEnable (true or false, true): taints.
    predicate.PodAffinityEnable (true or false, true): pod affinity and anti-affinity.
    predicate.PodTopologySpreadEnable (true or false, true): topology spread.
    predicate.NodeVolumeLimitsEnable (true or false, true): maximum number of volumes of a CSI driver on a node.
    predicate.VolumeZoneEnable (true or false, true): zones of volumes.
    predicate.VolumeBindingEnable (true or false, true): volume claims, bound and unbound.
    predicate.DynamicResourceAllocationEnable (true or false, true): resource claims, and extended resources that they
    serve.
    dynamicresources.bindingTimeoutSeconds (integer, 600): seconds to wait for the binding conditions of devices to
    become true.
    dynamicresources.filterTimeoutSeconds (integer, 10): accepted and ignored; the search for devices on a node ends
    after a number of steps.
    volumebinding.shape (list of maps, none): score of a node by the utilization of its storage. Each point has a
    `utilization` (percent of the capacity that a driver reports, or of the matched volumes) and a `score` (0 to 10);
    scores between two points are interpolated. Without it, storage is not scored.
    volumebinding.weight (integer, 1): weight of that score, of at most 100 points.
    volumebinding.bindTimeoutSeconds (integer, 600): seconds that a placed pod waits for its claims to be bound; then it
    is placed again, on another node.
    predicate.CacheEnable (true or false, false): accepted and ignored; identical pods are always evaluated once.

Example:
    tiers:
    - plugins:
      - name: predicates
        arguments:
          predicate.PodTopologySpreadEnable: false

Difference from the original:
    The newest Volcano reads `volcano.sh/offline-job-evicting` and ignores it, so offline pods return to the node that
    has just evicted them.

    A selector that fails on a device skips this device; in Kubernetes it ends the search for the pod. Devices of pods
    that are evicted or terminating are given only to the pods that wait for them.

    Host ports, slots for pods and anti-affinity of terminating pods keep other pods from starting, but not from being
    nominated: a pod that others were evicted for keeps its node until they are gone.

    A pod whose claim for extended resources already has devices, for example after a crash, starts with them;
    Kubernetes deletes the claim and creates another.

    Pods with anti-affinity that were placed in this cycle repel later ones immediately, including those without
    anti-affinity; Volcano considers only nodes that had such pods when the cycle began. A filter that a task did not
    need at first is checked again at each attempt.

    A volume claim for one pod at a time (ReadWriteOncePod) is respected, disks that pods name directly are not shared,
    and pods with the same unbound claim follow each other. The claims of a cycle share the capacity that a driver
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
        "volumebinding.bindTimeoutSeconds", 600, "Seconds to wait for the volumes of a pod to be bound."
    )
    dynamic_resources: bool = argument("predicate.DynamicResourceAllocationEnable", True, "Resource claims.")
    binding_timeout: int = argument(
        "dynamicresources.bindingTimeoutSeconds",
        BINDING_TIMEOUT,
        "Seconds to wait for binding conditions of devices to become true.",
        minimum=1,
    )
    filter_timeout: int = argument(
        "dynamicresources.filterTimeoutSeconds", 10, "Accepted and ignored; the work is bounded."
    )
    cache: bool = argument(
        "predicate.CacheEnable", False, "Accepted and ignored; identical pods are always evaluated once."
    )


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
        """The score of storage by utilization; None without a shape, or with an invalid one, which is reported."""
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
    """The reason why a pod waits for its resource claims; None if it does not wait, or if claims are disabled."""
    return claims.refusal(task) if claims is not None and task.claims else None
