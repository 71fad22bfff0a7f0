"""What reclaim leaves to the queues that it takes from: the floor, for a queue and for each of its ancestors.

A queue gives only while it holds more than it deserves, and never falls below its guarantee. One unit (a pod, or a
gang that goes whole) may be larger than the excess. It may cross the line where no other choice of units serves the
claimer, and only for a claimer that stays within what it deserves: then the claimer is never above its own share, so
the queue that lost the unit has nothing to take back from it, and the two cannot evict each other in turn.

The floor holds whatever plugins let go, in the victim's queue and in those of its ancestors that are not the
claimer's too: what moves within a common ancestor does not change what that ancestor holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, PODS, Amounts, add, order_of
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import SpareReason
from kilauea.engine.session import Session

NOTHING: dict[str, float] = {}
HOLDS = "holds no more"

Why = tuple[str, str, str, str]
"""A code, and the end of a sentence: verb, resource, measure."""


class Floor:
    """What queues keep while an action takes from them.

    Args:
        session: the cycle; what queues hold now counts as what they held when the action began.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._at_first = {name: dict(queue.allocated) for name, queue in session.queues.items()}

    def spares(self, claimer: Queue, asked: Amounts, unit: Sequence[Task], *, crossing: bool) -> SpareReason | None:
        """Why a unit may not go for a queue, after what went already; None if it may.

        Args:
            claimer: the queue that wants room.
            asked: what it wants beside what it holds and is promised.
            unit: tasks that would go together.
            crossing: whether they may take a queue from above to below what it deserves.
        """
        for queue, lost in self._losses(claimer, unit):
            owns = queue is self._owner(unit[0])
            reason = self._guaranteed(queue, lost)
            if reason is None and (owns or not self._may_cross(claimer, queue, asked, lost, crossing=crossing)):
                reason = self._has_no_more(queue, lost)
            crossed = self._crossed(queue, lost) if reason is None else None
            if crossed and not self._may_cross(claimer, queue, asked, crossed, crossing=crossing):
                reason = ("BelowDeserved", "would have less", min(crossed, key=order_of), "than it deserves")
            if reason is not None:
                code, verb, what, than = reason
                of = "its queue" if owns else f"{queue.name} above its queue"
                it = "it" if len(unit) == 1 else f"its gang of {len(unit)}"
                where = of if verb == HOLDS else f"without {it} {of}"
                return SpareReason(code, f"{where} {verb} {what} {than}")
        return None

    def _may_cross(self, claimer: Queue, queue: Queue, asked: Amounts, lost: Amounts, *, crossing: bool) -> bool:
        """Whether a queue may fall below what it deserves: the claimer then still holds no more than it deserves."""
        deserved = queue.figures.deserved or NOTHING
        counted = {name: amount for name, amount in lost.items() if deserved.get(name, 0) > EPSILON}
        return crossing and within_share(self._unshared(claimer, queue), asked, counted)

    def overshoot(self, claimer: Queue, unit: Sequence[Task]) -> float:
        """How far a unit takes queues below what they deserve, as parts of that; the largest part counts."""
        return max(
            (part for queue, lost in self._losses(claimer, unit) for part in self._crossed(queue, lost).values()),
            default=0.0,
        )

    def _owner(self, task: Task) -> Queue:
        return self._session.queues[self._session.state.jobs[task.group].queue]

    def _losses(self, claimer: Queue, unit: Sequence[Task]) -> Iterator[tuple[Queue, dict[str, float]]]:
        """Queues that lose something to a claimer, each with what it loses: the owners, then their ancestors."""
        shared = {ancestor.name for ancestor in claimer.figures.ancestors}
        lost: dict[str, dict[str, float]] = {}
        for task in unit:
            owner = self._owner(task)
            for at in (owner, *owner.figures.ancestors):
                if at.name not in shared:
                    add(lost.setdefault(at.name, {}), task.spec.requests)
        return ((self._session.queues[name], amounts) for name, amounts in lost.items())

    def _guaranteed(self, queue: Queue, lost: Amounts) -> Why | None:
        """What of its guarantee a queue would lack."""
        for name in sorted(lost.keys() - {PODS}, key=order_of):
            if queue.allocated.get(name, 0) - lost[name] < queue.guarantee.get(name, 0) - EPSILON:
                return "Guarantee", "would have less", name, "than its guarantee"
        return None

    def _has_no_more(self, queue: Queue, lost: Amounts) -> Why | None:
        """That a queue holds no more than it deserves of anything that it would lose."""
        deserved = queue.figures.deserved or NOTHING
        counted = [name for name in lost if name != PODS and deserved.get(name, 0) > EPSILON]
        if not counted or any(queue.allocated.get(name, 0) > deserved[name] + EPSILON for name in counted):
            return None
        return "WithinDeserved", HOLDS, " or ".join(sorted(counted, key=order_of)), "than it deserves"

    def _crossed(self, queue: Queue, lost: Amounts) -> dict[str, float]:
        """Resources of which a queue would have less than it deserves, each with the part of it that is missing.

        Empty as long as the queue still has all that it deserves of any resource: its share, which is the largest part
        of what it deserves that it holds, is then not below 1. Only resources of which it held more count, now or when
        the action began: it may have come down to the line by now.
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

    def _unshared(self, claimer: Queue, of: Queue) -> list[Queue]:
        """The claimer's queue and those of its ancestors that are not ancestors of another queue, or that queue."""
        above = {of.name, *(ancestor.name for ancestor in of.figures.ancestors)}
        return [claimer, *(ancestor for ancestor in claimer.figures.ancestors if ancestor.name not in above)]


def within_share(chain: Sequence[Queue], asked: Amounts, names: Amounts) -> bool:
    """Whether a queue and its ancestors (`chain`) deserve what they hold of some resources and what is asked beside it.

    A level that deserves none of a resource says nothing about it, as long as another one of the chain does.
    """
    for name in names:
        if name == PODS or asked.get(name, 0) < EPSILON:
            continue
        shares = [(at.allocated.get(name, 0), (at.figures.deserved or NOTHING).get(name, 0)) for at in chain]
        counted = [(held, share) for held, share in shares if share > EPSILON]
        if not counted or any(held + asked[name] > share + EPSILON for held, share in counted):
            return False
    return True


def nothing_to_take(claimer: Queue, owner: Queue, task: Task) -> SpareReason | None:
    """Why a queue may not take a task of another, as things stand between the two; None if it may.

    The task has to hold something that its queue has too much of and the claimer too little, or that neither has a
    share of: a queue that has its share of what it takes would lose it again to the one that it took it from. For the
    claimer those of its ancestors may stand that take part in reclaim and are not the owner's too.
    """
    held, of_owner = owner.allocated, owner.figures.deserved or NOTHING
    too_much = [n for n in task.spec.requests if n != PODS and held.get(n, 0) > of_owner.get(n, 0) + EPSILON]
    if not too_much:
        if task.spec.best_effort:
            return None
        return SpareReason("QueueWithinDeserved", "its queue holds no more than it deserves")
    above = {ancestor.name for ancestor in owner.figures.ancestors}
    near = claimer.figures.ancestors[: claimer.figures.reclaim_level]
    claimers = [claimer, *(ancestor for ancestor in near if ancestor.name not in above)]
    for name in too_much:
        shares = [(at.figures.deserved or NOTHING).get(name, 0) for at in claimers]
        lacking = (at.allocated.get(name, 0) < s - EPSILON for at, s in zip(claimers, shares, strict=True))
        if any(lacking) or max(*shares, of_owner.get(name, 0)) <= EPSILON:
            return None
    what = " and ".join(sorted(too_much, key=order_of))
    return SpareReason("ClaimerHasItsShare", f"its queue has too much {what}, but {claimer.name} lacks none")
