"""Amounts that resource claims count in quotas of queues: devices by class, and amounts of their capacities.

`deviceclass/<class>` is a number of devices, `<capacity>.deviceclass/<class>` an amount; both in thousandths, as other
resources with a domain. A claim that several pods share counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kilauea.engine.model.claims.facts import Demand

CLASS = "deviceclass/"
MOST = 1 << 53
"""Sums stay below this, so that huge counts cannot wrap and amounts stay exact."""

Charges = dict[str, int]


def is_of_devices(name: str) -> bool:
    """Return True if a resource of a quota refers to devices of a class."""
    before, found, after = name.partition(CLASS)
    return bool(found and after) and (not before or (before.endswith(".") and len(before) > 1))


def class_of_quota(name: str) -> str:
    """The class in the name of a resource of a quota."""
    return name.partition(CLASS)[2]


def charges_of(demand: Demand, *, capacities: bool) -> Charges:
    """Charges of a claim: exact requests with a count. Requests for all devices and alternatives count nothing."""
    out: Charges = {}
    for request in demand.requests:
        way = request.ways[0] if len(request.ways) == 1 else None
        if way is None or way.all or way.name != request.name:
            continue
        _add(out, f"{CLASS}{way.class_name}", 1000 * way.number)
        for dimension, amount in way.capacity if capacities else ():
            _add(out, f"{dimension}.{CLASS}{way.class_name}", amount * way.number)
    return out


def total(parts: Iterable[Mapping[str, int]]) -> Charges:
    """Sum of charges."""
    out: Charges = {}
    for part in parts:
        for name, amount in part.items():
            _add(out, name, amount)
    return out


def _add(out: Charges, name: str, amount: int) -> None:
    out[name] = min(out.get(name, 0) + amount, MOST)
