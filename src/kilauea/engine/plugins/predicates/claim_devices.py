"""The devices of the cluster in a session: who has which, and whether nodes have what the claims of a pod ask.

A device is free now if no claim holds it, and free later if only claims hold it whose pods are all terminating, have
ended or are evicted in this session. What the session gives to a claim is taken at once, so no two pods get a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelError
from kilauea.engine.model.claims.facts import Ask, Claim, Demand, Grant
from kilauea.engine.model.claims.inventory import Inventory, Mask, Rows
from kilauea.engine.model.claims.search import MOST_DEVICES, Choice, Search
from kilauea.engine.model.claims.table import Decision, ResourceClaimTable

FITS, LACKS, NEVER, LATER = 0, 1, 2, 4
"""Verdicts on a node: free now; in use; not there at all; in use until pods have ended that are ending."""

Codes = NDArray[np.int8]


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
        self._masks: dict[Ask, Mask | None] = {}
        self._searched: dict[tuple[object, ...], bool] = {}

    # --- holding

    def hold(self, rows: Sequence[int]) -> None:
        """Devices are in use by a claim whose pods stay."""
        self._held[list(rows)] += 1
        self._viewed[list(rows)] += 1

    def hold_until_ended(self, rows: Sequence[int]) -> None:
        """Devices are in use by a claim whose pods are ending."""
        self._held[list(rows)] += 1

    def view(self, rows: Sequence[int], by: int) -> None:
        """Devices are given to a claim by this session (1), or it gives them up (-1)."""
        self._viewed[list(rows)] += by

    def free(self, *, now: bool) -> Mask:
        """(D,) devices that are free, now or later."""
        out: Mask = self._viewed == 0
        return out & (self._held == 0) if now else out

    def _left(self, free: Mask) -> NDArray[np.int64]:
        """(C,) what the devices in use leave of the counters."""
        left = self.inventory.counters.copy()
        for row in np.flatnonzero(self.inventory.counted & ~free).tolist():
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

    def verdicts(self, demands: Sequence[Demand], rows: Rows) -> Codes:
        """(n,) for nodes in some rows, if the demands of one pod can be satisfied there."""
        asks = [way for demand in demands for request in demand.requests for way in request.ways]
        masks = {way: mask for way in asks if (mask := self.mask(way)) is not None}
        codes = np.full(len(rows), NEVER, dtype=np.int8)
        codes[self._may(demands, masks, np.ones(len(self.inventory), dtype=bool), rows)] = LACKS
        simple = self._is_simple(demands, masks)
        for verdict, now in ((LATER, False), (FITS, True)):
            free = self.free(now=now)
            fits = self._may(demands, masks, free, rows) & (codes != NEVER)
            if not simple:
                left = self._left(free)
                for at in np.flatnonzero(fits).tolist():
                    fits[at] = self._finds(demands, masks, int(rows[at]), free, left)
            codes[fits] = verdict
        return codes

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
                enough |= self.inventory.count(usable, rows) >= (1 if way.all else way.number)
                if len(request.ways) == 1 and not way.admin and not way.all:
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

    def _finds(
        self,
        demands: Sequence[Demand],
        masks: Mapping[Ask, Mask],
        node: int,
        free: Mask,
        left: NDArray[np.int64],
    ) -> bool:
        return self._search(demands, masks, node, free, left) is not None

    def _search(
        self,
        demands: Sequence[Demand],
        masks: Mapping[Ask, Mask],
        node: int,
        free: Mask,
        left: NDArray[np.int64],
    ) -> tuple[Choice, ...] | None:
        return Search(self.inventory, demands, masks, self.inventory.at(node), free, left).run()

    # --- choosing

    def choose(self, claims: Sequence[Claim], node: int, *, now: bool) -> list[Decision] | None:
        """Devices for the claims of a pod on a node; None if there are not enough."""
        demands = [claim.demand for claim in claims]
        asks = [way for demand in demands for request in demand.requests for way in request.ways]
        masks = {way: mask for way in asks if (mask := self.mask(way)) is not None}
        free = self.free(now=now)
        choices = self._search(demands, masks, node, free, self._left(free))
        if choices is None:
            return None
        return [self._decision([c for c in choices if c.claim == number]) for number in range(len(claims))]

    def _decision(self, choices: Iterable[Choice]) -> Decision:
        chosen = list(choices)
        devices = self.inventory.devices
        return Decision(
            tuple(Grant(c.request, devices[c.device].id, c.admin) for c in chosen),
            tuple(c.device for c in chosen if not c.admin),
            tuple(dict.fromkeys(devices[c.device].reach for c in chosen)),
        )
