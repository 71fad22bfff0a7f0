"""The devices that claims use, updated claim by claim: which are in use, and the remaining amounts of the counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.claims.inventory import Inventory, Mask, Use

Amounts64 = NDArray[np.int64]


class Usage:
    """Devices in use, now or later; later is once all pods have ended that are ending.

    Args:
        inventory: the devices.

    Attributes:
        used: (D,) devices in use, by whether it is now.
        left: (C,) what the devices in use leave of the counters, by whether it is now.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        size = len(inventory)
        self._held = [0] * size
        """Claims that hold each device, as the objects have it."""
        self._viewed = [0] * size
        """Claims that will hold each device once what is ending has ended."""
        self.used: dict[bool, Mask] = {now: np.zeros(size, dtype=bool) for now in (True, False)}
        self.left: dict[bool, Amounts64] = {now: inventory.counters.copy() for now in (True, False)}
        self._free: dict[bool, Mask] = {now: np.ones(size, dtype=bool) for now in (True, False)}
        self.is_moving = False
        """True if anything may be in use now that is free later."""

    def free(self, *, now: bool) -> Mask:
        """(D,) devices of which something may be free."""
        return self._free[now]

    def hold(self, use: Use) -> None:
        """Devices are in use by a claim whose pods stay."""
        self._change(use, held=1, viewed=1)
        self._take(use, 1, True, False)

    def hold_until_ended(self, use: Use) -> None:
        """Devices are in use by a claim whose pods are ending."""
        self.is_moving = True
        self._change(use, held=1)
        self._take(use, 1, True)

    def view(self, use: Use, by: int) -> None:
        """The pods of a claim that has devices end (-1), or another pod keeps them (1)."""
        self.is_moving = True
        self._change(use, viewed=by)
        self._take(use, by, False)

    def give(self, use: Use, by: int) -> None:
        """Devices are given to a claim by this session (1), or taken back from it (-1)."""
        self._change(use, viewed=by)
        self._take(use, by, True, False)

    def _take(self, use: Use, by: int, *moments: bool) -> None:
        """Take a claim's shares of the counters, or give them back."""
        for counter, amount in use.amounts:
            for now in moments:
                self.left[now][counter] -= by * amount

    def _change(self, use: Use, held: int = 0, viewed: int = 0) -> None:
        """Count the claims of devices; a device that comes into use, or out of it, takes or gives of its counters."""
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
