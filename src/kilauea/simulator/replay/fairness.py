"""Fairness: do all queues get what they are entitled to?

A queue is due what it deserves, or what it requests if that is less. Its satisfaction is what it holds of that, at most
1, in the resource of which it requests the largest part of the cluster. Jain's index of the satisfactions of all queues
that request anything is 1 if all are equally well off and 1/n if one of n gets everything (Jain, Chiu and Hawe 1984).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Amounts = Mapping[str, float]


def satisfaction(held: Amounts, asked: Amounts, deserved: Amounts, total: Amounts) -> float | None:
    """Return the satisfaction of a queue, 0 to 1; None if it requests nothing.

    Args:
        held: what its pods hold.
        asked: what they hold, and what those that wait request.
        deserved: what it deserves; a resource that is absent is not limited.
        total: what the cluster offers.
    """
    parts = [(asked[name] / total[name], name) for name in sorted(asked) if asked[name] > 0 and total.get(name)]
    if not parts:
        return None
    name = max(parts)[1]
    due = min(asked[name], deserved.get(name, asked[name]))
    return min(1.0, held.get(name, 0) / due) if due > 0 else 1.0


def jain(values: Iterable[float]) -> float:
    """Return Jain's index of some values; 1 for none, and if all are 0."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0
