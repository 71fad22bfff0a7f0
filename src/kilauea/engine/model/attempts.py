"""The memory between cycles: admitted groups that could not be placed, and turns of plugins that act at intervals.

The rules for groups are in `admission_backoff`, those for trials in `kilauea.engine.placement.trials`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempts to place a group.

    Attributes:
        creation: creation time of the group; a later group with the same name is another one.
        since: the moment since which it is admitted without being placed.
        times: how often in a row its admission was withdrawn.
        until: the moment until which it is only admitted again after a change; 0 while it is admitted.
        told: that moment as a time of day, in microseconds since 1970.
    """

    creation: int
    since: int
    times: int = 0
    until: int = 0
    told: int = 0


@dataclass(frozen=True, slots=True)
class TriedGroups:
    """The results of trials of groups that wait to be admitted; many groups take several cycles.

    Attributes:
        line: keys of groups that still wait for a trial, those that wait longest first.
        fitting: by key of a group that could be placed: the moment when this was found.
    """

    line: tuple[str, ...] = ()
    fitting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdmissionBackoff:
    """The groups that are or were admitted without being placed.

    Attributes:
        moment: time of the cycle, in microseconds of a monotonic clock.
        attempts: by key of the group.
        turns: by plugin that acts at intervals: the moment of its last turn.
        since: the moment at which the process started, when the first intervals begin; None for a plan.
        tried: groups that were tried out.
        running_since: when the scheduler last stalled or the time of day was set, in microseconds since 1970; 0 if
            neither has happened since it started.
    """

    moment: int = 0
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    turns: Mapping[str, int] = field(default_factory=dict)
    since: int | None = None
    tried: TriedGroups = TriedGroups()
    running_since: int = 0

    def at(self, moment: int) -> AdmissionBackoff:
        """Return a copy at a later moment."""
        return dataclasses.replace(self, moment=moment)


NO_BACKOFF = AdmissionBackoff()
"""The state before the first cycle."""
