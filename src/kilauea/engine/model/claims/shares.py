"""Shares of devices that several claims use: the amount of each capacity that a claim uses.

The amount is rounded up according to the device: to the next value of a list, or to the next step of a range. An amount
above the range or the largest value is not available.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.api import dynamic as wire
from kilauea.api.quantity import parse_milli


@dataclass(frozen=True, slots=True)
class Shared:
    """A capacity of a device that several claims share; amounts are in thousandths.

    Attributes:
        name: as the slice writes it.
        value: the total.
        default: the amount for claims that request none; None for the total.
        values: the possible amounts, ascending; empty for any.
        least: the minimum amount.
        most: the maximum amount; None for no limit.
        step: amounts are the minimum plus multiples of the step; 0 for any.
    """

    name: str
    value: int
    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int = 0

    def taken(self, asked: int | None) -> int | None:
        """The amount that a claim consumes; None if the device does not allow it."""
        amount = self._rounded(asked)
        return amount if amount <= self.value and self._is_valid(amount) else None

    def _rounded(self, asked: int | None) -> int:
        if asked is None:
            return self.value if self.default is None else self.default
        if self.least is not None:
            if asked <= self.least:
                return self.least
            return asked if not self.step else self.least + -(-(asked - self.least) // self.step) * self.step
        return next((value for value in self.values if asked <= value), asked)

    def _is_valid(self, amount: int) -> bool:
        if amount == self.default:
            return True
        if self.values:
            return amount in self.values
        return self.most is None or amount <= self.most


def shared_of(name: str, capacity: wire.DeviceCapacity) -> Shared:
    """Read a capacity.

    Raises:
        ValueError: a quantity cannot be read.
    """
    value, policy = parse_milli(capacity.value), capacity.request_policy
    if policy is None:
        return Shared(name, value)
    default = None if policy.default is None else parse_milli(policy.default)
    bounds = policy.valid_range
    if bounds is not None and bounds.min is not None:
        most = None if bounds.max is None else parse_milli(bounds.max)
        step = 0 if bounds.step is None else max(parse_milli(bounds.step), 0)
        return Shared(name, value, default, (), parse_milli(bounds.min), most, step)
    return Shared(name, value, default, tuple(sorted(map(parse_milli, policy.valid_values or ()))))
