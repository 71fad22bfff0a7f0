"""The memory between cycles: admitted groups that could not be placed, and turns of plugins that act at intervals.

The rules about groups are admission backoff's; those about trials are in `kilauea.engine.placement.trials`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempts to place a group.

    Attributes:
        creation: of the group; one that comes to its name after it is another.
        since: the moment since which it is admitted in vain.
        times: how often in a row it has given its admission back.
        until: the moment until which it is not admitted without a change; 0 while it is admitted.
        told: that moment as a time of day, in microseconds since 1970.
    """

    creation: int
    since: int
    times: int = 0
    until: int = 0
    told: int = 0


@dataclass(frozen=True, slots=True)
class TriedGroups:
    """The outcome of trying groups out that wait to be admitted, which takes several cycles where they are many.

    Attributes:
        line: keys of groups that asked for a trial and got none, those first that wait longest for one.
        fitting: by key of a group that could be placed: the moment since which that is known.
    """

    line: tuple[str, ...] = ()
    fitting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdmissionBackoff:
    """The groups that are admitted in vain, or were.

    Attributes:
        moment: of the cycle, in microseconds by a clock that never goes backward.
        attempts: by key of the group.
        turns: by plugin that acts at intervals: the moment of its last turn.
        since: the moment at which the process started, from which first intervals count; None for a plan.
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
        """The same at a later moment."""
        return dataclasses.replace(self, moment=moment)


NO_BACKOFF = AdmissionBackoff()
"""The state before the first cycle."""
