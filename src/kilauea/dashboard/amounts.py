"""Amounts of resources and shares as the pages show them."""

from __future__ import annotations

from typing import NamedTuple

from kilauea.dashboard.rows import Amounts
from kilauea.engine.explain.formatting import bare

INFINITE = float("inf")
NONE = "\u2013"
"""Shown for no amount and for no limit."""
DESERVED_AT = 60.0
"""Position of the line for the deserved amount on a queue's bar, in percent: the same for all, so that lines align."""


def shown(resource: str, amount: float | None) -> str:
    """An amount without the name of its resource; a dash for none and for unlimited."""
    return NONE if amount is None or amount == INFINITE else bare(resource, amount)


def percent(part: float, whole: float) -> float:
    """A part as a percentage of the whole, between 0 and 100; 0 if the whole is 0."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole else 0.0


def short_name(resource: str) -> str:
    """A resource in headings: without its domain."""
    return resource.rpartition("/")[2]


class Meter(NamedTuple):
    """The used part of a resource, with its text."""

    resource: str
    name: str
    used: str
    whole: str
    percent: float


def meter(resource: str, used: Amounts, whole: Amounts) -> Meter:
    """The meter of a resource."""
    part, all_ = used.get(resource, 0), whole.get(resource, 0)
    return Meter(resource, short_name(resource), shown(resource, part), shown(resource, all_), percent(part, all_))


class Bar(NamedTuple):
    """The bar of a queue; all figures are percents of its width.

    Attributes:
        used: usage within the deserved amount.
        borrowed: usage beyond that.
        beyond: True if it borrows more than the bar can show.
        deserved: position of the line for the deserved amount; None without one.
        guarantee: position of the mark for its guarantee; None without one.
    """

    used: float
    borrowed: float
    beyond: bool
    deserved: float | None
    guarantee: float | None


def bar(used: float, deserved: float | None, guarantee: float, whole: float) -> Bar:
    """The bar of a queue for one resource.

    Args:
        used: the amount in use.
        deserved: the amount that the queue deserves; None or infinity for no limit.
        guarantee: the guaranteed amount; 0 for none.
        whole: the cluster's total, the width of a bar without a line.
    """
    if deserved is None or deserved == INFINITE:
        return Bar(percent(used, whole), 0.0, False, None, percent(guarantee, whole) if guarantee else None)
    if deserved <= 0:
        return Bar(0.0, percent(used, whole), False, 0.0, None)
    within = round(DESERVED_AT * min(used, deserved) / deserved, 1)
    over = DESERVED_AT * max(0.0, used - deserved) / deserved
    most = 100 - DESERVED_AT
    mark = round(min(100.0, DESERVED_AT * guarantee / deserved), 1) if guarantee else None
    return Bar(within, round(min(over, most), 1), over > most, DESERVED_AT, mark)
