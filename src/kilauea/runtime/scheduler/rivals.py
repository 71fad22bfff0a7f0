"""Detects a second scheduler for the same pods: waiting pods that another process binds.

Two schedulers with the same name bind the same pods, in conflict with each other's plans, and each evicts for its own.
Leases do not help if they are different. The only sign in every cluster is a bind by another process.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

QUIET_SECONDS = 30
"""Seconds after the start of scheduling in which binds of the previous leader may still arrive."""
WINDOW_SECONDS = 60
MANY = 3
"""Number of binds by another process within the window from which it is considered a scheduler, not a person."""
REPEAT_SECONDS = 600

log = logging.getLogger(__name__)


class Rivals:
    """Counts pods that another process has bound.

    Args:
        names: names of this scheduler.
        clock: the time.
    """

    def __init__(self, names: Sequence[str], clock: Clock) -> None:
        self._names = names
        self._clock = clock
        self._since: int | None = None
        self._seen: deque[int] = deque(maxlen=MANY)
        self._said_at: int | None = None

    def lead(self) -> None:
        """Record that this process schedules from now on."""
        self._since = self._clock.monotonic()

    def bound(self, pod: str, node: str) -> None:
        """Record that a pod is on a node to which this process has not bound it."""
        now = self._clock.monotonic()
        if self._since is None or now - self._since < QUIET_SECONDS * SECOND:
            return
        self._seen.append(now)
        often = len(self._seen) == MANY and now - self._seen[0] <= WINDOW_SECONDS * SECOND
        if often and (self._said_at is None or now - self._said_at >= REPEAT_SECONDS * SECOND):
            self._said_at = now
            log.warning(
                "another scheduler binds pods of %s, for example %s to node %s: stop one of them, or give them "
                "different names with --scheduler-name; `kilauea doctor` shows both",
                ", ".join(self._names),
                pod,
                node,
            )
