"""Devices for the claims of one pod on one node: the first complete choice, in the order of requests and devices.

Depth first with a limit on the steps, so a claim that is hard to satisfy does not delay others. Of devices that no
request or constraint distinguishes, only the first is tried at each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.claims.facts import Ask, Constraint, Demand
from kilauea.engine.model.claims.inventory import Amounts, Inventory, Mask

MOST_STEPS = 20_000
"""After trying this many devices, a node is skipped."""
MOST_DEVICES = 32
"""Maximum number of devices of a claim, as in Kubernetes."""
MOST_OF_A_POD = 256
"""Maximum number of devices of all claims of a pod."""


class Choice(NamedTuple):
    """A device for a request of a claim."""

    claim: int
    request: str
    device: int
    admin: bool
    amounts: Amounts = ()
    """Counters that it consumes, other than those consumed by using the device at all."""
    spent: Amounts = ()
    """All counters that it consumes."""


class Slot(NamedTuple):
    """A request of a claim that needs devices."""

    claim: int
    request: int


@dataclass
class Search:
    """One search.

    Attributes:
        inventory: the devices.
        demands: the requests of the claims.
        masks: (D,) devices that match, by ask.
        here: rows of the devices that the node reaches, in order.
        free: (D,) devices that are not in use, or that several claims share.
        used: (D,) devices that are in use.
        left: (C,) remaining amounts of the counters.
    """

    inventory: Inventory
    demands: Sequence[Demand]
    masks: Mapping[Ask, Mask]
    here: Sequence[int]
    free: Mask
    used: Mask
    left: NDArray[np.int64]
    chosen: list[Choice] = field(default_factory=list)
    taken: Counter[int] = field(default_factory=Counter)
    steps: int = 0

    def run(self) -> tuple[Choice, ...] | None:
        """The devices, or None if there are not enough."""
        self.left = self.left.copy()
        slots = [Slot(c, r) for c, demand in enumerate(self.demands) for r in range(len(demand.requests))]
        return tuple(self.chosen) if self._fill(slots, 0) else None

    def _fill(self, slots: Sequence[Slot], at: int) -> bool:
        """Find devices for all slots from `at` on."""
        if at == len(slots):
            return True
        if len(self.chosen) > MOST_OF_A_POD:
            return False
        request = self.demands[slots[at].claim].requests[slots[at].request]
        return any(self._satisfy(slots, at, way) for way in request.ways)

    def _satisfy(self, slots: Sequence[Slot], at: int, way: Ask) -> bool:
        """Find devices for one way to satisfy a slot, and for all slots after it."""
        mask = self.masks.get(way)
        if mask is None:
            return False
        matching = [row for row in self.here if mask[row]]
        if (len(matching) if way.all else way.number) > MOST_DEVICES - self._devices_of(slots[at].claim):
            return False
        if way.all:
            if not matching or (not way.admin and not all(self.free[row] for row in matching)):
                return False
            return self._choose(slots, at, way, matching, 0, len(matching))
        if not way.admin:
            matching = [row for row in matching if self.free[row]]
        enough = len(matching) >= way.number or any(self.inventory.multiple[row] for row in matching)
        return enough and self._choose(slots, at, way, matching, 0, way.number)

    def _devices_of(self, claim: int) -> int:
        return sum(1 for choice in self.chosen if choice.claim == claim)

    def _choose(
        self, slots: Sequence[Slot], at: int, way: Ask, matching: Sequence[int], start: int, missing: int
    ) -> bool:
        """Choose the missing devices of a slot from `start` on, then fill the slots after it."""
        if not missing:
            return self._fill(slots, at + 1)
        failed: set[tuple[object, ...]] = set()
        several = not way.all and any(self.inventory.multiple[row] for row in matching[start:])
        for number in range(start, len(matching) if several else len(matching) - missing + 1):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            row = matching[number]
            # The first device usually fits, so its likeness is not computed in advance.
            if failed and self._likeness(row) in failed:
                continue
            if self._take(slots[at], way, row):
                again = not way.all and bool(self.inventory.multiple[row])  # another share of it may be available
                if self._choose(slots, at, way, matching, number + (not again), missing - 1):
                    return True
                self._give_back(way)
            if way.all:
                return False
            failed.add(self._likeness(row))
        return False

    def _likeness(self, row: int) -> tuple[object, ...]:
        """A key that is equal for interchangeable devices."""
        inventory = self.inventory
        values = [int(inventory.column(c.attribute)[row]) for d in self.demands for c in d.constraints]
        matches = [bool(mask[row]) for mask in self.masks.values()]
        own = [int(self.left[counter]) for counter in inventory.capacities[row].values()]
        return (*values, *matches, row in self.taken, bool(self.used[row]), inventory.consumes[row], *own)

    def _take(self, slot: Slot, way: Ask, row: int) -> bool:
        """Take a device, unless something prevents it."""
        request = self.demands[slot.claim].requests[slot.request].name
        amounts: Amounts = ()
        spent: Amounts = ()
        if not way.admin:
            several = bool(self.inventory.multiple[row])
            if self.taken[row] and not several:
                return False
            amounts = (self.inventory.share(way.capacity, row) or ()) if several else ()
            # Several shares of one device use it once.
            first = not (several and (self.taken[row] or self.used[row]))
            spent = (*amounts, *self.inventory.consumes[row]) if first else amounts
            if any(self.left[counter] < amount for counter, amount in spent):
                return False
        elif any(c.claim == slot.claim and c.request == way.name and c.device == row for c in self.chosen):
            return False
        for constraint in self.demands[slot.claim].constraints:
            if constraint.concerns(way, request) and not self._agrees(constraint, slot, row):
                return False
        if not way.admin:
            self.taken[row] += 1
            for counter, amount in spent:
                self.left[counter] -= amount
        self.chosen.append(Choice(slot.claim, way.name, row, way.admin, amounts, spent))
        return True

    def _give_back(self, way: Ask) -> None:
        """Undo the last `_take`."""
        last = self.chosen.pop()
        if not way.admin:
            self.taken[last.device] -= 1
            if not self.taken[last.device]:
                del self.taken[last.device]
            for counter, amount in last.spent:
                self.left[counter] += amount

    def _agrees(self, constraint: Constraint, slot: Slot, row: int) -> bool:
        """Return True if a device satisfies a constraint together with the chosen ones."""
        column = self.inventory.column(constraint.attribute)
        if column[row] < 0:
            return False
        for other in self.chosen:
            if other.claim != slot.claim:
                continue
            name = other.request.partition("/")[0]
            if constraint.requests and name not in constraint.requests and other.request not in constraint.requests:
                continue
            if (column[other.device] == column[row]) == constraint.distinct:
                return False
        return True
