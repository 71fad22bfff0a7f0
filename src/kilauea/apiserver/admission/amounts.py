"""Amounts of resources that admission compares and adds: exact, and formatted as in the request.

Messages about quotas and limits keep the format of the user: `1Gi` stays binary, `1G` decimal; a sum has the format of
its first part that is not zero. The unit is a billionth, the smallest part that a quantity can represent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from kilauea.api.remembered import remembered
from kilauea.apiserver.schema.scalars import quantity

ONE = 10**9
_TEXT = re.compile(r"(-?\d+)(?:e(-?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL = {"n": 0, "u": 3, "m": 6, "": 9, "k": 12, "M": 15, "G": 18, "T": 21, "P": 24, "E": 27}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
Form = Literal["decimal", "binary", "exponent"]


class Amount(NamedTuple):
    """A number of billionths, and its format."""

    nanos: int
    form: Form = "decimal"

    def __str__(self) -> str:
        """Return the canonical text of the quantity."""
        nanos, form = self
        if form == "binary" and abs(nanos) >= 1024 * ONE:
            return _binary_text(-(-nanos // ONE))
        power = 0
        while nanos and nanos % 1000 == 0 and power < 27:
            nanos //= 1000
            power += 3
        if not nanos:
            return "0"
        return f"{nanos}e{power - 9}" if form == "exponent" and power != 9 else f"{nanos}{_DECIMAL_SUFFIX[power]}"

    def plus(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.nanos + other.nanos, self.form if self.nanos else other.form)

    def minus(self, other: Amount) -> Amount:
        """Return the difference."""
        return Amount(self.nanos - other.nanos, self.form if self.nanos else other.form)


Amounts = Mapping[str, Amount]
ZERO, SINGLE = Amount(0), Amount(ONE)


def count(number: int) -> Amount:
    """Return the amount of a number of objects."""
    return Amount(number * ONE)


def _binary_text(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY[power]}"


@remembered(16384)
def _parsed(text: str) -> Amount:
    found = _TEXT.fullmatch(quantity(text))
    if found is None:
        raise ValueError(f"{text!r} is not a quantity: use a number with an optional suffix such as 500m, 2, 1.5Gi")
    digits, exponent, suffix = found.groups("")
    if suffix.endswith("i"):
        return Amount(int(digits) * ONE * 1024 ** _BINARY.index(suffix), "binary")
    power = int(exponent) + 9 if exponent else _DECIMAL[suffix]
    return Amount(int(digits) * 10**power, "exponent" if exponent else "decimal")


def parse(value: Any) -> Amount:
    """Parse a quantity in an object.

    Raises:
        ValueError: it is not a quantity.
    """
    return _parsed(value if isinstance(value, str) else str(value))


def parse_all(resources: Mapping[str, Any] | None) -> dict[str, Amount]:
    """Parse a resource list."""
    return {name: parse(value) for name, value in (resources or {}).items()}


def add(left: Amounts, right: Amounts) -> dict[str, Amount]:
    """Return the sum of two lists; a missing amount counts as zero."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total[name].plus(amount) if name in total else amount
    return total


def largest(left: Amounts, right: Amounts) -> dict[str, Amount]:
    """Return the larger amount of each resource."""
    top = dict(left)
    for name, amount in right.items():
        if name not in top or amount.nanos > top[name].nanos:
            top[name] = amount
    return top


def texts(amounts: Amounts) -> dict[str, str]:
    """Return a resource list in the form of objects, sorted by name."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def listed(amounts: Amounts, names: Iterable[str]) -> str:
    """Format some amounts of a list, for messages."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names) if name in amounts)
