"""What a cluster at rest must not show: waiting beside free room, and shares that no one gives back.

Both answers are careful: they speak only of what a simple reading of the rules can prove, so a sentence is a fault of
the scheduler, and silence says little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kilauea.api.core import Pod
from over_time.books import (
    COUNTED,
    Amounts,
    Books,
    Group,
    Rules,
    is_own,
    is_placed,
    is_terminating,
    nominated,
    plus,
    within,
)

SYSTEM = ("system-cluster-critical", "system-node-critical")


def wants(books: Books, group: Group, rules: Rules) -> tuple[int, Amounts] | None:
    """How many more equal pods a group needs for its next step, and what each asks for; None where that is unclear.

    Pods that are promised room need no more: nothing else is evicted for them as long as the promise stands.
    """
    waiting = [pod for pod in group.waiting if not nominated(pod)]
    placed = len(group.running) + len(group.waiting) - len(waiting)
    if not waiting or "gang" not in rules.plugins:
        return None
    phase = group.obj.status.phase if group.obj.status is not None else None
    if phase not in ("Inqueue", "Running") or group.queue not in books.queues:
        return None
    if placed + len(waiting) < group.minimum or group.obj.spec.min_task_member:
        return None
    if any(is_terminating(pod) for pod in group.pods):
        return None
    asks = [books.requests[pod.key] for pod in waiting]
    if any(ask != asks[0] for ask in asks) or not any(asks[0].get(name) for name in COUNTED):
        return None
    return max(group.minimum - placed, 1), asks[0]


def idle_waits(books: Books, rules: Rules) -> Iterator[str]:
    """Groups that wait though nodes have room that their queues may use, or for room that is promised and free.

    Nothing is said of a cluster where a pod never finishes terminating: gangs may go on waiting for its room, and keep
    room elsewhere for the rest of them.
    """
    if any(is_terminating(pod) and is_placed(pod) for pod in books.pods.values()):
        return
    for node in sorted(books.nodes):
        waiting = books.promised(node)
        if waiting and books.open(node):
            names = ", ".join(sorted(pod.key for pod in waiting))
            yield f"{names} is promised room on {node}, where nothing is about to go"
    if rules.queue_plugin not in ("capacity", "proportion", "") or not allocates(rules):
        return
    for key in sorted(books.groups):
        group = books.groups[key]
        wanted = wants(books, group, rules)
        if wanted is None:
            continue
        count, each = wanted
        all_of_them = {name: value * count for name, value in each.items()}
        if slots(books, each, {}) >= count and may_use(books, rules, group.queue, all_of_them):
            yield f"{count} pods of {key} wait though nodes have room and queue {group.queue} may use it"


def allocates(rules: Rules) -> bool:
    """Whether free room is given away at all, by nothing but nodes and queues."""
    known = {"priority", "gang", "conformance", "drf", "overcommit", "predicates", "nodeorder", "binpack"}
    return "allocate" in rules.actions and set(rules.plugins) <= known | {"capacity", "proportion", "sla"}


def slots(books: Books, each: Amounts, freed: dict[str, Amounts]) -> int:
    """How many pods of a kind the open nodes hold beside what is promised, with what is freed on some nodes."""
    found = 0
    for node in sorted(books.nodes):
        if not books.open(node):
            continue
        room = plus(books.idle(node), freed.get(node, {}))
        for pod in books.promised(node):
            room = plus(room, books.requests[pod.key], -1)
        found += max(min(room.get(name, Fraction(0)) // value for name, value in each.items()), 0)
    return int(found)


def may_use(books: Books, rules: Rules, queue: str, more: Amounts, without: Sequence[Pod] = ()) -> bool:
    """Whether a queue surely may use so much more, once some pods are gone."""
    if not rules.queue_plugin:
        return True
    path = books.path(queue, tree=rules.tree)
    if rules.tree and any(name not in books.queues for name in path):
        return False
    for name in path if rules.queue_plugin == "capacity" else [queue]:
        after = plus(books.held(name, tree=rules.tree), more)
        for pod in without:
            if name in books.path(books.queue_of(pod), tree=rules.tree):
                after = plus(after, books.requests[pod.key], -1)
        most = books.limit(name, tree=rules.tree)
        if rules.queue_plugin == "proportion":
            most = poured(books, name, most)
        if not within(after, most, [n for n, value in more.items() if value and n != "pods"]):
            return False
    return True


def poured(books: Books, queue: str, most: Amounts) -> Amounts:
    """A lower bound of what a queue deserves by its weight: its part of the cluster, poured out once."""

    def weight(name: str) -> int:
        spec = books.queues[name].spec
        return max((spec.weight if spec is not None else None) or 1, 1)

    used = {queue, *(group.queue for group in books.groups.values() if group.queue in books.queues)}
    part = Fraction(weight(queue), sum(map(weight, used)))
    asked: Amounts = {}
    for pod in books.pods.values():
        if books.queue_of(pod) == queue and is_own(pod) and (is_placed(pod) or not pod.spec.node_name):
            asked = plus(asked, books.requests[pod.key])
    return {
        n: min(value * part, most.get(n, Fraction(0)), asked.get(n, Fraction(0))) for n, value in books.total().items()
    }


# --- shares


def unclaimed_shares(books: Books, rules: Rules) -> Iterator[str]:
    """Groups within what their queue deserves that wait while others hold more than theirs."""
    known = {"priority", "gang", "conformance", "predicates", "nodeorder", "binpack", "capacity", "overcommit"}
    if rules.queue_plugin != "capacity" or "reclaim" not in rules.actions or not set(rules.plugins) <= known:
        return
    if rules.plugins["capacity"].get("arguments"):
        return
    for key in sorted(books.groups):
        group = books.groups[key]
        wanted = wants(books, group, rules)
        if wanted is None or any(pod.spec.preemption_policy == "Never" for pod in group.waiting):
            continue
        count, each = wanted
        more = {name: value * count for name, value in each.items() if name != "pods"}
        way = books.path(group.queue, tree=rules.tree)
        if not all(stays_within_share(books, name, more, rules) for name in way if name != "root"):
            continue
        for unit in victims(books, rules, way, more, key):
            freed: dict[str, Amounts] = {}
            for pod in unit:
                node = pod.spec.node_name or ""
                freed[node] = plus(freed.get(node, {}), books.requests[pod.key])
            if slots(books, each, freed) >= count and may_use(books, rules, group.queue, more, unit):
                names = ", ".join(sorted(pod.key for pod in unit))
                yield (
                    f"{count} pods of {key} wait below the share of queue {group.queue}, "
                    f"though queue {books.queue_of(unit[0])} is above its own and {names} would make room"
                )
                break


def stays_within_share(books: Books, queue: str, more: Amounts, rules: Rules) -> bool:
    """Whether a queue deserves all that it would hold, of everything that is asked for."""
    deserved = books.deserved(queue)
    asked = [name for name, value in more.items() if value]
    after = plus(books.held(queue, tree=rules.tree), more)
    return all(deserved.get(name, 0) > 0 for name in asked) and within(after, deserved, asked)


def victims(books: Books, rules: Rules, way: Sequence[str], more: Amounts, preemptor: str) -> Iterator[list[Pod]]:
    """Single units of queues above their share, in what the preemptor asks for, that may go: spare pods, then gangs."""
    units: list[list[Pod]] = []
    for key in sorted(books.groups):
        group = books.groups[key]
        if key == preemptor or group.queue in way or not books.reclaimable(group.queue):
            continue
        pods = [pod for pod in group.running if is_own(pod)]
        if not all(books.preemptable(pod) and pod.spec.priority_class_name not in SYSTEM for pod in pods):
            continue
        if any(nominated_or_going(pod) for pod in group.pods):
            continue
        if len(pods) > group.minimum:
            units += [[pod] for pod in pods]
        # A pod whose node is gone cannot be evicted, so its gang cannot go whole before that pod has been removed.
        elif not rules.gang_votes("reclaim") and all(pod.spec.node_name in books.nodes for pod in pods):
            units.append(pods)
    for unit in units:
        if unit and may_lose(books, rules, way, unit, more):
            yield unit


def nominated_or_going(pod: Pod) -> bool:
    """Not simply running or simply waiting."""
    return is_terminating(pod) or bool(pod.status and not pod.spec.node_name and pod.status.nominated_node_name)


def may_lose(books: Books, rules: Rules, way: Sequence[str], unit: Sequence[Pod], more: Amounts) -> bool:
    """Whether all queues that lose a unit are above their shares in what the preemptor asks for, and keep guarantees.

    The unit may bring them below what they deserve: it is the last resort for a preemptor that nothing else serves.
    """
    asked = [name for name, value in more.items() if value]
    lost: Amounts = {}
    for pod in unit:
        lost = plus(lost, books.requests[pod.key])
    for name in books.path(books.queue_of(unit[0]), tree=rules.tree):
        if name in way:
            break
        held, deserved = books.held(name, tree=rules.tree), books.deserved(name)
        # What a queue has no share of says nothing about its share, unless it has none of all that the unit holds.
        counted = [n for n in COUNTED if lost.get(n) and deserved.get(n)] or [n for n in COUNTED if lost.get(n)]
        if not any(n in asked and held.get(n, Fraction(0)) > deserved.get(n, Fraction(0)) for n in counted):
            return False
        left, floor = plus(held, lost, -1), books.figure(name, "guarantee")
        if not within(floor, left, floor):
            return False
    return True
