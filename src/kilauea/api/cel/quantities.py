"""Quantities in CEL, stored as exact thousandths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kilauea.api.cel.values import CelError
from kilauea.api.quantity import QuantityError, parse_milli

_MILLI = 1000


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """A quantity of a resource."""

    milli: int
    cel_type: ClassVar[str] = "kubernetes.Quantity"

    def plus(self, other: Any) -> Quantity:
        """Return the sum with a quantity or an integer."""
        return Quantity(self.milli + _milli(other))

    def minus(self, other: Any) -> Quantity:
        """Return the difference from a quantity or an integer."""
        return Quantity(self.milli - _milli(other))

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.milli > 0) - (self.milli < 0)

    def is_integer(self) -> bool:
        """Return True if the quantity is an integer."""
        return self.milli % _MILLI == 0 and abs(self.milli) < 2**63 * _MILLI

    def as_integer(self) -> int:
        """Return the quantity as an int; raises CelError if it is not an integer."""
        if not self.is_integer():
            raise CelError("cannot convert value to integer")
        return self.milli // _MILLI

    def as_float(self) -> float:
        """Return the quantity as a double."""
        return self.milli / _MILLI


def _milli(value: Any) -> int:
    if value.__class__ is Quantity:
        return int(value.milli)
    if value.__class__ is int:
        return int(value) * _MILLI
    raise CelError("no such overload")


def quantity(text: str) -> Quantity:
    """Parse a quantity; raises CelError if it is invalid."""
    if text.__class__ is not str:
        raise CelError("no such overload")
    try:
        return Quantity(parse_milli(text))
    except QuantityError:
        raise CelError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def is_quantity(text: str) -> bool:
    """Return True if a text is a quantity."""
    if text.__class__ is not str:
        raise CelError("no such overload")
    try:
        parse_milli(text)
    except QuantityError:
        return False
    return True
