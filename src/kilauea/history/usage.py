"""Resource-seconds of queues, namespaces and users: exact totals for the time in which pods held resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kilauea.api.times import SECOND
from kilauea.history.store import History, resources_of

By = Literal["queue", "namespace", "user"]
BY: tuple[By, ...] = ("queue", "namespace", "user")


@dataclass
class UsageRow:
    """The usage of one queue, namespace or user.

    Attributes:
        name: name of the queue, the namespace or the user; empty for pods without one.
        amounts: the product of amount and time of each resource, in the units of records times microseconds.
        time: total microseconds for which pods held a node.
        pods: number of pods.
    """

    name: str
    amounts: dict[str, int] = field(default_factory=dict)
    time: int = 0
    pods: int = 0


def usage(history: History, by: By, since: int, until: int, namespace: str = "") -> list[UsageRow]:
    """The usage in a time span, by name.

    A pod counts from its bind to its end, within the time span; an unfinished one counts to the end of the span.

    Args:
        history: the history.
        by: the key of the sums.
        since: microseconds since 1970.
        until: microseconds since 1970.
        namespace: only pods in this one; empty for all.
    """
    rows: dict[str, UsageRow] = {}
    for name, resources, seconds, micro, pods in history.held(by, since, until, namespace):
        row = rows.setdefault(name, UsageRow(name))
        time = seconds * SECOND + micro
        row.time += time
        row.pods += pods
        for resource, amount in resources_of(resources).items():
            row.amounts[resource] = row.amounts.get(resource, 0) + amount * time
    return [rows[name] for name in sorted(rows)]
