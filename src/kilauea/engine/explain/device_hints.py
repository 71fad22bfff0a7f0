"""The devices that a pod requests, with the number that match, and why those are not available.

Devices and cards are counted as the plan leaves them: those that pods have, those that it gives to the pods that start,
and those that it keeps for nominated pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelError
from kilauea.engine.devices.usage import Given
from kilauea.engine.model.claims.facts import Ask, Grant, grants_of
from kilauea.engine.model.claims.inventory import Inventory, Mask
from kilauea.engine.model.claims.table import ResourceClaimTable
from kilauea.engine.model.devices import cards_in
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Bind, Nomination, Plan

NOTHING = Plan()
IN_USE = "in use"
KEPT = "kept for nominated pods"
NO_ROOM = "without enough capacity left"
"""Of devices that several claims share, and of partitions: their counters are used up."""
OFFERED = "on nodes that offer the resource themselves"
"""Of devices that could serve an extended resource."""
FREE = "free"
STATES = (IN_USE, KEPT, NO_ROOM, OFFERED)


def given_cards(plan: Plan) -> list[Given]:
    """The parts of cards that a plan gives to pods that start, or keeps for nominated ones."""
    starting = [Given(bind.pod, bind.node, cards_in(bind.annotations)) for bind in plan.binds if bind.annotations]
    return starting + [Given(each.pod, each.node, each.cards) for each in plan.nominations if each.cards]


class Holding:
    """Devices that claims have, and the rest of counters beside them.

    Args:
        inventory: the devices.
        grants: the devices of each claim.
        kept: those of nominated pods.
    """

    def __init__(
        self, inventory: Inventory, grants: Iterable[Iterable[Grant]], kept: Iterable[Iterable[Grant]] = ()
    ) -> None:
        self.inventory = inventory
        self.left: NDArray[np.int64] = inventory.counters.copy()
        self.used: Mask = np.zeros(len(inventory), dtype=bool)
        self._take(grants)
        used = self.used.copy()
        self._take(kept)
        self._kept = self.used & ~used

    def _take(self, grants: Iterable[Iterable[Grant]]) -> None:
        for each in grants:
            use = self.inventory.use_of(each)
            first = [row for row in dict.fromkeys(use.rows) if not self.used[row]]
            self.used[first] = True
            for counter, amount in (*use.amounts, *(each for row in first for each in self.inventory.consumes[row])):
                self.left[counter] -= amount

    def state_of(self, row: int, way: Ask) -> str:
        """The reason why a request cannot have a device of its selectors; `free` if it can."""
        several = bool(self.inventory.multiple[row])
        if self.used[row] and not several and not way.admin:
            return KEPT if self._kept[row] else IN_USE
        taken = list(self.inventory.share(way.capacity, row) or ()) if several else []
        taken += () if self.used[row] else self.inventory.consumes[row]
        return NO_ROOM if not way.admin and any(self.left[counter] < amount for counter, amount in taken) else FREE


class ClaimedDevices:
    """The devices that the claims of pods request, with the number that match and the reasons why others do not.

    Args:
        table: claims and classes.
        nodes: the nodes.
        plan: pods that start or are nominated, and the devices that their claims get.
    """

    def __init__(self, table: ResourceClaimTable, nodes: NodeTable, plan: Plan = NOTHING) -> None:
        self._table = table
        self._nodes = nodes
        self._plan = plan
        self._known: dict[tuple[Ask, str], str] = {}
        """Texts by way to satisfy a request, and by the extended resource that it is for."""

    @cached_property
    def _holding(self) -> Holding:
        table, plan = self._table, self._plan
        known = {key: claim.grants for key, claim in table.claims.items() if claim.allocated} | _granted(plan.binds)
        kept = {key: grants for key, grants in _granted(plan.nominations).items() if key not in known}
        return Holding(table.inventory(self._nodes), known.values(), kept.values())

    def hints(self, task: Task, *, special: bool = False) -> list[str]:
        """The devices for a pod, request by request; with `special` only those for its extended resources."""
        hints: list[str] = []
        for ref in task.claims:
            claim = self._table.claims.get(ref.key)
            if claim is None or claim.allocated or (special and not ref.special):
                continue
            content = self._table.contents.get(ref.key) if ref.special else None
            for number, request in enumerate(claim.demand.requests):
                resource = content.resources[number] if content is not None and number < len(content.resources) else ""
                text = " or ".join(filter(None, (self._devices(way, resource) for way in request.ways)))
                asking = f"{resource} needs" if resource else f"request {request.name} of claim {ref.name} asks for"
                hints.append(f"{asking} {text}")
            for each in claim.demand.constraints:
                which = f"requests {', '.join(each.requests)}" if each.requests else "the devices"
                how = "differ" if each.distinct else "agree"
                hints.append(f"{which} of claim {ref.name} must {how} in {each.attribute}")
        return hints

    def _devices(self, way: Ask, resource: str) -> str:
        known = self._known.get((way, resource))
        if known is None:
            served = self._nodes.by_class.get(resource)
            known = self._known[way, resource] = _devices_of(self._table, self._holding, way, served)
        return known


def _granted(placed: Iterable[Bind | Nomination]) -> dict[str, tuple[Grant, ...]]:
    """By claim the devices that a plan gives it."""
    return {c.claim: grants_of(c.allocation) for each in placed for c in each.claims if c.allocation is not None}


def _devices_of(table: ResourceClaimTable, holding: Holding, way: Ask, served: Mask | None) -> str:
    """One way to satisfy a request, as text; empty if it cannot be judged.

    `served` are the nodes (N,) on which devices count, None for all.
    """
    of, inventory = table.classes.get(way.class_name), holding.inventory
    if of is None or way.problem:
        return ""
    try:
        selected = inventory.matching(way._replace(admin=True, capacity=()), of)
        untainted = inventory.matching(way._replace(capacity=()), of)
        mask = inventory.matching(way, of)
    except CelError:
        return ""
    usable = np.ones(len(inventory), dtype=bool) if served is None else inventory.reached_by(served)
    states = {row: holding.state_of(row, way) if usable[row] else OFFERED for row in np.flatnonzero(mask).tolist()}
    free = np.zeros(len(inventory), dtype=bool)
    free[[row for row, state in states.items() if state == FREE]] = True
    counts = {state: sum(1 for each in states.values() if each == state) for state in STATES} | {
        "without enough capacity": int(np.count_nonzero(untainted & ~mask)),
        "with a taint that the request does not tolerate": int(np.count_nonzero(selected & ~untainted)),
        FREE: int(np.count_nonzero(free)),
    }
    number = "all devices" if way.all else f"{way.number} device{'s' * (way.number > 1)}"
    most = int(inventory.count(free)[slice(None) if served is None else served].max(initial=0))
    spread = f"; at most {most} {_are(most)} free for one node" if counts[FREE] >= way.number > most > 0 else ""
    return f"{number} of class {way.class_name} ({_in_words(counts)}{'' if way.all else spread})"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _in_words(counts: dict[str, int]) -> str:
    """The number of devices that match, by their state."""
    total, found = sum(counts.values()), [(number, state) for state, number in counts.items() if number]
    if not found:
        return "no device matches"
    if total == 1:
        return f"1 device matches, {found[0][1]}"
    if len(found) == 1:
        return f"{total} devices match, {'both' if total == 2 else 'all'} {found[0][1]}"
    return f"{total} devices match: {', '.join(f'{number} {state}' for number, state in found)}"
