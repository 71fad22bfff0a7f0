"""Random clusters in which many rules meet: taints, labels, neighbours, gates, roles, network domains, pods that go.

A cluster of `worlds` is drawn first; then nodes that are free are added, and nodes, groups and pods get the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st

from kilauea.api.core import Affinity, Node, NodeSpec, SchedulingGate, Toleration, TopologySpreadConstraint
from kilauea.api.meta import Object
from kilauea.api.scheduling import NetworkTopology
from kilauea.api.topology import HyperNode
from over_time.books import Books, Group
from over_time.configurations import TREES
from over_time.worlds import objects_of, sketches
from support.builders import TASK_ROLE, away, labels_of, near, need, node, node_affinity, spread, taint

ZONE, DISK, JOB = "zone", "disk", "job"
TAINTS = ("dedicated=a:NoSchedule", "dedicated=b:NoExecute", "dedicated=a:PreferNoSchedule")
HINDRANCES = ("", "", "", "selector", "toleration", "apart", "near", "spread", "affinity", "gate")
"""What the pods of a group that waits may have; mostly nothing."""


def hyper_node(name: str, tier: int, members: Sequence[str]) -> Object:
    """A network domain of nodes, or from tier 2 on of other domains."""
    kind = "Node" if tier == 1 else "HyperNode"
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": listed}
    return msgspec.convert({"kind": "HyperNode", "metadata": {"name": name}, "spec": spec}, HyperNode)


@st.composite
def mixed_cases(draw: st.DrawFn, name: str) -> list[Object]:
    """Objects for one of the configurations."""
    tree = name in TREES
    objects = objects_of(draw(sketches(tree=tree)), tree=tree)
    free = draw(st.lists(st.sampled_from((4, 2, 8)), min_size=1, max_size=6))
    objects += [node(f"free{number}", cpu, gpu=number % 3) for number, cpu in enumerate(free)]
    books = Books(objects)
    for number, each in enumerate(books.nodes.values()):
        _mark(draw, each, number)
    domains = _domains(list(books.nodes)) if draw(st.booleans()) else []
    for group in books.groups.values():
        for pod in group.pods:
            pod.metadata.labels = {**pod.labels, JOB: group.obj.name}
        if draw(st.booleans()) and len(group.pods) > 1:
            _give_roles(draw, group)
        _let_go(draw, group)
        if not group.running:
            _hinder(group, draw(st.sampled_from(HINDRANCES)), draw(st.sampled_from(sorted(books.groups))))
            if draw(st.booleans()) and domains:
                mode, tier = draw(st.sampled_from(("hard", "hard", "soft"))), draw(st.integers(1, 3))
                group.obj.spec.network_topology = NetworkTopology(mode=mode, highest_tier_allowed=tier)
    return [*objects, *domains]


def _mark(draw: st.DrawFn, made: Node, number: int) -> None:
    """Give a node labels, and now and then a taint."""
    disk = draw(st.sampled_from(("ssd", "hdd")))
    made.metadata.labels = {**made.labels, ZONE: f"z{number % 3}", DISK: disk}
    if draw(st.integers(0, 6)) == 6:
        spec = {
            "taints": [taint(draw(st.sampled_from(TAINTS)))],
            "unschedulable": made.spec and made.spec.unschedulable,
        }
        made.spec = msgspec.convert(spec, NodeSpec)


def _domains(nodes: Sequence[str]) -> list[Object]:
    """Switches of two or three nodes each, one domain around every two of them, and one around all."""
    count = max(len(nodes) // 2, 1)
    switches = [hyper_node(f"s{i}", 1, nodes[i::count]) for i in range(count)]
    pairs = [hyper_node(f"m{i}", 2, [s.name for s in switches[2 * i : 2 * i + 2]]) for i in range((count + 1) // 2)]
    return [*switches, *pairs, hyper_node("top", 3, [pair.name for pair in pairs])]


def _give_roles(draw: st.DrawFn, group: Group) -> None:
    """Two roles, each with a minimum; the gang's minimum is their sum."""
    least: dict[str, int] = {}
    for role, pods in (("driver", group.pods[:1]), ("worker", group.pods[1:])):
        for pod in pods:
            pod.metadata.annotations = {**pod.annotations, TASK_ROLE: role}
        least[role] = draw(st.integers(0, len(pods)))
    group.obj.spec.min_task_member = least
    group.obj.spec.min_member = max(sum(least.values()), 1)


def _let_go(draw: st.DrawFn, group: Group) -> None:
    """Some pods that run terminate when the history begins, and very few that wait."""
    for pod in group.pods:
        if draw(st.integers(0, 9 if pod.spec.node_name else 39)) == 1:
            pod.metadata.deletion_timestamp = f"2026-01-01T12:00:{draw(st.sampled_from((2, 4, 6))):02d}Z"


def _hinder(group: Group, what: str, other: str) -> None:
    """Give all pods of a group one rule that keeps them from nodes; `other` is the key of the group to be near."""
    own, theirs = labels_of({JOB: group.obj.name}), labels_of({JOB: other.rpartition("/")[2]})
    for pod in group.pods:
        spec = pod.spec
        if what == "selector":
            spec.node_selector = {DISK: "ssd"}
        elif what == "toleration":
            spec.tolerations = [Toleration(key="dedicated", operator="Exists")]
        elif what == "apart":
            spec.affinity = msgspec.convert(away(own, ZONE), Affinity)
        elif what == "near":
            spec.affinity = msgspec.convert(near(theirs, ZONE), Affinity)
        elif what == "spread":
            spec.topology_spread_constraints = msgspec.convert(spread(ZONE, own), list[TopologySpreadConstraint])
        elif what == "affinity":
            spec.affinity = msgspec.convert(node_affinity([need(ZONE, "NotIn", "z1")]), Affinity)
        elif what == "gate":
            spec.scheduling_gates = [SchedulingGate(name="example.com/wait")]
