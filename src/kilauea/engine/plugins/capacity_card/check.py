"""Check that a queue would stay within its quota, with a message if not. Spec of capacity-card, 11 and 15.1.

Only requested resources are compared, without pod slots, and exactly.
"""

from __future__ import annotations

from typing import NamedTuple

from kilauea.engine.model.cards import EITHER
from kilauea.engine.model.resources import ALWAYS, CPU, MEMORY, Amounts
from kilauea.engine.plan import Refusal

MI = 1024 * 1024


class Shortage(NamedTuple):
    """A resource that would exceed the queue's limit."""

    resource: str
    asked: float
    total: float
    """The resulting amount."""
    limit: float


def has_room(asked: Amounts, held: Amounts, limit: Amounts) -> bool:
    """Return True if a task certainly fits. Faster than `shortage`, which decides in the end."""
    for name, amount in asked.items():
        if amount > 0 and (EITHER in name or held.get(name, 0) + amount > limit.get(name, 0)):
            return False
    return True


def shortage(asked: Amounts, totals: Amounts, limit: Amounts, *, of_job: bool) -> Shortage | None:
    """The first resource that would exceed its limit: cpu, memory, then cards by name.

    Args:
        asked: the requested amounts.
        totals: the resulting amounts.
        limit: the allowed amounts.
        of_job: True for a whole job, whose pods may get different models; False for one task, whose cards are of one
            model.
    """
    for name in (*ALWAYS, *sorted(n for n in asked if n not in ALWAYS)):
        quantity = asked.get(name, 0)
        if quantity <= 0:
            continue
        if EITHER not in name:
            found = Shortage(name, quantity, totals.get(name, 0), limit.get(name, 0))
        elif of_job:
            found = _together(name, quantity, totals, limit)
        else:
            found = _any_of(name, quantity, totals, limit)
        if found.total > found.limit:
            return found
    return None


def _together(name: str, quantity: float, totals: Amounts, limit: Amounts) -> Shortage:
    """Compare the sum of all models, including requests that wait for any of them."""
    models = set(name.split(EITHER))
    alike = [n for n in totals if n in models or (EITHER in n and not models.isdisjoint(n.split(EITHER)))]
    return Shortage(name, quantity, sum(totals[n] for n in alike), sum(limit.get(n, 0) for n in models))


def _any_of(name: str, quantity: float, totals: Amounts, limit: Amounts) -> Shortage:
    """The first model that has room, or the last one."""
    found = Shortage(name, quantity, quantity, 0)
    for model in name.split(EITHER):
        found = Shortage(name, quantity, totals.get(model, 0) + quantity, limit.get(model, 0))
        if found.total <= found.limit:
            break
    return found


def refusal(queue: str, found: Shortage) -> Refusal:
    """Return the shortage as a reason."""
    code, what, unit, scale = "InsufficientScalarQuota", f"<{found.resource}>", "", 1
    if found.resource == CPU:
        code, what = "InsufficientCPUQuota", "CPU"
    elif found.resource == MEMORY:
        code, what, unit, scale = "InsufficientMemoryQuota", "memory", " Mi", MI
    requested, total, limit = (f"<{number(n / scale)}{unit}>" for n in (found.asked, found.total, found.limit))
    text = f"Queue <{queue}> has insufficient {what} quota: "
    text += f"requested {requested}, total would be {total}, but capability is {limit}"
    left = max(found.limit - (found.total - found.asked), 0)
    return Refusal(code, text, queue, found.resource, found.asked, left)


def number(value: float) -> str:
    """Format a number in its shortest form."""
    return str(int(value)) if value == int(value) else repr(float(value))
