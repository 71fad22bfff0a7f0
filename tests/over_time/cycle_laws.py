"""Laws that every plan keeps, whatever came before: victims, gangs and the room on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from kilauea.engine.plan import Plan
from over_time.books import (
    COUNTED,
    Amounts,
    Books,
    Rules,
    count_by_group,
    is_own,
    is_placed,
    is_terminating,
    plus,
)
from support.builders import placements


def broken_by_plan(books: Books, plan: Plan, rules: Rules) -> list[str]:
    """The laws that a plan for a cluster breaks, as sentences."""
    if not (plan.binds or plan.evictions or plan.nominations):
        return []
    found = [
        *_victims(books, plan, rules),
        *_gangs(books, plan, rules),
        *_nodes(books, plan),
        *_limits(books, plan, rules),
    ]
    return sorted(set(found))


def _victims(books: Books, plan: Plan, rules: Rules) -> Iterator[str]:
    running = [key for key, pod in books.pods.items() if is_placed(pod) and not is_terminating(pod)]
    gone = {e.pod for e in plan.evictions}
    ran, left = (count_by_group(books, keys) for keys in (running, [key for key in running if key not in gone]))
    comes = count_by_group(books, [p.pod for p in placements(plan)])
    for eviction in plan.evictions:
        pod = books.pods.get(eviction.pod)
        if pod is None or eviction.pod not in running:
            yield f"victims run: {eviction.pod} does not run and is evicted"
            continue
        if not is_own(pod):
            yield f"foreign pods stay: {eviction.pod} is of scheduler {pod.spec.scheduler_name} and is evicted"
        if eviction.action == "shuffle":
            continue
        if not books.preemptable(pod):
            yield f"victims are preemptable: {eviction.pod} is not and is evicted"
        if "reclaim" in eviction.action and not books.reclaimable(books.queue_of(pod)):
            yield f"victims' queues are reclaimable: {books.queue_of(pod)} is not and loses {eviction.pod}"
        of = books.group_key(eviction.pod)
        group = books.groups.get(of)
        if group is not None and rules.gang_votes(eviction.action):
            least = group.minimum
            if ran[of] >= least and 0 < left[of] < least:
                yield f"gangs stay whole: {of} is left with {left[of]} of {least}"
        preemptor = books.groups.get(eviction.by)
        if preemptor is None:
            yield f"evictions have a preemptor: {eviction.pod} is evicted for {eviction.by!r}"
        elif left[preemptor.key] + comes[preemptor.key] < preemptor.minimum:
            yield f"evictions help: {eviction.pod} is evicted for {preemptor.key}, which stays below its minimum"


def _gangs(books: Books, plan: Plan, rules: Rules) -> Iterator[str]:
    if "gang" not in rules.plugins:
        return
    # What shuffle evicts was there when its gang was placed; a gang that leaves revocable nodes goes pod by pod.
    gone = {e.pod for e in plan.evictions if e.action != "shuffle"}
    stays = [key for key, pod in books.pods.items() if is_placed(pod) and not is_terminating(pod) and key not in gone]
    there, bound = count_by_group(books, stays), count_by_group(books, [b.pod for b in plan.binds])
    for key, count in sorted(bound.items()):
        group = books.groups.get(key)
        if group is not None and there[key] + count < group.minimum:
            yield f"gangs start whole: {key} is bound with {there[key] + count} of {group.minimum}"


def _nodes(books: Books, plan: Plan) -> Iterator[str]:
    gone = {e.pod for e in plan.evictions} | {key for key, pod in books.pods.items() if is_terminating(pod)}
    for node in sorted({p.node for p in placements(plan)}):
        if node not in books.nodes:
            yield f"pods go to nodes: {node} is not a node"
            continue
        bound = [p.pod for p in plan.binds if p.node == node]
        if bound and (over := _over(books, books.idle(node), bound)):
            yield f"nodes have room: {node} lacks {over} for {', '.join(bound)}"
        coming = [*bound, *(p.pod for p in plan.nominations if p.node == node)]
        if over := _over(books, books.idle(node, gone), coming):
            yield f"promised room exists: {node} will lack {over} for {', '.join(coming)}"


def _over(books: Books, room: Amounts, pods: Iterable[str]) -> str:
    """What lacks if these pods take room."""
    asked: set[str] = set()
    for key in pods:
        room = plus(room, books.requests[key], -1)
        asked |= books.requests[key].keys()
    return ", ".join(sorted(name for name in asked if room.get(name, Fraction(0)) < 0))


def _limits(books: Books, plan: Plan, rules: Rules) -> Iterator[str]:
    """No queue is brought above its capability."""
    if rules.queue_plugin not in ("capacity", "proportion"):
        return
    gone = {e.pod for e in plan.evictions}
    bound: dict[str, Amounts] = {}
    for bind in plan.binds:
        for name in books.path(books.queue_of(books.pods[bind.pod]), tree=rules.tree):
            bound[name] = plus(bound.get(name, {}), books.requests[bind.pod])
    for key in gone:
        for name in books.path(books.queue_of(books.pods[key]), tree=rules.tree) if key in books.pods else ():
            if name in bound:
                bound[name] = plus(bound[name], books.requests[key], -1)
    for name, more in sorted(bound.items()):
        most = books.figure(name, "capability")
        after = plus(books.held(name, tree=rules.tree, promised=False), more)
        for resource in COUNTED:
            if most.get(resource) and more.get(resource, 0) > 0 and after[resource] > most[resource]:
                yield f"queues stay within capability: {name} gets {after[resource]} of {most[resource]} {resource}"
