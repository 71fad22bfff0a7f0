"""Score nodes for a pod in the same way as Kubernetes.

What:
    Adds up weighted scores from 0 to 100: free or used resources, balance of cpu and memory, preferred node affinity,
    preferred pod affinity, tolerated taints, images that are already on the node, and even spreading.

Why:
    Some of the nodes that can run a pod suit it, or the cluster, better than others.

Arguments:
    leastrequested.weight (integer, 1): prefer nodes with more free cpu and memory.
    mostrequested.weight (integer, 0): prefer nodes with less.
    balancedresource.weight (integer, 1): prefer nodes whose cpu and memory are used evenly.
    nodeaffinity.weight (integer, 2): preferred node affinity.
    podaffinity.weight (integer, 2): preferred pod affinity and anti-affinity.
    tainttoleration.weight (integer, 3): avoid taints with effect PreferNoSchedule.
    imagelocality.weight (integer, 1): prefer nodes that hold the images.
    podtopologyspread.weight (integer, 2): topology spread with ScheduleAnyway, and default spreading.

Example:
    tiers:
    - plugins:
      - name: nodeorder
        arguments:
          leastrequested.weight: 0
          mostrequested.weight: 1

Difference from the original:
    By default, pods are spread by the selector of any ReplicaSet, StatefulSet or ReplicationController in the namespace
    that matches the pod.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import argument
from kilauea.engine.evaluation import kernels, matching
from kilauea.engine.extension import Scope
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.nodeorder.images import image_locality
from kilauea.engine.plugins.nodeorder.pod_affinity import PodAffinityScore
from kilauea.engine.plugins.nodeorder.room import GPU, balanced, least_allocated, most_allocated
from kilauea.engine.plugins.nodeorder.topology_spread import TopologySpreadScore
from kilauea.engine.session import Session


@dataclass(frozen=True)
class NodeOrderArguments:
    """Arguments of nodeorder."""

    least: int = argument("leastrequested.weight", 1, "Prefer nodes with more free cpu and memory.")
    most: int = argument("mostrequested.weight", 0, "Prefer nodes with less free cpu and memory.")
    balanced: int = argument("balancedresource.weight", 1, "Prefer nodes whose cpu and memory are used evenly.")
    node_affinity: int = argument("nodeaffinity.weight", 2, "Preferred node affinity.")
    pod_affinity: int = argument("podaffinity.weight", 2, "Preferred pod affinity and anti-affinity.")
    taints: int = argument("tainttoleration.weight", 3, "Avoid taints with effect PreferNoSchedule.")
    images: int = argument("imagelocality.weight", 1, "Prefer nodes that hold the images.")
    spread: int = argument("podtopologyspread.weight", 2, "Topology spread with ScheduleAnyway, and default spreading.")


class NodeOrder(Plugin):
    """See the module."""

    name = "nodeorder"
    depends_on_time = False
    Arguments = NodeOrderArguments

    def on_session_open(self, session: Session) -> None:
        self._weights: NodeOrderArguments = self.arguments
        self._affinity = PodAffinityScore(session)
        self._spread = TopologySpreadScore(session)
        by_images = self._weights.images and session.nodes.holds_images
        scope = Scope.NODE if by_images else Scope.FIGURES
        session.add_node_score(self.name, self._by_room, scope=scope, resources=(CPU, MEMORY, GPU))
        session.add_batch_node_score(self.name, self._by_comparison, applies=self._compares)

    def _by_room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        """Scores that depend on the node alone."""
        weights = self._weights
        parts = []
        if weights.least:
            parts.append(weights.least * least_allocated(shape, nodes))
        if weights.most:
            parts.append(weights.most * most_allocated(shape, nodes))
        if weights.balanced and (score := balanced(shape, nodes)) is not None:
            parts.append(weights.balanced * score)
        if weights.images and nodes.table.holds_images:
            parts.append(weights.images * nodes.take(image_locality(shape, nodes.table)).astype(np.float64))
        return sum(parts[1:], start=parts[0]) if parts else None

    def _compares(self, shape: TaskShape) -> bool:
        spec, weights = shape.spec, self._weights
        return bool(
            (weights.node_affinity and spec.preferred_nodes)
            or (weights.taints and matching.soft_taints(self._spread.table, spec.tolerations) is not None)
            or (weights.pod_affinity and self._affinity.applies(shape))
            or (weights.spread and self._spread.applies(shape))
        )

    def _by_comparison(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """Scores that Kubernetes normalises over the candidates."""
        weights, table = self._weights, nodes.table
        total = np.zeros(len(nodes))
        if weights.node_affinity and shape.spec.preferred_nodes:
            total += weights.node_affinity * kernels.to_hundred(nodes.take(preferred_nodes(table, shape.spec)))
        soft = matching.soft_taints(table, shape.spec.tolerations) if weights.taints else None
        if soft is not None:
            total += weights.taints * kernels.to_hundred_reversed(nodes.take(soft))
        if weights.pod_affinity and (score := self._affinity.score(shape, nodes)) is not None:
            total += weights.pod_affinity * score
        if weights.spread and (score := self._spread.score(shape, nodes)) is not None:
            total += weights.spread * score
        return total


def preferred_nodes(table: NodeTable, spec: TaskSpec) -> NDArray[np.int64]:
    """(N,) sum of the weights of the preferred terms that a node matches."""

    def make() -> NDArray[np.int64]:
        out = np.zeros(len(table), dtype=np.int64)
        for weight, term in spec.preferred_nodes:
            out += weight * matching.matches_term(table, term)
        return out

    return matching.kept(table, ("preferred", spec.preferred_nodes), make)
