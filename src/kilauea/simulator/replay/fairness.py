"""Fairness: if all queues get what they are entitled to.

A queue is entitled to its deserved amounts, or its requests if these are less. Its satisfaction is the fraction of
these that it holds, at most 1, in the resource of which it requests the largest part of the cluster. Jain's index of
the satisfactions of all queues that request anything is 1 if all are equally well off and 1/n if one of n gets
everything (Jain, Chiu and Hawe 1984).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Amounts = Mapping[str, float]


def satisfaction(held: Amounts, asked: Amounts, deserved: Amounts, total: Amounts) -> float | None:
    """Return the satisfaction of a queue, 0 to 1; None if it requests nothing.

    Args:
        held: amounts that its pods hold.
        asked: held amounts plus requests of waiting pods.
        deserved: deserved amounts; missing resources are unlimited.
        total: the cluster's total.
    """
    parts = [(asked[name] / total[name], name) for name in sorted(asked) if asked[name] > 0 and total.get(name)]
    if not parts:
        return None
    name = max(parts)[1]
    due = min(asked[name], deserved.get(name, asked[name]))
    return min(1.0, held.get(name, 0) / due) if due > 0 else 1.0


def jain(values: Iterable[float]) -> float:
    """Return Jain's index of some values; 1 for none, or if all are 0."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0
