"""Protect pods that have just been placed from eviction for a while.

What:
    A pod can request a cooldown time by label or annotation `volcano.sh/cooldown-time` (a duration such as `600s`; the
    label takes precedence). While the pod runs and this time has not passed since it was scheduled, it is not evicted.

Why:
    A service that is evicted every few minutes is never useful, and a job that loads a large model has done nothing yet
    if it is evicted right away.

Arguments:
    None. Flags: `enablePreemptable`, `enableReclaimable`.

    The time starts when the pod is scheduled (its condition `PodScheduled`), not when its containers run. A pod without
    that condition, or with an invalid duration, is not protected.

Example:
    tiers:
    - plugins:
      - name: cdp

Difference from the original:
    Times are counted in whole microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.times import parse_duration
from kilauea.engine.conf import Finding
from kilauea.engine.extension import PERMIT, SpareReason
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

COOLING_DOWN = SpareReason("CoolingDown", "placed less than its cooldown time ago")


class Cdp(Plugin):
    """See the module."""

    name = "cdp"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._noted: set[str] = set()
        session.add_preemptable(self.name, self._vote, why=COOLING_DOWN)
        session.add_reclaimable(self.name, self._vote, why=COOLING_DOWN)

    def _vote(self, _: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        return [task for task in candidates if not self._protected(task)], PERMIT

    def _protected(self, task: Task) -> bool:
        """Return True if the pod runs, and was scheduled less than its cooldown ago."""
        if not task.cooldown:
            return False
        try:
            cooldown = parse_duration(task.cooldown)
        except ValueError as error:
            if task.key not in self._noted:
                self._noted.add(task.key)
                message = f"its cooldown time protects nothing: {error}"
                self._session.findings.append(Finding(f"pod {task.key}", message, code="wrong-value"))
            return False
        return task.scheduled > 0 and task.scheduled + cooldown > self._session.now
