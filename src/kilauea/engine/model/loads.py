"""Loads of nodes: their actual use of cpu and memory, as a monitoring system measures it.

Loads reach the state in two ways. The scheduler's process queries the system in the configuration and sends the results
as an event (`Measured`). Files contain NodeMetrics objects. If a node has both, the newer one counts. Plugins read them
as columns, and ignore loads that are too old.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.metrics import NodeMetrics
from kilauea.api.quantity import QuantityError, amount
from kilauea.api.times import SECOND, parse_time
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.resources import CPU, MEMORY

FRESH = 5 * 60 * SECOND
"""Microseconds for which a load is valid."""
MOST_PERCENT = 1000.0
"""Loads above this percentage are measurement errors."""


class NodeLoad(NamedTuple):
    """The load of a node."""

    cpu: float
    """Percent of its capacity."""
    memory: float
    """Percent of its capacity."""
    at: int
    """Time of the newest sample, in microseconds since 1970."""

    @property
    def is_sound(self) -> bool:
        """True if both figures can be percentages of a node's capacity."""
        return all(math.isfinite(part) and 0 <= part <= MOST_PERCENT for part in (self.cpu, self.memory))


class NodeUsage(NamedTuple):
    """Usage of a node, from NodeMetrics."""

    cpu: int
    memory: int
    at: int


def usage_of(obj: NodeMetrics) -> NodeUsage:
    """Read the usage from NodeMetrics.

    Raises:
        ValueError: the time or an amount is missing, or cannot be read.
    """
    usage = obj.usage or {}
    for name in (CPU, MEMORY):
        if name not in usage:
            raise QuantityError(f"usage[{name}]: missing: NodeMetrics give the usage of cpu and memory")
    try:
        at = parse_time(obj.timestamp or "")
    except ValueError as error:
        raise ValueError(f"timestamp: {error}") from None
    return NodeUsage(_used(CPU, usage[CPU]), _used(MEMORY, usage[MEMORY]), at)


def _used(name: str, quantity: str | int | float) -> int:
    try:
        used = amount(name, quantity)
    except QuantityError as error:
        raise QuantityError(f"usage[{name}]: {error}") from None
    if used < 0:
        raise QuantityError(f"usage[{name}]: {quantity!r} is negative: use 0 or more")
    return used


@dataclass(frozen=True)
class Loads:
    """Loads of all nodes as columns."""

    percent: NDArray[np.float64]
    """(2, N) cpu and memory in percent of the capacity; 0 where unknown."""
    at: NDArray[np.int64]
    """(N,) time of the newest sample, in microseconds since 1970; 0 where the load is unknown."""

    def fresh(self, now: int) -> NDArray[np.bool_]:
        """(N,) nodes whose load was measured within the last five minutes.

        A time that is as far in the future is ignored as well: its clock is wrong.
        """
        fresh: NDArray[np.bool_] = (self.at != 0) & (np.abs(now - self.at) <= FRESH)
        return fresh


def loads_of(nodes: NodeTable, measured: Mapping[str, NodeLoad], used: Mapping[str, NodeUsage]) -> Loads:
    """Arrange the known loads as columns."""
    percent, at = np.zeros((2, len(nodes))), np.zeros(len(nodes), dtype=np.int64)
    for name, usage in used.items():
        row = nodes.row_of.get(name, -1)
        capacity = nodes.capacity[:, row] if row >= 0 else np.zeros(2)
        if capacity.all():
            shares = [100.0 * part / int(whole) for part, whole in zip(usage[:2], capacity, strict=True)]
            _put(percent, at, row, NodeLoad(shares[0], shares[1], usage.at))
    for name, load in measured.items():
        _put(percent, at, nodes.row_of.get(name, -1), load)
    return Loads(percent, at)


def _put(percent: NDArray[np.float64], at: NDArray[np.int64], row: int, load: NodeLoad) -> None:
    """Enter a load, unless it is invalid or a newer one is known."""
    if row >= 0 and load.is_sound and load.at > at[row]:
        percent[:, row] = load.cpu, load.memory
        at[row] = load.at
