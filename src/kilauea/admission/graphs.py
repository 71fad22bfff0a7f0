"""Check graphs of dependencies for cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Edges = Mapping[str, Sequence[str]]
"""For each thing, in an order that matters only for messages, those for which it waits."""


def first_unknown(edges: Edges) -> str | None:
    """The first thing that is waited for and is not there."""
    return next((target for targets in edges.values() for target in targets if target not in edges), None)


def has_circle(edges: Edges) -> bool:
    """Return True if some vertices, or one alone, wait for each other; every target must be a vertex."""
    waiting = {name: len(set(targets)) for name, targets in edges.items()}
    waiters: dict[str, list[str]] = {name: [] for name in edges}
    for name, targets in edges.items():
        for target in set(targets):
            waiters[target].append(name)
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:
        for waiter in waiters[name]:
            waiting[waiter] -= 1
            if not waiting[waiter]:
                ready.append(waiter)
    return len(ready) < len(edges)
