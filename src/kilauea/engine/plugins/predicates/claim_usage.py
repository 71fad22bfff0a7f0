"""The devices that claims use, updated by claim: the devices in use, and the remaining amounts of the counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.claims.inventory import Inventory, Mask, Use

Amounts64 = NDArray[np.int64]


class Usage:
    """Devices in use, now or later; later means once all terminating pods have ended.

    Args:
        inventory: the devices.

    Attributes:
        used: (D,) devices in use; True for now, False for later.
        left: (C,) remaining amounts of the counters; True for now, False for later.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        size = len(inventory)
        self._held = [0] * size
        """Claims that hold each device according to the objects."""
        self._viewed = [0] * size
        """Claims that will hold each device once terminating pods have ended."""
        self.used: dict[bool, Mask] = {now: np.zeros(size, dtype=bool) for now in (True, False)}
        self.left: dict[bool, Amounts64] = {now: inventory.counters.copy() for now in (True, False)}
        self._free: dict[bool, Mask] = {now: np.ones(size, dtype=bool) for now in (True, False)}
        self.is_moving = False
        """True if any device in use now may be free later."""

    def free(self, *, now: bool) -> Mask:
        """(D,) devices that may be at least partly free."""
        return self._free[now]

    def hold(self, use: Use) -> None:
        """Mark devices as used by a claim whose pods stay."""
        self._change(use, held=1, viewed=1)
        self._take(use, 1, True, False)

    def hold_until_ended(self, use: Use) -> None:
        """Mark devices as used by a claim whose pods are terminating."""
        self.is_moving = True
        self._change(use, held=1)
        self._take(use, 1, True)

    def view(self, use: Use, by: int) -> None:
        """Record that the pods of a claim with devices end (-1), or that another pod keeps them (1)."""
        self.is_moving = True
        self._change(use, viewed=by)
        self._take(use, by, False)

    def give(self, use: Use, by: int) -> None:
        """Give devices to a claim in this session (1), or take them back (-1)."""
        self._change(use, viewed=by)
        self._take(use, by, True, False)

    def _take(self, use: Use, by: int, *moments: bool) -> None:
        """Take a claim's shares of the counters, or return them."""
        for counter, amount in use.amounts:
            for now in moments:
                self.left[now][counter] -= by * amount

    def _change(self, use: Use, held: int = 0, viewed: int = 0) -> None:
        """Count the claims of devices; a device that starts or stops being used changes its counters."""
        for row in use.rows:
            self._held[row] += held
            self._viewed[row] += viewed
            later = self._viewed[row] != 0
            self._set(row, later or self._held[row] != 0, now=True)
            self._set(row, later, now=False)

    def _set(self, row: int, used: bool, *, now: bool) -> None:
        if self.used[now][row] == used:
            return
        self.used[now][row] = used
        self._free[now][row] = not used or self._inventory.multiple[row]
        for counter, amount in self._inventory.consumes[row]:
            self.left[now][counter] += -amount if used else amount
