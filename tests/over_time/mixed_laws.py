"""Laws of clusters in which many rules meet: what is bound keeps the rules of its nodes, its gang and its network.

Each rule is read from the objects alone, in the few forms that `mixed_worlds` draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kilauea.api.core import Node, Pod
from kilauea.api.topology import HyperNode
from kilauea.engine.plan import Plan
from over_time.books import Books, Group, Rules, is_terminating
from over_time.cycle_laws import broken_by_plan
from over_time.history import History
from over_time.laws import unrest
from over_time.mixed_worlds import ZONE
from support.builders import TASK_ROLE


def broken_when_mixed(history: History) -> list[str]:
    """The laws that a history breaks, as sentences."""
    rules, found = Rules.of(history.conf), unrest(history)
    for number, moment in enumerate(history.moments):
        books, plan = Books(moment.objects), moment.plan
        domains = {o.name: o for o in moment.objects if isinstance(o, HyperNode)}
        broken = [*broken_by_plan(books, plan, rules), *_pods(books, plan), *_gangs(books, plan, domains)]
        found += [f"{sentence} (cycle {number})" for sentence in broken]
    return found


def _pods(books: Books, plan: Plan) -> Iterator[str]:
    for bind in plan.binds:
        pod, node = books.pods[bind.pod], books.nodes[bind.node]
        if pod.spec.scheduling_gates or is_terminating(pod):
            yield f"only pods that wait start: {pod.key} is gated or terminates"
        if refusal := _refusal(node, pod):
            yield f"nodes are asked: {pod.key} is bound to {node.name}, which {refusal}"


def _refusal(node: Node, pod: Pod) -> str:
    """The rule of a node or of its labels that a pod breaks; empty for none."""
    spec = node.spec
    tolerated = {t.key for t in pod.spec.tolerations or ()}
    if spec is not None and spec.unschedulable:
        return "is cordoned"
    for taint in (spec.taints if spec is not None else None) or ():
        if taint.effect != "PreferNoSchedule" and taint.key not in tolerated:
            return f"has the taint {taint.key}"
    wanted = pod.spec.node_selector or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return f"lacks {dict(wanted)}"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is not None and node.labels[ZONE] == "z1":
        return "is in the zone that its affinity excludes"
    return ""


def _gangs(books: Books, plan: Plan, domains: Mapping[str, HyperNode]) -> Iterator[str]:
    places, gone = {bind.pod: bind.node for bind in plan.binds}, {eviction.pod for eviction in plan.evictions}
    for key in sorted({books.group_key(pod) for pod in places}):
        group = books.groups[key]
        stays = {pod.key: pod.spec.node_name or "" for pod in group.running if pod.key not in gone}
        after = stays | {pod.key: places[pod.key] for pod in group.pods if pod.key in places}
        roles = Counter(books.pods[pod].annotations.get(TASK_ROLE) for pod in after)
        for role, least in (group.obj.spec.min_task_member or {}).items():
            if roles[role] < least:
                yield f"roles start whole: {key} has {roles[role]} of {least} pods of role {role}"
        if _apart(group):
            zones = Counter(books.nodes[node].labels[ZONE] for node in after.values())
            if max(zones.values()) > 1:
                yield f"pods keep apart: {key} has pods in {dict(zones)}"
        yield from _network(group, set(after.values()), domains)


def _apart(group: Group) -> bool:
    """Whether the pods of a group exclude each other from a zone."""
    affinity = group.pods[0].spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None


def _network(group: Group, nodes: set[str], domains: Mapping[str, HyperNode]) -> Iterator[str]:
    wish = group.obj.spec.network_topology
    if wish is None or wish.mode != "hard":
        return
    for domain in domains.values():
        if _tier(domain) <= (wish.highest_tier_allowed or 0) and nodes <= _nodes(domain, domains):
            return
    yield f"gangs stay in a domain: {group.key} is on {', '.join(sorted(nodes))}, tier {wish.highest_tier_allowed}"


def _tier(domain: HyperNode) -> int:
    return domain.spec.tier if domain.spec is not None else 0


def _nodes(domain: HyperNode, domains: Mapping[str, HyperNode]) -> set[str]:
    """Names of the nodes in a domain and in those inside it."""
    out: set[str] = set()
    for member in (domain.spec.members if domain.spec is not None else None) or ():
        exact = member.selector.exact_match if member.selector is not None else None
        name = exact.name if exact is not None else ""
        out |= {name} if member.type == "Node" else _nodes(domains[name], domains)
    return out
