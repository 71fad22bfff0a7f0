"""Tasks of a job that belong together or apart, and their order, according to the annotations of its pod group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import NamedTuple

SELF_APART, TOGETHER, SELF_TOGETHER, APART = 4, 3, 2, 1
"""Ranks of task names by their strongest relation; 0 without any."""


class Relations(NamedTuple):
    """Relations between the tasks of a job, by name."""

    together: frozenset[tuple[str, str]]
    """Pairs, in both orders; a name with itself if its own pods should be together."""
    apart: frozenset[tuple[str, str]]
    """Pairs that should be on different nodes."""
    order: Mapping[str, int]
    """Higher values are earlier; names that are not listed have none."""

    def rank(self, name: str) -> int:
        """Return the rank of a name; names of a higher rank find their bucket first."""
        ranks = {
            SELF_APART: (name, name) in self.apart,
            TOGETHER: any(a == name != b for a, b in self.together),
            SELF_TOGETHER: (name, name) in self.together,
            APART: any(a == name != b for a, b in self.apart),
        }
        return max((rank for rank, holds in ranks.items() if holds), default=0)


def relations_of(annotations: tuple[str, str, str], known: Collection[str]) -> Relations:
    """Read the annotations for affinity, anti-affinity and task order.

    Args:
        annotations: their texts; empty if missing.
        known: names of the tasks of the job.

    Raises:
        ValueError: a name is not a task of the job, or occurs twice in a group.
    """
    affinity, anti_affinity, order = annotations
    together = _pairs(_groups(affinity, known))
    apart = _pairs(_groups(anti_affinity, known))
    listed = _names(order, known)
    return Relations(together, apart, {name: len(listed) - index for index, name in enumerate(listed)})


def _groups(text: str, known: Collection[str]) -> list[list[str]]:
    return [_names(group, known) for group in text.split(";")]


def _names(text: str, known: Collection[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not a task of the job (tasks: {', '.join(sorted(known)) or 'none'})")
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is twice in {text.strip()!r}")
    return names


def _pairs(groups: list[list[str]]) -> frozenset[tuple[str, str]]:
    """Pairs of tasks: a group of one relates its pods with each other, a larger one each task with each other task."""
    alone = {(group[0], group[0]) for group in groups if len(group) == 1}
    among = {pair for group in groups for a, b in combinations(group, 2) for pair in ((a, b), (b, a))}
    return frozenset(alone | among)
