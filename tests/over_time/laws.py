"""The laws of a cluster's life once nothing but the scheduler changes it: `broken` says which of them a history breaks.

1. Rest: it comes to rest, and nothing is evicted twice for the same preemptor.
2. No idle wait: at rest nothing waits for room that is free and that its queue may use.
3. A promise is kept: what room was made for gets it as soon as it is free; nothing else does, and no more is evicted.
4. Nothing in vain: once its victims have gone, a preemptor starts.
5. A promise can be claimed: at rest no queue is below its share while room could be taken back for it.

Every sentence begins with the name of its law.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kilauea.api.core import Pod
from kilauea.engine.plan import Plan
from over_time.at_rest import idle_waits, may_use, unclaimed_shares
from over_time.books import Books, Rules, is_placed, is_terminating, is_waiting, nominated, plus
from over_time.cycle_laws import broken_by_plan
from over_time.history import History
from support.builders import placements

LAWS = ("rest", "no idle wait", "a promise is kept", "nothing in vain", "a promise can be claimed")


def broken(history: History) -> list[str]:
    """The laws that a history breaks, as sentences; those of single cycles among them."""
    rules = Rules.of(history.conf)
    found, ledger = unrest(history), Ledger(rules)
    found += [f"restarts change nothing: cycle {n} differs after one" for n in history.restarts]
    last: Books | None = None
    for number, moment in enumerate(history.moments, -history.calm):
        last = books = Books(moment.objects)
        found += [f"{law} (cycle {number})" for law in broken_by_plan(books, moment.plan, rules)]
        if number >= 0:
            found += ledger.enter(number, books, moment.plan)
    if history.at_rest and last is not None:
        found += ledger.in_vain(last)
        found += [f"no idle wait: {sentence}" for sentence in idle_waits(last, rules)]
        found += [f"a promise can be claimed: {sentence}" for sentence in unclaimed_shares(last, rules)]
    return found


def unrest(history: History) -> list[str]:
    """The laws of rest that a history breaks."""
    calm, found = history.quiet, []
    if not history.at_rest:
        plan = calm[-1].plan
        found.append(
            f"rest: {len(calm)} cycles after the last change {len(plan.binds)} pods start, "
            f"{len(plan.evictions)} are evicted and {len(plan.nominations)} are promised room"
        )
    evicted = Counter((e.by, e.pod) for moment in calm for e in moment.plan.evictions if e.by)
    for (preemptor, pod), times in sorted(evicted.items()):
        if times > 1:
            found.append(f"rest: {pod} is evicted {times} times for {preemptor}")
    return found


@dataclass(frozen=True)
class Promise:
    """Room on a node for a waiting pod, and the victims that it cost."""

    pod: str
    node: str
    group: str
    made: int
    victims: tuple[str, ...]


class Ledger:
    """The promises of a history, entered moment by moment.

    Nominations that the first moment finds count as promises, as far as queues may still have what they ask for.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open: dict[str, Promise] = {}
        """By pod."""
        self._paid: list[Promise] = []
        self._started: dict[str, list[tuple[int, str]]] = {}
        """By node: cycles and groups of pods that started there."""
        self._granted: set[str] = set()
        """Uids of pods that started."""
        self._uids: dict[str, str] = {}

    def enter(self, number: int, books: Books, plan: Plan) -> list[str]:
        """What a cycle does to the promises, and the laws that it breaks by that."""
        if number == 0:
            self._enter_found(books)
        found = [*self._judge(number, books, plan)]
        bound = {b.pod: b.node for b in plan.binds}
        for key, node in bound.items():
            self._started.setdefault(node, []).append((number, books.group_key(key)))
            self._granted.add(books.pods[key].metadata.uid or key)
        for nomination in plan.nominations:
            group = books.group_key(nomination.pod)
            victims = tuple(e.pod for e in plan.evictions if e.by == group and e.node == nomination.node)
            if victims:
                promise = Promise(nomination.pod, nomination.node, group, number, victims)
                self._open[nomination.pod] = promise
                self._paid.append(promise)
                self._uids[nomination.pod] = books.pods[nomination.pod].metadata.uid or nomination.pod
        return found

    def _enter_found(self, books: Books) -> None:
        """Count the nominations that the first moment finds as promises, except those of gangs that lost a node."""
        named = [
            Promise(key, node, books.group_key(key), -1, ())
            for key, pod in books.pods.items()
            if (node := nominated(pod))
        ]
        lost = {promise.group for promise in named if not _can_be_kept(promise, books)}
        for promise in named:
            pod = books.pods[promise.pod]
            freed = any(map(is_terminating, books.on(promise.node)))
            if promise.group not in lost and freed and self._may_have(books, pod):
                self._open[promise.pod] = promise
                self._uids[promise.pod] = pod.metadata.uid or promise.pod

    def _may_have(self, books: Books, pod: Pod) -> bool:
        """Whether the queue of a pod may surely use what it asks for: nodes and queues may have changed."""
        if self._rules.queue_plugin not in ("capacity", "proportion"):
            return True
        return may_use(books, self._rules, books.queue_of(pod), books.requests[pod.key], [pod])

    def _judge(self, number: int, books: Books, plan: Plan) -> Iterator[str]:
        bound = {b.pod: b.node for b in plan.binds}
        named = {n.pod: n.node for n in plan.nominations}
        # A claim is made once for a whole gang: if it loses one node, it is decided again.
        lost = {promise.group for promise in self._open.values() if not _can_be_kept(promise, books)}
        for key, promise in list(self._open.items()):
            pod = books.pods.get(key)
            # A queue whose part has shrunk may have no right to the pod any more: then the promise lapses.
            if pod is None or not is_waiting(pod) or promise.group in lost or not self._may_have(books, pod):
                del self._open[key]
        standing = dict(self._open)
        yield from self._taken(number, books, bound)
        yield from self._more(number, books, plan, standing)
        for key, promise in standing.items():
            if key in bound:
                del self._open[key]
            elif named.get(key) != promise.node:
                del self._open[key]
                now = f"gets one of {named[key]}" if key in named else "gets none"
                yield f"a promise is kept: cycle {number} forgets the promise of {promise.node} to {key}, which {now}"
            elif self._could_start(books, promise, bound, named):
                yield f"a promise is kept: {promise.node} is free in cycle {number}, and {key} is not bound to it"

    def _taken(self, number: int, books: Books, bound: dict[str, str]) -> Iterator[str]:
        """Nothing else is bound where it leaves no room for what is promised."""
        for node in sorted({promise.node for promise in self._open.values()}):
            waiting = [p for p in self._open.values() if p.node == node and p.pod not in bound]
            others = [
                key
                for key, place in bound.items()
                if place == node and books.group_key(key) not in {p.group for p in waiting} and key not in self._open
            ]
            if not waiting or not others:
                continue
            going = [pod.key for pod in books.on(node) if is_terminating(pod)]
            room = books.idle(node, going)
            for key, place in bound.items():
                room = plus(room, books.requests[key], -1) if place == node else room
            for promise in waiting:
                room = plus(room, books.requests[promise.pod], -1)
            lacking = [name for p in waiting for name in books.requests[p.pod] if room[name] < 0]
            if lacking:
                names = ", ".join(sorted(p.pod for p in waiting))
                yield f"a promise is kept: cycle {number} gives {', '.join(others)} room on {node} promised to {names}"

    def _more(self, number: int, books: Books, plan: Plan, standing: dict[str, Promise]) -> Iterator[str]:
        """Nothing more is evicted for a claim whose promise stands, unless more pods are placed by it."""
        victims: dict[str, list[str]] = {}
        for eviction in plan.evictions:
            victims.setdefault(eviction.by, []).append(eviction.pod)
        for preemptor, pods in sorted(victims.items()):
            before = [key for key, promise in standing.items() if promise.group == preemptor]
            if not before:
                continue
            after = {p.pod for p in placements(plan) if books.group_key(p.pod) == preemptor}
            if len(after) <= len(before):
                places = ", ".join(f"{standing[key].node} to {key}" for key in before)
                yield (
                    f"a promise is kept: cycle {number} evicts {', '.join(pods)} for {preemptor}, "
                    f"which has been promised {places}"
                )

    def _could_start(self, books: Books, promise: Promise, bound: dict[str, str], named: dict[str, str]) -> bool:
        """Whether the promised room is free, and with the group's other pods that have room now it is complete.

        A gang below its minimum waits for all the nodes that it needs, also for those where it cost no victims.
        """
        if not _is_free(books, promise.node):
            return False
        group = books.groups[promise.group]
        kept = [pod for pod in group.waiting if pod.key not in bound and named.get(pod.key) == nominated(pod) != ""]
        free = [pod for pod in kept if _is_free(books, nominated(pod))]
        starting = [pod for pod in group.waiting if pod.key in bound]
        least = group.minimum if "gang" in self._rules.plugins else 0
        return len(group.running) + len(starting) + len(free) >= least

    def in_vain(self, last: Books) -> Iterator[str]:
        """At rest: preemptors that never started though their victims have gone."""
        helped = {p.group for p in self._paid if self._uids[p.pod] in self._granted}
        for promise in self._paid:
            group = last.groups.get(promise.group)
            if group is None or promise.group in helped or not _can_be_kept(promise, last):
                continue
            # A gang starts when all its victims have gone, on all its nodes; some may never go.
            places = {paid.node for paid in self._paid if paid.group == promise.group}
            if any(is_terminating(pod) and is_placed(pod) for place in places for pod in last.on(place)):
                continue
            if not any(pod.key == promise.pod for pod in group.waiting):
                continue
            after = {of for at, of in self._started.get(promise.node, ()) if at >= promise.made}
            if any(of in last.groups and last.rank(last.groups[of]) > last.rank(group) for of in after):
                continue
            names = ", ".join(promise.victims)
            yield f"nothing in vain: cycle {promise.made} evicts {names} for {promise.group}, which never starts"


def _can_be_kept(promise: Promise, books: Books) -> bool:
    """Whether the node of a promise is still there and takes pods."""
    return promise.node in books.nodes and books.open(promise.node)


def _is_free(books: Books, node: str) -> bool:
    """Whether all that is promised on a node fits there now."""
    room = books.idle(node)
    for pod in books.promised(node):
        room = plus(room, books.requests[pod.key], -1)
    return not any(room.get(name, 0) < 0 for pod in books.promised(node) for name in books.requests[pod.key])
