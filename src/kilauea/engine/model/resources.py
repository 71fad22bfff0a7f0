"""Amounts of resources, and the comparisons that the rules of queues and jobs use.

An amount map is `{resource name: amount}` in the units of `kilauea.api.quantity.amount`: milli-cores, bytes, counts,
milli-units. Jobs and queues use such maps (exact integers, floats only where shares are computed); nodes use arrays
with one row per resource, whose order is a `ResourceAxis`.

A missing scalar is not always zero: functions document where Volcano treats the two differently. Formulas: spec of the
scheduler, 1.1, and of the queue plugins, 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Amounts = Mapping[str, float]
"""Read-only view of an amount map."""

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

ALWAYS = (CPU, MEMORY)
"""Resources that every amount map implicitly contains, with 0 unless given."""

MOST = 1 << 62
"""Larger sums are reduced to this in arrays."""

MOST_PODS = (1 << 31) - 1
"""Larger counts of pods are reduced to this."""

EPSILON = 0.1
"""Two amounts closer than this are equal (a tenth of a milli-core, of a byte, of a milli-unit)."""


class ResourceAxis:
    """The order of resources in arrays: name to row. It only grows."""

    def __init__(self) -> None:
        self.names: list[str] = [CPU, MEMORY, PODS]
        self.rows: dict[str, int] = {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def admit(self, names: Iterable[str]) -> None:
        """Assign a row to every name; existing names keep theirs."""
        for name in names:
            if name not in self.rows:
                self.rows[name] = len(self.names)
                self.names.append(name)

    def vector(self, amounts: Amounts) -> NDArray[np.int64]:
        """The amounts as an array of shape (R,); names without a row are left out."""
        return np.array(self.listed(amounts), dtype=np.int64)

    def listed(self, amounts: Amounts) -> list[int]:
        """The same as a list of R numbers."""
        out = [0] * len(self.names)
        for name, amount in amounts.items():
            row = self.rows.get(name)
            if row is not None:
                out[row] = int(amount) if -MOST <= amount <= MOST else int(min(max(amount, -MOST), MOST))
        return out

    def amounts(self, vector: NDArray[np.int64]) -> dict[str, int]:
        """The array of shape (R,) as an amount map without zeros."""
        return {name: int(value) for name, value in zip(self.names, vector, strict=False) if value}


def within(value: int, least: int, most: int) -> int:
    """The value, or the nearest bound."""
    return min(max(value, least), most)


def names(a: Amounts) -> list[str]:
    """Resources with a nonzero amount, in the order of `order_of`."""
    return sorted((name for name, value in a.items() if value >= EPSILON), key=order_of)


def order_of(name: str) -> tuple[int, str]:
    """Sort key of resource names: cpu, memory, then the others by name."""
    return (0, "") if name == CPU else (1, "") if name == MEMORY else (2, name)


def is_empty(a: Amounts) -> bool:
    """Return True if all amounts except pod slots are zero."""
    return all(value < EPSILON for name, value in a.items() if name != PODS)


def add(a: dict[str, float], b: Amounts, times: float = 1) -> None:
    """Add `b`, multiplied by `times`, to `a` in place."""
    for name, value in b.items():
        a[name] = a.get(name, 0) + value * times


def less_equal(a: Amounts, b: Amounts) -> bool:
    """Return True if cpu, memory and every scalar in `a` fit in `b`; resources only in `b` are ignored."""
    return all(a.get(name, 0) - b.get(name, 0) < EPSILON for name in (*ALWAYS, *a))


def insufficient(a: Amounts, limit: Amounts, asked: Amounts) -> list[str]:
    """Requested resources (without pod slots) for which `a` exceeds `limit`; exact, without tolerance."""
    return [name for name in names(asked) if name != PODS and a.get(name, 0) > limit.get(name, 0)]


def exceeded(a: Amounts, b: Amounts) -> dict[str, float]:
    """The excess of `a` over `b`. cpu and memory are always included, scalars only if nonzero."""
    out = {name: max(a.get(name, 0) - b.get(name, 0), 0) for name in ALWAYS}
    for name, value in a.items():
        if name not in out and value - b.get(name, 0) > 0:
            out[name] = value - b.get(name, 0)
    return out


def cap(a: Amounts, b: Amounts, *, missing_is_zero: bool = False) -> dict[str, float]:
    """`a` reduced to at most `b`. A scalar missing in `b` is unlimited, or zero if `missing_is_zero`."""
    out: dict[str, float] = {}
    for name in (*ALWAYS, *(n for n in a if n not in ALWAYS)):
        value = a.get(name, 0)
        if name in b or name in ALWAYS or missing_is_zero:
            value = min(value, b.get(name, 0))
        out[name] = value
    return out


def largest(a: Amounts, b: Amounts) -> dict[str, float]:
    """The larger amount of each resource in either map."""
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in {**a, **b}}


def share(part: float, whole: float) -> float:
    """`part / whole`; if `whole` is 0, 0 for a zero part and 1 otherwise."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def ranked_shares(part: Amounts, whole: Amounts) -> list[float]:
    """The fractions of `whole` that `part` is, for each nonzero resource of `whole`, largest first."""
    return sorted((part.get(name, 0) / value for name, value in whole.items() if value >= EPSILON), reverse=True)


def dominant_share(part: Amounts, whole: Amounts) -> float:
    """The largest fraction of `whole` that `part` is, over the nonzero resources of `whole`; 0 without any."""
    # A loop, since this is called for each queue and each waiting job in every cycle.
    largest_share = None
    for name, value in whole.items():
        if value >= EPSILON:
            found = part.get(name, 0) / value
            if largest_share is None or found > largest_share:
                largest_share = found
    return 0.0 if largest_share is None else largest_share
