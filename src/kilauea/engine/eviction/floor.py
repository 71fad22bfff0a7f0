"""The lower limit of reclaim: the amounts that a queue and each of its ancestors keep.

A queue loses tasks only while it holds more than it deserves, and never falls below its guarantee. One unit (a pod or a
whole gang) may be larger than the excess. It may cross the line if no other choice of units works, and only for a
preemptor that stays within its deserved share: then the queue that lost the unit cannot reclaim from the preemptor, and
the two cannot evict each other repeatedly.

The floor applies regardless of plugins, to the victim's queue and to those of its ancestors that are not also the
preemptor's: moves within a common ancestor do not change what that ancestor holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilauea.engine.eviction.bundles import GangPreemptor
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, PODS, Amounts, add, order_of
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import SpareReason
from kilauea.engine.session import Session

NOTHING: dict[str, float] = {}
HOLDS = "holds no more"

Why = tuple[str, str, str, str]
"""A code and the parts of a message: verb, resource, measure."""


@dataclass(frozen=True, slots=True)
class Want:
    """A request for resources.

    Attributes:
        preemptor: the task, or the gang in a domain, as it is passed to plugins.
        asked: its total request.
        short: the missing resources of it; empty if that is unknown, or resources are not what is missing.
    """

    preemptor: Task | GangPreemptor
    asked: Amounts
    short: frozenset[str] = frozenset()


class Floor:
    """The amounts that queues keep while an action evicts their tasks.

    Args:
        session: the cycle; the current allocations count as those at the start of the action.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._at_first = {name: dict(queue.allocated) for name, queue in session.queues.items()}

    def spares(self, preemptor: Queue, asked: Amounts, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        """Return the reason to spare a unit, after the evictions so far; None if it may be evicted.

        Args:
            preemptor: the queue that needs resources.
            asked: its request in addition to what it holds and is nominated for.
            unit: tasks that would be evicted together.
            crossing: True if they may take a queue below its deserved share.
        """
        for queue, lost in self._losses(preemptor, unit):
            owns = queue is self._owner(unit[0])
            reason = self._guaranteed(queue, lost)
            if reason is None and (owns or not self._may_cross(preemptor, queue, asked, lost, crossing=crossing)):
                reason = self._has_no_more(queue, lost)
            crossed = self._crossed(queue, lost) if reason is None else None
            if crossed and not self._may_cross(preemptor, queue, asked, crossed, crossing=crossing):
                reason = ("BelowDeserved", "would have less", min(crossed, key=order_of), "than it deserves")
            if reason is not None:
                code, verb, what, than = reason
                of = "its queue" if owns else f"{queue.name} above its queue"
                it = "it" if len(unit) == 1 else f"its gang of {len(unit)}"
                where = of if verb == HOLDS else f"without {it} {of}"
                return SpareReason(code, f"{where} {verb} {what} {than}")
        return None

    def _may_cross(self, preemptor: Queue, queue: Queue, asked: Amounts, lost: Amounts, *, crossing: bool) -> bool:
        """Return True if a queue may fall below its deserved share: if the preemptor stays within its own."""
        deserved = queue.figures.deserved or NOTHING
        counted = {name: amount for name, amount in lost.items() if deserved.get(name, 0) > EPSILON}
        return crossing and within_share(self._unshared(preemptor, queue), asked, counted)

    def overshoot(self, preemptor: Queue, unit: Sequence[Task]) -> float:
        """Return the largest part of its deserved amounts that a unit takes a queue below them."""
        return max(
            (part for queue, lost in self._losses(preemptor, unit) for part in self._crossed(queue, lost).values()),
            default=0.0,
        )

    def _owner(self, task: Task) -> Queue:
        return self._session.queues[self._session.state.jobs[task.group].queue]

    def _losses(self, preemptor: Queue, unit: Sequence[Task]) -> Iterator[tuple[Queue, dict[str, float]]]:
        """Yield the queues that lose resources to a preemptor, with the amounts: the owners, then their ancestors."""
        shared = {ancestor.name for ancestor in preemptor.figures.ancestors}
        lost: dict[str, dict[str, float]] = {}
        for task in unit:
            owner = self._owner(task)
            for at in (owner, *owner.figures.ancestors):
                if at.name not in shared:
                    add(lost.setdefault(at.name, {}), task.spec.requests)
        return ((self._session.queues[name], amounts) for name, amounts in lost.items())

    def _guaranteed(self, queue: Queue, lost: Amounts) -> Why | None:
        """Return the reason that a queue would fall below its guarantee."""
        held, kept = queue.allocated, queue.guarantee
        short = [n for n in lost if n != PODS and held.get(n, 0) - lost[n] < kept.get(n, 0) - EPSILON]
        return ("Guarantee", "would have less", min(short, key=order_of), "than its guarantee") if short else None

    def _has_no_more(self, queue: Queue, lost: Amounts) -> Why | None:
        """Return the reason that a queue holds no more than it deserves of any resource that it would lose."""
        deserved = queue.figures.deserved or NOTHING
        counted = [name for name in lost if name != PODS and deserved.get(name, 0) > EPSILON]
        if not counted or any(queue.allocated.get(name, 0) > deserved[name] + EPSILON for name in counted):
            return None
        return "WithinDeserved", HOLDS, " or ".join(sorted(counted, key=order_of)), "than it deserves"

    def _crossed(self, queue: Queue, lost: Amounts) -> dict[str, float]:
        """Return the resources of which a queue would have less than it deserves, with the missing part of each.

        Empty as long as the queue still has all that it deserves of any resource: its share is then not below 1. Only
        resources of which it held more count, now or when the action began.
        """
        deserved, at_first = queue.figures.deserved or NOTHING, self._at_first[queue.name]
        out = {}
        for name, limit in deserved.items():
            if name == PODS or limit <= EPSILON:
                continue
            before = queue.allocated.get(name, 0)
            after = before - lost.get(name, 0)
            if after >= limit - EPSILON:
                return {}
            if name in lost and max(before, at_first.get(name, 0)) > limit + EPSILON:
                out[name] = (limit - after) / limit
        return out

    def _unshared(self, preemptor: Queue, of: Queue) -> list[Queue]:
        """Yield the preemptor's queue and its ancestors, except another queue and the ancestors of that queue."""
        above = {of.name, *(ancestor.name for ancestor in of.figures.ancestors)}
        return [preemptor, *(ancestor for ancestor in preemptor.figures.ancestors if ancestor.name not in above)]


def within_share(chain: Sequence[Queue], asked: Amounts, names: Amounts) -> bool:
    """Return True if a queue and its ancestors (`chain`) deserve what they hold and request of some resources.

    A level that deserves none of a resource is ignored if another level of the chain deserves some.
    """
    for name in names:
        if name == PODS or asked.get(name, 0) < EPSILON:
            continue
        shares = [(at.allocated.get(name, 0), (at.figures.deserved or NOTHING).get(name, 0)) for at in chain]
        counted = [(held, share) for held, share in shares if share > EPSILON]
        if not counted or any(held + asked[name] > share + EPSILON for held, share in counted):
            return False
    return True


def nothing_to_take(preemptor: Queue, owner: Queue, want: Want, task: Task) -> SpareReason | None:
    """Return the reason why a queue may not reclaim a task of another in their current state; None if it may.

    The missing resources that the task holds decide. Its queue must exceed its deserved share of one of them. The
    preemptor must be entitled to one, and to each of which the task's queue deserves any: with its request, it holds no
    more than it deserves, or neither deserves any. Entitlement to other resources does not count: otherwise two queues,
    each entitled to a resource that is not missing, would reclaim the same resources from each other forever.

    A preemptor that stays within its deserved share of everything that it requests may reclaim from a queue that
    exceeds its deserved share of any of it. The other queue then cannot reclaim from it, so the two cannot evict each
    other repeatedly.
    """
    held, of_owner = owner.allocated, owner.figures.deserved or NOTHING
    asked = [n for n in task.spec.requests if n != PODS and want.asked.get(n, 0) > EPSILON]
    contested = [n for n in asked if n in want.short] if want.short else asked
    grounds = asked if contested and _stays_within(preemptor, owner, want.asked) else contested
    too_much = [n for n in grounds if held.get(n, 0) > of_owner.get(n, 0) + EPSILON]
    if not too_much:
        if task.spec.best_effort:
            return None
        what = " or ".join(sorted(contested, key=order_of)) or "of anything"
        return SpareReason("QueueWithinDeserved", f"its queue holds no more {what} than it deserves")
    missing = [n for n in contested if not _has_right(preemptor, owner, n, want.asked[n])]
    # A queue cannot reclaim resources of which it deserves nothing, so one entitlement is enough for them.
    disputed = [n for n in missing if of_owner.get(n, 0) > EPSILON] if want.short else []
    if not disputed and len(missing) < len(contested):
        return None
    what = " and ".join(sorted(missing, key=order_of))
    message = f"{preemptor.name} would hold more {what} than it deserves, which is missing"
    return SpareReason("PreemptorHasItsShare", message)


def _stays_within(preemptor: Queue, owner: Queue, asked: Amounts) -> bool:
    """Return True if a queue deserves all that it would hold, of each requested resource."""
    above = {ancestor.name for ancestor in owner.figures.ancestors}
    levels = [preemptor, *(ancestor for ancestor in preemptor.figures.ancestors if ancestor.name not in above)]
    return all(
        amount + level.allocated.get(name, 0) <= (level.figures.deserved or NOTHING).get(name, 0) + EPSILON
        for name, amount in asked.items()
        if name != PODS and amount > EPSILON
        for level in levels
    )


def _has_right(preemptor: Queue, owner: Queue, name: str, asked: float) -> bool:
    """Return True if a queue deserves what it would hold of a resource, or if neither queue deserves any.

    Ancestors of the preemptor that take part in reclaim and are not the owner's can be compared instead of it.
    """
    above = {ancestor.name for ancestor in owner.figures.ancestors}
    near = preemptor.figures.ancestors[: preemptor.figures.reclaim_level]
    levels = [preemptor, *(ancestor for ancestor in near if ancestor.name not in above)]
    shares = [((at.figures.deserved or NOTHING).get(name, 0), at.allocated.get(name, 0)) for at in levels]
    if any(share > EPSILON and held + asked <= share + EPSILON for share, held in shares):
        return True
    return max((owner.figures.deserved or NOTHING).get(name, 0), *(share for share, _ in shares)) <= EPSILON
