"""The devices of the cluster in a session: who has which, and whether nodes have what the claims of a pod ask.

A device is free now if no claim holds it, and free later if only claims hold it whose pods are all terminating, have
ended or are evicted in this session. What the session gives to a claim is taken at once, so no two pods get a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelError
from kilauea.engine.model.claims.facts import Ask, Claim, Demand, Grant
from kilauea.engine.model.claims.inventory import Inventory, Mask, Rows, Use
from kilauea.engine.model.claims.search import MOST_DEVICES, Choice, Search
from kilauea.engine.model.claims.table import Decision, ResourceClaimTable

FITS, LACKS, NEVER, LATER = 0, 1, 2, 4
"""Verdicts on a node: free now; in use; not there at all; in use until pods have ended that are ending."""

Codes = NDArray[np.int8]
Ranks = NDArray[np.int32]
MOST_ALTERNATIVES = 8
"""A request has at most so many alternatives; the first one counts so much, each that follows one less."""


class Holdings:
    """Free devices, and the nodes that have enough of them.

    Args:
        table: claims and classes.
        inventory: the devices.
    """

    def __init__(self, table: ResourceClaimTable, inventory: Inventory) -> None:
        self._table = table
        self.inventory = inventory
        size = len(inventory)
        self._held: NDArray[np.int32] = np.zeros(size, dtype=np.int32)
        """Claims that hold each device, as the objects have it."""
        self._viewed: NDArray[np.int32] = np.zeros(size, dtype=np.int32)
        """Claims that will hold each device once what is ending has ended."""
        self._amounts: NDArray[np.int64] = np.zeros(len(inventory.counters), dtype=np.int64)
        """What claims take of devices that several share."""
        self._later: NDArray[np.int64] = np.zeros(len(inventory.counters), dtype=np.int64)
        """The same once what is ending has ended."""
        self._masks: dict[Ask, Mask | None] = {}
        self._searched: dict[tuple[object, ...], bool] = {}

    # --- holding

    def hold(self, use: Use) -> None:
        """Devices are in use by a claim whose pods stay."""
        self.hold_until_ended(use)
        self.view(use, 1)

    def hold_until_ended(self, use: Use) -> None:
        """Devices are in use by a claim whose pods are ending."""
        self._held[list(use.rows)] += 1
        for counter, amount in use.amounts:
            self._amounts[counter] += amount

    def view(self, use: Use, by: int) -> None:
        """The pods of a claim that has devices end (-1), or another pod keeps them (1)."""
        self._viewed[list(use.rows)] += by
        for counter, amount in use.amounts:
            self._later[counter] += by * amount

    def give(self, use: Use, by: int) -> None:
        """Devices are given to a claim by this session (1), or taken back from it (-1)."""
        self.view(use, by)
        for counter, amount in use.amounts:
            self._amounts[counter] += by * amount

    def _used(self, *, now: bool) -> Mask:
        """(D,) devices that are in use, now or later."""
        out: Mask = self._viewed != 0
        return out | (self._held != 0) if now else out

    def free(self, *, now: bool) -> Mask:
        """(D,) devices of which something may be free, now or later."""
        return ~self._used(now=now) | self.inventory.multiple

    def _left(self, *, now: bool) -> NDArray[np.int64]:
        """(C,) what the devices in use leave of the counters."""
        left: NDArray[np.int64] = self.inventory.counters - (self._amounts if now else self._later)
        for row in np.flatnonzero(self.inventory.counted & self._used(now=now)).tolist():
            for counter, amount in self.inventory.consumes[row]:
                left[counter] -= amount
        return left

    # --- what a demand comes to

    def problem(self, demand: Demand) -> str:
        """The reason why no node can satisfy a demand, whatever devices there are; empty if there is none."""
        for request in demand.requests:
            problems = [self._problem_of(way) for way in request.ways]
            if all(problems):
                return next(iter(problems), "")
        return ""

    def _problem_of(self, way: Ask) -> str:
        if way.problem:
            return way.problem
        of = self._table.classes.get(way.class_name)
        if of is None:
            return f"request {way.name}: device class {way.class_name} does not exist"
        if not way.all and way.number > MOST_DEVICES:
            return (
                f"request {way.name}: count {way.number} is more than the {MOST_DEVICES} devices that a claim may get"
            )
        try:
            self.inventory.matching(way, of)
        except CelError as error:
            return f"request {way.name}: a selector of it or of device class {of.name} cannot be used: {error}"
        return ""

    def mask(self, way: Ask) -> Mask | None:
        """(D,) devices that one way to satisfy a request accepts; None if it cannot be satisfied."""
        if way not in self._masks:
            usable = not self._problem_of(way)
            self._masks[way] = self.inventory.matching(way, self._table.classes[way.class_name]) if usable else None
        return self._masks[way]

    def reads_shared(self, demand: Demand) -> bool:
        """Return True if devices may be chosen that several nodes reach."""
        masks = [self.mask(way) for request in demand.requests for way in request.ways]
        return any(mask is not None and bool(mask[rows].any()) for mask in masks for _, rows in self.inventory.shared)

    # --- verdicts

    def verdicts(self, demands: Sequence[Demand], rows: Rows) -> tuple[Codes, Ranks]:
        """(n,) for nodes in some rows: if they satisfy the demands of one pod, and by how good alternatives."""
        asks = [way for demand in demands for request in demand.requests for way in request.ways]
        masks = {way: mask for way in asks if (mask := self.mask(way)) is not None}
        codes = np.full(len(rows), NEVER, dtype=np.int8)
        codes[self._may(demands, masks, np.ones(len(self.inventory), dtype=bool), rows)] = LACKS
        ranks = np.zeros(len(rows), dtype=np.int32)
        simple = self._is_simple(demands, masks)
        for verdict, now in ((LATER, False), (FITS, True)):
            free = self.free(now=now)
            fits = self._may(demands, masks, free, rows) & (codes != NEVER)
            if not simple:
                search = self._searching(demands, masks, now=now)
                for at in np.flatnonzero(fits).tolist():
                    choices = search(int(rows[at]))
                    fits[at] = choices is not None
                    ranks[at] = _rank(demands, choices or ())
            codes[fits] = verdict
        return codes, ranks

    def _may(self, demands: Sequence[Demand], masks: Mapping[Ask, Mask], free: Mask, rows: Rows) -> Mask:
        """(n,) nodes with as many free devices as each request needs by itself, and all that want the same together."""
        out = np.ones(len(rows), dtype=bool)
        together: dict[bytes, tuple[Mask, int]] = {}
        for request in (request for demand in demands for request in demand.requests):
            enough = np.zeros(len(rows), dtype=bool)
            for way in request.ways:
                mask = masks.get(way)
                if mask is None:
                    continue
                usable = mask if way.admin or way.all else mask & free
                several = bool((usable & self.inventory.multiple).any())
                enough |= self.inventory.count(usable, rows) >= (1 if way.all or several else way.number)
                if len(request.ways) == 1 and not way.admin and not way.all and not several:
                    _, before = together.get(mask.tobytes(), (mask, 0))
                    together[mask.tobytes()] = (mask, before + way.number)
            out &= enough
        for mask, count in together.values():
            out &= self.inventory.count(mask & free, rows) >= count
        return out

    def _is_simple(self, demands: Sequence[Demand], masks: Mapping[Ask, Mask]) -> bool:
        """Return True if counting is all there is to it: requests want the same devices, or quite different ones."""
        distinct: dict[bytes, Mask] = {}
        for demand in demands:
            if demand.constraints or sum(way.number for r in demand.requests for way in r.ways) > MOST_DEVICES:
                return False
            for request in demand.requests:
                way = request.ways[0]
                if len(request.ways) > 1 or way.all or way.admin or way not in masks:
                    return False
                distinct[masks[way].tobytes()] = masks[way]
        several = list(distinct.values())
        if any((mask & self.inventory.counted).any() for mask in several):
            return False
        overlapping = sum(mask.astype(np.int32) for mask in several) if len(several) > 1 else 0
        return bool(np.all(np.asarray(overlapping) <= 1))

    def _searching(
        self, demands: Sequence[Demand], masks: Mapping[Ask, Mask], *, now: bool
    ) -> Callable[[int], tuple[Choice, ...] | None]:
        """The search for devices on a node, now or later."""
        free, used, left = self.free(now=now), self._used(now=now), self._left(now=now)
        return lambda node: Search(self.inventory, demands, masks, self.inventory.at(node), free, used, left).run()

    # --- choosing

    def choose(self, claims: Sequence[Claim], node: int, *, now: bool) -> list[Decision] | None:
        """Devices for the claims of a pod on a node; None if there are not enough."""
        demands = [claim.demand for claim in claims]
        asks = [way for demand in demands for request in demand.requests for way in request.ways]
        masks = {way: mask for way in asks if (mask := self.mask(way)) is not None}
        choices = self._searching(demands, masks, now=now)(node)
        if choices is None:
            return None
        return [self._decision([c for c in choices if c.claim == number]) for number in range(len(claims))]

    def _decision(self, choices: Iterable[Choice]) -> Decision:
        chosen = list(choices)
        devices = self.inventory.devices
        return Decision(
            tuple(Grant(c.request, devices[c.device].id, c.admin, self._consumed(c)) for c in chosen),
            Use(tuple(c.device for c in chosen if not c.admin), tuple(each for c in chosen for each in c.amounts)),
            tuple(dict.fromkeys(devices[c.device].reach for c in chosen)),
        )

    def _consumed(self, choice: Choice) -> tuple[tuple[str, int], ...]:
        """Amounts of capacities, by name."""
        names = {counter: name for name, counter in self.inventory.capacities[choice.device].items()}
        return tuple((names[counter], amount) for counter, amount in choice.amounts)


def _rank(demands: Sequence[Demand], choices: Iterable[Choice]) -> int:
    """How good the alternatives are that devices were found for: more for each that stands further ahead."""
    chosen = {(choice.claim, choice.request) for choice in choices}
    return sum(
        max(MOST_ALTERNATIVES - place, 0)
        for claim, demand in enumerate(demands)
        for request in demand.requests
        for place, way in enumerate(request.ways)
        if way.name != request.name and (claim, way.name) in chosen
    )
