"""Admission that leads nowhere is given back: a group that was admitted and cannot be placed for many cycles.

It holds quota that others wait for. So it goes back to the door, and is not admitted again for a while that doubles
each time; then it is in line again. Nothing is taken from a group while nobody waits for it. A group without
`minResources` holds no quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kilauea.api.times import SECOND, format_time
from kilauea.engine.conf import PluginConf, SchedulerConf
from kilauea.engine.extension import ABSTAIN, REJECT, Refusal
from kilauea.engine.model.jobs import INQUEUE, PENDING, Job
from kilauea.engine.plan import GroupOutcome, Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState

FRUITLESS = 60
"""Whole cycles after which a group gives its admission back."""
FIRST, LONGEST = 30 * SECOND, 900 * SECOND
"""Microseconds for which it is not admitted again, the first time and at most."""
PLACED = ("Binding", "Bound", "Running", "Releasing", "Pipelined")


class GivingBack:
    """Counts fruitless cycles, and says who is not to be admitted for now."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._times: dict[str, int] = {}
        """How often each group gave back since it last had a pod placed."""
        self._until: dict[str, int] = {}

    def after(self, plan: Plan, state: ClusterState, now: int) -> dict[str, GroupOutcome]:
        """Groups that go back to the door after a whole cycle, with their outcome."""
        waiting = any(o.phase == PENDING and o.refusal is not None for o in plan.groups.values())
        fruitless = {key: o for key, o in plan.groups.items() if _is_fruitless(o, state.jobs.get(key))}
        self._counts = {key: self._counts.get(key, 0) + 1 for key in fruitless}
        self._times = {key: n for key, n in self._times.items() if key in fruitless or key in self._until}
        self._until = {key: until for key, until in self._until.items() if until > now}
        if not waiting:
            return {}
        out = {}
        for key, count in self._counts.items():
            if count >= FRUITLESS:
                times = self._times[key] = self._times.get(key, 0) + 1
                self._until[key] = now + min(FIRST << (times - 1), LONGEST)
                refusal = self._refusal(key)
                out[key] = dataclasses.replace(fruitless[key], phase=PENDING, condition=None, refusal=refusal)
        return out

    def _refusal(self, key: str) -> Refusal:
        until = format_time(self._until[key] // SECOND * SECOND)
        message = f"could not be placed in {FRUITLESS} cycles after its admission, which others waited for"
        return Refusal("AdmissionGivenBack", f"{message}; it is in line again at {until}")

    def refusal(self, key: str, now: int) -> Refusal | None:
        """Why a group is not admitted now; None if it may be."""
        return self._refusal(key) if self._until.get(key, 0) > now else None

    def applied(
        self, conf: SchedulerConf, plugins: Mapping[str, type[Plugin]]
    ) -> tuple[SchedulerConf, Mapping[str, type[Plugin]]]:
        """The configuration and plugins by which the groups that gave back are not admitted yet."""
        if not self._until:
            return conf, plugins
        door = _door(self)
        return dataclasses.replace(conf, tiers=((PluginConf(door.name),), *conf.tiers)), {**plugins, door.name: door}


def _is_fruitless(outcome: GroupOutcome, job: Job | None) -> bool:
    """Whether a group is admitted, holds quota, and has nothing placed."""
    if job is None or job.min_resources is None or outcome.phase != INQUEUE:
        return False
    return bool(job.tasks) and not any(outcome.counts.get(name) for name in PLACED)


def _door(giving_back: GivingBack) -> type[Plugin]:
    """A plugin that votes against those who gave back."""

    class Door(Plugin):
        """Stands before all others."""

        name = "admission-given-back"

        def on_session_open(self, session: Session) -> None:
            now = session.now

            def vote(job: Any) -> tuple[int, Refusal | None]:
                refusal = giving_back.refusal(job.key, now)
                return (REJECT, refusal) if refusal else (ABSTAIN, None)

            session.add_job_enqueueable(self.name, vote)

    return Door
