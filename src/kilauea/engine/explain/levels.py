"""The queues above a pod group with their metrics, and the queues that borrowed the missing resource."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilauea.engine.model.resources import EPSILON, PODS, order_of
from kilauea.engine.plan import QueueOutcome
from kilauea.engine.session import Session


@dataclass(frozen=True, slots=True)
class Level:
    """A queue on the path from the root to the group's own queue, and one resource, in the engine's units.

    Attributes:
        queue: its name.
        depth: levels above it; 0 for the uppermost.
        resource: the resource of the amounts below.
        allocated: its allocation after the cycle.
        asked: the missing part of the group's minimum.
        inqueue: reserved at the start of the cycle for admitted groups that are not placed yet.
        elastic: what its groups hold beyond their minima; it counts as available where a group waits for admission.
        deserved: its deserved share; None if no plugin sets one.
        guarantee: its guarantee.
        may_use: the most that it may hold; None if there is no limit.
        blocks: the group waits for resources of this queue.
    """

    queue: str
    depth: int
    resource: str
    allocated: float
    asked: float
    inqueue: float
    elastic: float
    deserved: float | None
    guarantee: float
    may_use: float | None
    blocks: bool


@dataclass(frozen=True, slots=True)
class Borrower:
    """A queue with jobs that holds more of a resource than it deserves, in the engine's units.

    Attributes:
        queue: its name.
        resource: the resource.
        allocated: its allocation.
        deserved: its deserved share.
        distance: levels from the group's queue up to the nearest common ancestor; 1 for a sister queue.
    """

    queue: str
    resource: str
    allocated: float
    deserved: float
    distance: int

    @property
    def borrowed(self) -> float:
        """The amount above its deserved share."""
        return self.allocated - self.deserved


def levels(
    outcomes: Mapping[str, QueueOutcome],
    way: Sequence[str],
    asked: Mapping[str, float],
    blocking: Mapping[tuple[str, str], float],
    *,
    own_capability: bool,
) -> tuple[Level, ...]:
    """The queues on a path from the root with their metrics, without queues that no plugin reports.

    Args:
        outcomes: metrics of all queues.
        way: names of the queues, the uppermost first.
        asked: the missing amounts of the group, by the resources to show.
        blocking: queues that block, with the resource that they lack, or "" for all of them, and the requested amount.
            The queues above such a queue block, too, if they lack the amount.
        own_capability: True if queues may only use resources that their own capability names.
    """
    found = []
    for depth, name in enumerate(way):
        of = outcomes[name]
        if of.deserved is None and of.real_capability is None:
            continue
        for resource, lacking in asked.items():
            named = (name, resource) in blocking or (name, "") in blocking
            if own_capability and resource not in (of.capability or {}) and not named:
                continue
            held, most = of.allocated.get(resource, 0), _most(of, resource, own_capability=own_capability)
            below = max((blocking.get((other, resource), 0) for other in way[depth + 1 :]), default=0)
            found.append(
                Level(
                    name,
                    depth,
                    resource,
                    held,
                    lacking,
                    of.inqueue.get(resource, 0),
                    of.elastic.get(resource, 0),
                    None if of.deserved is None else of.deserved.get(resource, 0),
                    of.guarantee.get(resource, 0),
                    most,
                    named or (below > 0 and most is not None and held + below > most),
                )
            )
    return tuple(found)


def _most(of: QueueOutcome, resource: str, *, own_capability: bool) -> float | None:
    """The limit of a queue; None if it is unlimited."""
    if own_capability:
        return (of.capability or {}).get(resource, 0)
    most = None if of.real_capability is None else of.real_capability.get(resource)
    return None if most == math.inf else most


def borrowers(session: Session, outcomes: Mapping[str, QueueOutcome], own: str, below: str = "") -> list[Borrower]:
    """Queues with jobs that hold more than they deserve, sorted by distance, then by amount.

    Args:
        session: the session, for the queue tree.
        outcomes: metrics of all queues.
        own: the group's queue, which is left out.
        below: only queues below this one.
    """
    above = [queue.name for queue in session.queues[own].figures.ancestors]
    parents = {queue.name for at in session.queues.values() for queue in at.figures.ancestors}
    found = []
    for name, of in outcomes.items():
        way = [queue.name for queue in session.queues[name].figures.ancestors]
        if name == own or name in parents or of.deserved is None or (below and below not in way):
            continue
        distance = next((i for i, ancestor in enumerate(above, start=1) if ancestor in way), len(above) or 1)
        found += [
            Borrower(name, resource, held, of.deserved.get(resource, 0), distance)
            for resource, held in of.allocated.items()
            if resource != PODS and held > of.deserved.get(resource, 0) + EPSILON
        ]
    return sorted(found, key=lambda b: (b.distance, order_of(b.resource), -b.borrowed, b.queue))
