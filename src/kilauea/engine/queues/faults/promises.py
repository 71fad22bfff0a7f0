"""Promises that cannot be kept: children with more than their parent, and amounts that are never available.

The maximum amounts of a queue (`capability`) are not promises: several may exceed the cluster together and share it
over time, and the cluster may still grow. Card quotas can be lent as well. Deserved and guaranteed amounts are
promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kilauea.api.quantity import format_amount
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.queue_tree import QueueTree
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, Amounts, add, order_of
from kilauea.engine.queues.faults.fault import OUT_OF_REACH, OVER_PROMISED, UNREADABLE, QueueFault, Rules

NOTHING: dict[str, float] = {}

Promises = tuple[tuple[str, Amounts], tuple[str, Amounts]]


def broken_promises(queues: Mapping[str, Queue], tree: QueueTree, total: Amounts, rules: Rules) -> Iterator[QueueFault]:
    """All faults of amounts in a cluster with this total."""
    children = tree.children if rules.tree else {ROOT_QUEUE: [name for name in queues if name != ROOT_QUEUE]}
    for parent, names in children.items():
        yield from _over_promised(parent, [queues[name] for name in names], queues.get(parent), total, rules)
    for name, queue in queues.items():
        if name != ROOT_QUEUE:
            yield from _above_cluster(queue, total, rules)
            if rules.tree:
                yield from _above_ancestor(queue, tree)


def _promised(queue: Queue, rules: Rules) -> Promises:
    """The guarantee of a queue, and its deserved amounts if its object sets them."""
    deserved = queue.deserved if rules.deserves else None
    return ("guarantee", rules.counted(queue.guarantee)), ("deserved", rules.counted(deserved))


def _over_promised(
    name: str, children: list[Queue], parent: Queue | None, total: Amounts, rules: Rules
) -> Iterator[QueueFault]:
    """Children that are promised more than their parent; the root has the cluster's total."""
    sums: dict[str, dict[str, float]] = {}
    for child in children:
        for kind, amounts in _promised(child, rules):
            add(sums.setdefault(kind, {}), amounts)
    own = dict(_promised(parent, rules)) if parent is not None else {}
    for kind, summed in sums.items():
        of_root = name == ROOT_QUEUE
        beyond = _beyond(summed, total if of_root else own[kind])
        if beyond:
            who, what = ("first-level queues", "what the cluster has") if of_root else ("its children", "its own")
            message = f"the {kind} amounts of {who} add up to more than {what}: {beyond}"
            yield QueueFault(name, OVER_PROMISED, f"{kind.capitalize()}OverPromised", message)


def _above_cluster(queue: Queue, total: Amounts, rules: Rules) -> Iterator[QueueFault]:
    """Promises to one queue that exceed the cluster."""
    for kind, amounts in _promised(queue, rules):
        beyond = _beyond(amounts, total)
        if beyond:
            message = f"its {kind} is more than the cluster has: {beyond}"
            yield QueueFault(queue.name, OUT_OF_REACH, f"{kind.capitalize()}AboveCluster", message)


def _above_ancestor(queue: Queue, tree: QueueTree) -> Iterator[QueueFault]:
    """A capability that exceeds that of the nearest ancestor that names the resource."""
    nearest: dict[str, tuple[float, str]] = {}
    for ancestor in tree.ancestors.get(queue.name, ())[1:]:
        nearest.update({name: (most, ancestor.name) for name, most in (ancestor.capability or NOTHING).items()})
    above = [
        f"{_of(name, amount, nearest[name][0])} of queue {nearest[name][1]}"
        for name, amount in sorted((queue.capability or NOTHING).items(), key=lambda item: order_of(item[0]))
        if name in nearest and amount - nearest[name][0] >= EPSILON
    ]
    if above:
        message = f"its capability is more than that of its ancestors: {', '.join(above)}"
        yield QueueFault(queue.name, OUT_OF_REACH, "CapabilityAboveParent", message)


def _beyond(amounts: Amounts, there: Amounts) -> str:
    """`cpu 120 of 100, memory 3Gi of 2Gi`, for the resources of which more is promised than available."""
    short = [name for name, amount in amounts.items() if amount - there.get(name, 0) >= EPSILON]
    return ", ".join(_of(name, amounts[name], there.get(name, 0)) for name in sorted(short, key=order_of))


def _of(resource: str, amount: float, there: float) -> str:
    return f"{resource} {format_amount(resource, amount)} of {format_amount(resource, there)}"


def card_faults(queues: Mapping[str, Queue], nodes: NodeTable) -> Iterator[QueueFault]:
    """Quotas of cards that are invalid, that no node has, or that exceed the cluster."""
    there: dict[str, float] = {}
    for facts in nodes.facts:
        add(there, facts.cards.amounts)
    for queue in queues.values():
        if queue.cards.fault:
            yield QueueFault(queue.name, UNREADABLE, "InvalidCardAnnotation", queue.cards.fault)
        for card, amount in sorted(queue.cards.amounts.items()):
            if amount and card not in there:
                message = f"no node has the card {card} of its quota"
                yield QueueFault(queue.name, OUT_OF_REACH, "UnknownCard", message)
            elif amount > there.get(card, 0):
                message = f"its card quota is more than the cluster has: {_of(card, amount, there[card])}"
                yield QueueFault(queue.name, OUT_OF_REACH, "CardQuotaAboveCluster", message)
