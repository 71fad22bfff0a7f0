"""Evictions as lines: the jobs that lost pods, the preemptors, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kilauea.api.times import SECOND
from kilauea.dashboard.picture import Eviction

TOGETHER_SECONDS = 60
"""Seconds within which evictions of a job for the same preemptor are combined into a line."""


class Line(NamedTuple):
    """Pods of a job that were evicted for another.

    Attributes:
        last: the last eviction.
        pods: number of pods.
    """

    last: Eviction
    pods: int


def newest(evictions: Iterable[Eviction]) -> list[Eviction]:
    """Evictions, the newest first."""
    return sorted(evictions, key=lambda each: (-each.at, each.pod))


def together(evictions: Iterable[Eviction]) -> list[Line]:
    """Evictions, the newest first; those of one job for another in close succession are combined into one line."""
    lines: list[Line] = []
    open_lines: dict[object, int] = {}
    for each in newest(evictions):
        what = (each.job or each.pod, each.by, each.why)
        at = open_lines.get(what)
        if at is not None and lines[at].last.at - each.at <= TOGETHER_SECONDS * SECOND:
            lines[at] = lines[at]._replace(pods=lines[at].pods + 1)
        else:
            open_lines[what] = len(lines)
            lines.append(Line(each, 1))
    return lines
